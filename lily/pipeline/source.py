"""The event log in PostgreSQL as a Spark streaming source.

Spark runs the reader in a Python process of its own on the driver. It long-polls, hands over one
Arrow batch a read, and starts where the store says that the last batch was committed.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from lily import wiring
from lily.log.tail import Offsets, Stretch, Tail
from lily.store import positions
from lily.store.database import Database
from lily.types import LANES, Lane

NAME = "lily-log"
# Which stretch of the log a row belongs to is one short text: columns cost more than bytes.
SCHEMA = "stretch string, offset long, tenant int, at timestamp, key string, value string"
ARROW = pa.schema(
    [
        ("stretch", pa.string()), ("offset", pa.int64()), ("tenant", pa.int32()),
        ("at", pa.timestamp("us", "UTC")), ("key", pa.string()), ("value", pa.string()),
    ]
)  # fmt: skip
WAIT = 2.0


class LogSource(DataSource):
    """`spark.readStream.format("lily-log").option("settings", path)`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return LogReader(self.options["settings"])


class LogReader(SimpleDataSourceStreamReader):
    """Opens its connections in the process that reads, not where it is built."""

    def __init__(self, settings: str) -> None:
        self._settings = settings
        self._database: Database | None = None
        self._tail: Tail | None = None

    def initialOffset(self) -> dict[str, Any]:
        return _pack(self._applied())

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        offsets = self._with_new_cells(_unpack(start))
        stretches = self._open().read(offsets, WAIT)
        if not stretches:
            return iter([]), start
        for stretch in stretches:
            offsets.setdefault(stretch.cell, {})[stretch.lane] = stretch.end
        return iter([_arrow(stretches)]), _pack(offsets)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        return iter([_arrow(self._open().between(_unpack(start), _unpack(end)))])

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the store has committed the position together with the rows."""

    def _open(self) -> Tail:
        if self._tail is None:
            database = self._connect()
            self._tail = Tail(lambda: {cell: database.role_url(cell) for cell in database.cells()})
        return self._tail

    def _connect(self) -> Database:
        if self._database is None:
            self._database = wiring.reopen(self._settings, "lily_system").database
        return self._database

    def _applied(self) -> Offsets:
        """Of every cell that answers; one that is away joins when it is back."""
        database = self._connect()
        found: Offsets = {}

        def look(cell: str) -> None:
            with database.cell(cell) as conn:
                found[cell] = positions.applied(conn)

        database.each_cell(look)
        return found

    def _with_new_cells(self, offsets: Offsets) -> Offsets:
        """A cell made since the start begins where its own store says."""
        known = self._open().cells()
        if all(cell in offsets for cell in known):
            return offsets
        return {**self._applied(), **offsets}


def _arrow(stretches: list[Stretch]) -> pa.RecordBatch:
    columns: list[list[Any]] = [[] for _ in ARROW]
    for stretch in stretches:
        if stretch.rows:
            columns[0].extend([_label(stretch)] * len(stretch.rows))
            for index, values in enumerate(zip(*stretch.rows, strict=True), 1):
                columns[index].extend(values)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def _label(stretch: Stretch) -> str:
    return f"{stretch.lane}/{stretch.start}/{stretch.end}/{stretch.cell}"


def parse_label(label: str) -> tuple[str, Lane, int, int]:
    """Cell, lane, start, end; the name of a cell may hold anything, so it comes last."""
    lane, start, end, cell = label.split("/", 3)
    return cell, "core" if lane == "core" else "fields", int(start), int(end)


def _pack(offsets: Offsets) -> dict[str, Any]:
    return {cell: {lane: lanes.get(lane, 0) for lane in LANES} for cell, lanes in offsets.items()}


def _unpack(packed: dict[str, Any]) -> Offsets:
    return {cell: dict(lanes) for cell, lanes in packed.items()}
