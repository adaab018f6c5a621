"""The log in Kafka, read by Spark's own source; a batch becomes the same as one from PostgreSQL.

The position of each partition is committed with the rows, so a lost checkpoint loses nothing: the
queries start where the store says, and what is behind a position already is skipped.
"""

import json
from collections import defaultdict
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily import wiring
from lily.errors import PluginError, Unavailable
from lily.events.envelope import Envelope
from lily.events.signed import HEADER, Door, Opened, Refused
from lily.log import kafka as cluster
from lily.log.kafka import Kafka, lane_of_topic
from lily.log.kafka_lag import KafkaLag
from lily.log.kafka_writer import Headers
from lily.log.postgres import record_of
from lily.pipeline.decode import Row
from lily.pipeline.ingest import Gathered, Job, Piece
from lily.pipeline.session import fresh_checkpoint, progress
from lily.store import positions
from lily.store.ingest import DeadLetter
from lily.store.producer_keys import Keys
from lily.telemetry import logger
from lily.types import LANES, Lane, Place
from lily.wiring import Core

# Of the headers only ours: a list of pairs for each record costs as much as all the rest of it.
SIGNATURE = f"try_element_at(filter(headers, h -> h.key = '{HEADER}'), -1).value AS signature"
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "signature")
SHARES: dict[Lane, int] = {"core": 5_000, "fields": 1_000}
# Columns may wait a little; asking Kafka what is new costs as much as telling it.
TRIGGERS: dict[Lane, str] = {"core": "0 seconds", "fields": "200 milliseconds"}
POLL = "20ms"
PAUSE = 1.0
NEW_CELLS = 5.0
AGAIN = 0.25  # until a record of a tenant on the move comes by again, if nothing else does

Spot = tuple[str, Lane, int]  # cell, lane, part


class Found(NamedTuple):
    """Kafka is the log, and the jars to read it are there."""

    kafka: Kafka
    options: dict[str, str]

    def stage(self, core: Core, job: Job, spark: SparkSession, stop: Event) -> "KafkaStage | None":
        """A stage that runs: until Kafka answers, or somebody wants to stop."""
        made = KafkaStage(core, self.kafka, job, spark)
        while not stop.is_set():
            made.check()
            if made.runs:
                return made
            stop.wait(PAUSE)
        made.close()
        return None


def find(core: Core) -> Found | None:
    """Raises PluginError where Kafka is the log and Spark cannot read it."""
    kafka = wiring.kafka(core.settings)
    if kafka is None:
        return None
    if not wiring.reads_kafka(core.settings):
        raise PluginError("Spark cannot read Kafka without its jars: run `make jars`.")
    names = ",".join(map(str, wiring.jars(core.settings)))
    return Found(kafka, {"spark.jars": names, "spark.sql.streaming.pollingDelay": POLL})


class Arrived(NamedTuple):
    """One record as Spark hands it over."""

    topic: str
    partition: int
    offset: int
    at: Any
    key: bytes
    value: bytes
    signature: bytes | None


class Rest(NamedTuple):
    """What of a batch is not for this cell: of nobody known, and to be sent on by topic."""

    lost: list[tuple[Arrived, str]]
    onward: dict[str, list[tuple[bytes, bytes, Headers]]]


