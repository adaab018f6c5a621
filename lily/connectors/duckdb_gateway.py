"""Reads from a DuckDB file for others: no files, no network, nothing but the tables in it."""

from pathlib import Path
from threading import Timer
from typing import Literal

import duckdb
from pydantic import BaseModel, ConfigDict, Field

from lily.sdk import Reject, Retry
from lily.sdk.gateways import Result

LOCKED = ("SET enable_external_access = false", "SET lock_configuration = true")


class DuckGateway:
    """Runs rewritten SQL on a DuckDB database."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        path: Path = Field(description="The database file, in a folder that sources may read.")
        name: str | None = Field(
            None,
            pattern=r"^[^\s/#]+$",
            description="Of qualified names, duckdb://{name}/…; the file's own name if absent.",
        )

    dialect: Literal["duckdb"] = "duckdb"
    default_schema = "main"

    def __init__(self, options: Options) -> None:
        self._path = options.path
        self._name = options.name or options.path.stem

    def table(self, schema: str, name: str) -> str:
        return f"duckdb://{self._name}/{schema}.{name}"

    def run(self, sql: str, seconds: float, rows: int) -> Result:
        try:
            conn = duckdb.connect(str(self._path), read_only=True)
        except duckdb.Error as cause:
            raise Retry(f"DuckDB cannot be opened: {type(cause).__name__}") from None
        timer = Timer(seconds, conn.interrupt)
        try:
            for statement in LOCKED:
                conn.execute(statement)
            timer.start()
            found = conn.execute(sql).fetchmany(rows + 1)
            names = tuple(each[0] for each in conn.description or ())
        except duckdb.InterruptException:
            raise Reject(f"the statement took longer than {seconds:g} seconds") from None
        except duckdb.Error as cause:
            raise Reject(f"DuckDB refuses the statement: {type(cause).__name__}") from None
        finally:
            timer.cancel()
            conn.close()
        return Result(names, found[:rows], len(found) > rows)
