"""What a gateway promises: SQL of others, already made safe, run with nothing but reading."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec


class Result(msgspec.Struct, frozen=True):
    """Rows as the engine gives them; `truncated` when there were more."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    truncated: bool


class Gateway(Protocol):
    """An engine that reads for somebody else. Plain blocking code."""

    dialect: Literal["postgres", "duckdb"]
    default_schema: str

    def table(self, schema: str, name: str) -> str:
        """The qualified name under which a crawler knows this table."""

    def run(self, sql: str, seconds: float, rows: int) -> Result:
        """Read only, at most so long, at most so many rows.

        Raise Reject when the engine refuses the statement, Retry when it cannot be reached.
        What is raised must not repeat values of rows.
        """
