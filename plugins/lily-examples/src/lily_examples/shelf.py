"""A gateway: reads CSV files of a folder for others, each file a table."""

from pathlib import Path
from threading import Timer
from typing import Literal

import duckdb
from pydantic import BaseModel

from lily.sdk import Reject
from lily.sdk.gateways import Result


class Shelf:
    """The files are read when the gateway is made; statements see nothing but these tables."""

    dialect: Literal["duckdb"] = "duckdb"
    default_schema = "main"

    class Options(BaseModel):
        path: Path

    def __init__(self, options: Options) -> None:
        self._name = options.path.name
        self._tables = duckdb.connect()
        for file in sorted(options.path.glob("*.csv")):
            rows = self._tables.read_csv(str(file))
            rows.create(file.stem)
        self._tables.execute("SET enable_external_access = false")
        self._tables.execute("SET lock_configuration = true")

    def table(self, schema: str, name: str) -> str:
        return f"shelf://{self._name}/{name}"

    def run(self, sql: str, seconds: float, rows: int) -> Result:
        cursor = self._tables.cursor()
        timer = Timer(seconds, cursor.interrupt)
        timer.start()
        try:
            found = cursor.execute(sql).fetchmany(rows + 1)
            names = tuple(each[0] for each in cursor.description or ())
        except duckdb.Error as cause:
            raise Reject(f"the statement is refused: {type(cause).__name__}") from None
        finally:
            timer.cancel()
            cursor.close()
        return Result(names, found[:rows], len(found) > rows)