class KafkaStage:
    """The queries over Kafka. Whatever happens to the broker, they are started again."""

    def __init__(self, core: Core, kafka: Kafka, job: Job, spark: SparkSession) -> None:
        self._core = core
        self._kafka = kafka
        self._job = job
        self._spark = spark
        self._checkpoints: Path = core.settings.home / "checkpoints" / "kafka"
        self.writer = wiring.kafka_writer(core, kafka)
        keys = Keys(core.database, core.seal.open)
        self._door = Door(core.seal.derived("lily"), keys)
        self._queries: list[StreamingQuery] = []
        self._cursors: dict[Spot, int] = {}
        self._cells: set[str] = set()
        self._homes: dict[int, str] = {}  # cells of tenants
        self._lag = KafkaLag(kafka)
        self._failure: BaseException | None = None
        self._round = False
        self._next_try = self._next_look = 0.0

    @property
    def runs(self) -> bool:
        return bool(self._queries)

    def check(self) -> None:
        """Keep the queries running: a broker or a cell that was away may be back."""
        if self._failure is not None:
            raise self._failure
        ended = [query for query in self._queries if not query.isActive]
        if ended:
            logger(__name__).warning("kafka is away", reason=str(ended[0].exception())[:500])
        elif self._queries and monotonic() < self._next_look:
            return
        if ended or (self._queries and self._reachable() != self._cells):
            self.stop()
        if not self._queries and monotonic() >= self._next_try:
            self._try()
        self._next_look = monotonic() + NEW_CELLS

    def note(self, envelope: Envelope) -> Place:
        """Write one of our own observations; returns where it is."""
        self.check()
        return self.writer.append(record_of(envelope, ""))

    def stop(self) -> None:
        for query in self._queries:
            query.stop()
        self._queries = []

    def close(self) -> None:
        self.stop()
        self.writer.close()
        self._lag.close()

    def lag(self) -> dict[Lane, float]:
        """Seconds that the oldest waiting record of each lane has waited."""
        now = self._core.clock.now()
        found: dict[Lane, float] = {}
        for cell in self._cells:
            parts = {(lane, part): at for (c, lane, part), at in self._cursors.items() if c == cell}
            for lane, behind in self._lag.measure(cell, parts).items():
                age = (now - behind.oldest).total_seconds() if behind.oldest else 0.0
                found[lane] = max(found.get(lane, 0.0), round(age, 3))
        return found

    def _try(self) -> None:
        try:
            self._start()
        except Unavailable as cause:
            self._next_try = monotonic() + PAUSE
            logger(__name__).warning("kafka is not read yet", reason=str(cause))

    def _start(self) -> None:
        cells = self._reachable()
        counts = cluster.ensure(self._kafka, cells)
        with self._job.batch:
            self._job.settle()
            self._cursors = self._stored(cells, counts)
        self._cells = cells
        self._queries = [self._query(lane) for lane in LANES]

    def _query(self, lane: Lane) -> StreamingQuery:
        topics = {self._kafka.topic(lane, cell): cell for cell in self._cells}
        starts: dict[str, dict[str, int]] = {topic: {} for topic in topics}
        for (cell, of, part), position in self._cursors.items():
            if of == lane:
                starts[self._kafka.topic(lane, cell)][str(part - 1)] = position
        frame = (
            self._spark.readStream.format("kafka")
            .options(**self._kafka.spark())
            .option("subscribe", ",".join(topics))
            .option("startingOffsets", json.dumps(starts))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", SHARES[lane])
            .option("kafka.fetch.max.wait.ms", "10")
            .load()
            .selectExpr(*COLUMNS[:-1], SIGNATURE)
        )
        checkpoint = fresh_checkpoint(self._checkpoints / lane)
        return (
            frame.writeStream.foreachBatch(self._apply)
            .trigger(processingTime=TRIGGERS[lane])
            .options(**progress(checkpoint))
            .start()
        )

    def _apply(self, frame: DataFrame, number: int) -> None:
        table = frame.toArrow()  # what goes wrong here is Kafka's
        try:
            self._job.take(partial(self._gather, table))
            if self._round:
                sleep(AGAIN)
        except Unavailable:
            raise
        except Exception as cause:
            self._failure = cause
            raise

    def _gather(self, table: pa.Table) -> Gathered:
        """What is new in a batch, by cell, in the order of each partition."""
        columns = [table.column(name).to_pylist() for name in COLUMNS]
        arrived = sorted(map(Arrived, *columns))
        self._homes = {each.number: each.cell for each in self._core.database.tenants()}
        gathered = Gathered(defaultdict(dict), defaultdict(list))
        rest = Rest([], defaultdict(list))
        leaving = {cell: self._leaving(cell) for cell in self._cells}
        for (topic, partition), group in groupby(arrived, key=lambda each: each[:2]):
            lane, cell = lane_of_topic(self._kafka, topic)
            spot = (cell, lane, partition + 1)
            start = self._cursors[spot]
            new = [each for each in group if each.offset >= start]
            if not new:
                continue
            end = new[-1].offset + 1
            rows = self._rows(cell, lane, new, leaving[cell], gathered.dead[cell], rest)
            gathered.cells[cell][Piece(cell, lane, start, end, partition + 1)] = rows
            self._cursors[spot] = end
        self._round = bool(rest.onward) and not any(
            rows for stretches in gathered.cells.values() for rows in stretches.values()
        )
        self._bury(rest.lost)
        for topic, records in rest.onward.items():
            self.writer.tell(topic, records)
        self._number(gathered)
        return gathered

    def _rows(
        self, cell: str, lane: Lane, arrived: list[Arrived], leaving: set[int],
        dead: list[DeadLetter], rest: "Rest",
    ) -> list[Row]:  # fmt: skip
        rows: list[Row] = []
        for each in arrived:
            key, value = each.key or b"", each.value or b""
            opened = self._door.open(lane, key, value, each.signature)
            home = cell if opened.tenant is None else self._homes.get(opened.tenant, cell)
            if home != cell or opened.tenant in leaving:
                # Its tenant lives elsewhere, or will in a moment: then it comes by again.
                record = (key, value, _headers(each))
                rest.onward[self._kafka.topic(lane, home)].append(record)
            elif isinstance(opened, Opened):
                rows.append((0, opened.tenant, each.at, opened.key, opened.value))
            elif opened.tenant not in self._homes:
                rest.lost.append((each, opened.reason))
            else:
                dead.append(_letter(lane, each, opened, opened.tenant))
        return rows

    def _number(self, gathered: Gathered) -> None:
        """Give each row its place in the order of the store, as an append there would."""
        for cell, stretches in gathered.cells.items():
            with self._core.database.cell(cell) as conn:
                for lane in LANES:
                    own = [rows for piece, rows in stretches.items() if piece.lane == lane]
                    letters = [each for each in gathered.dead[cell] if each.lane == lane]
                    wanted = sum(map(len, own)) + len(letters)
                    places = iter(positions.reserve(conn, lane, wanted) if wanted else [])
                    for rows in own:
                        rows[:] = [(next(places), *row[1:]) for row in rows]
                    for letter in letters:
                        letter.offset = next(places)

    def _bury(self, lost: list[tuple[Arrived, str]]) -> None:
        """What belongs to nobody that we know goes to the topic of the dead, with the reason."""
        if not lost:
            return
        records: list[tuple[bytes, bytes, Headers]] = []
        for each, reason in lost:
            place = f"{each.topic}/{each.partition}/{each.offset}"
            told: Headers = [("lily-reason", reason), ("lily-place", place)]
            records.append((each.key or b"", each.value or b"", _headers(each) + told))
            logger(__name__).warning("dead record", place=place, reason=reason)
        self.writer.tell(self._kafka.dead, records)

    def _stored(self, cells: set[str], counts: dict[str, int]) -> dict[Spot, int]:
        found: dict[Spot, int] = {}
        for cell in cells:
            with self._core.database.cell(cell) as conn:
                for lane in LANES:
                    parts = counts[self._kafka.topic(lane, cell)]
                    for part, position in positions.begun(conn, lane, parts).items():
                        found[cell, lane, part] = position
        return found

    def _leaving(self, cell: str) -> set[int]:
        with self._core.database.cell(cell) as conn:
            return positions.leaving(conn)

    def _reachable(self) -> set[str]:
        found: set[str] = set()

        def look(cell: str) -> None:
            with self._core.database.cell(cell) as conn:
                conn.execute("SELECT 1")
            found.add(cell)

        self._core.database.each_cell(look)
        return found


def _headers(each: Arrived) -> Headers:
    return [(HEADER, each.signature)] if each.signature is not None else []


def _letter(lane: Lane, each: Arrived, refused: Refused, tenant: int) -> DeadLetter:
    place = f"{each.topic}/{each.partition}/{each.offset}"
    value = refused.value or (each.value or b"").decode("utf-8", "replace").replace("\0", "")
    key = (each.key or b"").decode("utf-8", "replace").replace("\0", "")
    cause = refused.cause or place
    return DeadLetter(tenant, cause, lane, 0, "validate", refused.reason, value, key, "kafka")
