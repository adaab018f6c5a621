"""Sources whose tool understands SQL: where the names in a statement lie."""

from typing import Protocol, runtime_checkable

import msgspec


class SqlPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A table is `{namespace}/{catalog}.{schema}.{table}`; what a statement leaves out is here."""

    namespace: str
    dialect: str = ""
    catalog: str | None = None
    schema: str | None = None


@runtime_checkable
class Queried(Protocol):
    """A source that can tell how the names in SQL become names of its assets."""

    def sql_place(self) -> SqlPlace | None:
        """None where its options do not tell."""
