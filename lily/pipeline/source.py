"""The event log in PostgreSQL as a Spark streaming source.

Spark runs the reader in a Python process of its own on the driver. It long-polls, hands over one
Arrow batch a read, and starts where the store says that the last batch was committed. Until a file
appears, the one of a standby reads nothing, and hands over rehearsals instead: so all that a batch
passes through is warm when it begins.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from lily import wiring
from lily.clock import SystemClock
from lily.events.envelope import Envelope, encode
from lily.events.observations import Nothing
from lily.log.tail import Offsets, Stretch, Tail
from lily.pipeline.pace import Pace
from lily.store import positions
from lily.store.database import Database
from lily.types import LANES

NAME = "lily-log"
# A row of the frame is a packet of records, as a Kafka producer would batch them: what Spark does
# with a row costs a hundred times what it does with a kilobyte.
SCHEMA = "cell string, lane string, start long, end long, records binary"
ARROW = pa.schema(
    [
        ("cell", pa.string()), ("lane", pa.string()), ("start", pa.int64()), ("end", pa.int64()),
        ("records", pa.binary()),
    ]
)  # fmt: skip
PACKET = 500
Record = tuple[int, int, datetime, str, str]  # offset, tenant, at, key, value
WAIT = 2.0
REHEARSAL = ""  # no cell is called so
LOOK = 0.05
MANY = 40  # rehearsals one after the other; then now and then
REST = 15.0


class LogSource(DataSource):
    """`spark.readStream.format("lily-log").option("settings", path).option("begin", path)`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return LogReader(wiring.packed(self.options["settings"]), self.options["begin"])


class LogReader(SimpleDataSourceStreamReader):
    """Opens its connections in the process that reads, not where it is built."""

    def __init__(self, settings: str, begin: str) -> None:
        self._settings = settings
        self._begin = begin  # a file; while it is not there, somebody else reads
        self._rehearsed = float("-inf")
        self._database: Database | None = None
        self._tail: Tail | None = None
        self._pace = Pace()

    def initialOffset(self) -> dict[str, Any]:
        return _pack(self._applied() if self._begins(0.0) else {REHEARSAL: {}})

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        offsets = _unpack(start)
        if REHEARSAL in offsets:
            turns = offsets.pop(REHEARSAL)["core"]
            if not self._begins(0.0 if turns < MANY else WAIT):
                return self._rehearse(start, turns)
        offsets = self._with_new_cells(offsets)
        time.sleep(self._pace.linger(time.monotonic()))
        stretches = self._open().read(offsets, WAIT, self._pace.most)
        self._pace.took(sum(len(each.rows) for each in stretches))
        if not stretches:
            return iter([]), start
        for stretch in stretches:
            offsets.setdefault(stretch.cell, {})[stretch.lane] = stretch.end
        return iter([_arrow(stretches)]), _pack(offsets)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        return iter([_arrow(self._open().between(_unpack(start), _unpack(end)))])

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the store has committed the position together with the rows."""

    def _begins(self, seconds: float) -> bool:
        """Whether it is on us to read; waits so long for it."""
        end = time.monotonic() + seconds
        while not Path(self._begin).exists():
            if time.monotonic() >= end:
                return False
            time.sleep(LOOK)
        return True

    def _rehearse(self, start: dict[str, Any], turns: int) -> tuple[Iterator[Any], dict[str, Any]]:
        if turns >= MANY and time.monotonic() - self._rehearsed < REST:
            return iter([]), start
        self._rehearsed = time.monotonic()
        nothing = Envelope(id=uuid4(), tenant=0, source="lily", by="lily", observation=Nothing())
        row = (0, 0, SystemClock().now(), "", encode(nothing).decode())
        stretch = Stretch(REHEARSAL, "core", 0, 0, [row])
        return iter([_arrow([stretch])]), _pack({REHEARSAL: {"core": turns + 1}})

    def _open(self) -> Tail:
        if self._tail is None:
            database = self._connect()
            self._tail = Tail(lambda: {cell: database.role_url(cell) for cell in database.cells()})
        return self._tail

    def _connect(self) -> Database:
        if self._database is None:
            self._database = wiring.unpacked(self._settings, "lily_system").database
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
    rows = [
        (stretch.cell, stretch.lane, stretch.start, stretch.end, packet)
        for stretch in stretches
        for packet in _packets(stretch.rows)
    ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(ARROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def _packets(rows: list[tuple[Any, ...]]) -> Iterator[bytes]:
    for start in range(0, len(rows), PACKET):
        yield _encode(rows[start : start + PACKET])


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode


def unpack(packet: bytes) -> list[Record]:
    return _decode(packet)


def _pack(offsets: Offsets) -> dict[str, Any]:
    return {cell: {lane: lanes.get(lane, 0) for lane in LANES} for cell, lanes in offsets.items()}


def _unpack(packed: dict[str, Any]) -> Offsets:
    return {cell: dict(lanes) for cell, lanes in packed.items()}
