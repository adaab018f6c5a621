"""The corridor without Spark: what is in the log goes through the ingest job, now."""

from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa

from lily import wiring
from lily.events.envelope import Envelope
from lily.events.lineage import EdgeGone, EdgeSeen
from lily.events.observations import Observation
from lily.log import postgres as log
from lily.log.kafka import Kafka
from lily.log.kafka_reader import KafkaReader
from lily.pipeline.ingest import Job, Piece, Stretches
from lily.pipeline.kafka import COLUMNS, KafkaStage
from lily.store import positions
from lily.types import Lane, Tenant
from lily.wiring import Core

END = 2**62  # of a log: beyond everything


def append(
    core: Core, tenant: Tenant, *seen: Observation | EdgeSeen | EdgeGone, source: str = "test"
) -> list[UUID]:
    """Put observations into the log, as the API would; returns their causes."""
    envelopes = [
        Envelope(id=uuid4(), tenant=tenant.number, source=source, by="test", observation=each)
        for each in seen
    ]
    with core.database.unit(tenant) as unit:
        log.append_in(unit.conn, envelopes, [each.qualified_name for each in seen])
    return [envelope.id for envelope in envelopes]


class Corridor:
    """An ingest job that works when told to."""

    def __init__(self, system: Core) -> None:
        self._system = system
        self._job = Job(system, Event())
        kafka = wiring.kafka(system.settings)
        self._topics = Topics(system, kafka, self._job) if kafka else None

    def run(self, cell: str = "home") -> None:
        """Apply everything that is in the log of a cell."""
        stretches: Stretches = {}
        with self._system.database.cell(cell) as conn:
            for lane, start in positions.applied(conn).items():
                rows = log.read(conn, lane, start, END, 100_000)
                if rows:
                    stretches[Piece(cell, lane, start, rows[-1][0])] = [
                        (row[0], row[1], row[2], row[3], row[4]) for row in rows
                    ]
        if stretches:
            assert self._job.apply_cell(cell, stretches)
        if self._topics is not None:
            self._topics.run()

    def close(self) -> None:
        if self._topics is not None:
            self._topics.close()
        self._job.close()


def unread(system: Core, tenant: Tenant) -> list[str]:
    """Names of a tenant's assets in Kafka, if that is the log, that are not applied yet."""
    kafka = wiring.kafka(system.settings)
    if kafka is None:
        return []
    with system.database.cell(tenant.cell) as conn:
        parts = positions.parts(conn)
    reader = KafkaReader(kafka)
    try:
        found = reader.read(
            {
                (kafka.topic(lane, tenant.cell), part - 1): (at, END)
                for (lane, part), at in parts.items()
            }
        )
    finally:
        reader.close()
    keys = [each.key.decode() for each in found if b'"type":"Edge' not in each.value]
    return [
        name
        for number, _, name in (key.partition("/") for key in keys)
        if number == str(tenant.number)
    ]


class Topics(KafkaStage):
    """The log in Kafka, with a consumer of ours in place of Spark's."""

    def __init__(self, system: Core, kafka: Kafka, job: Job) -> None:
        nobody: Any = None  # is asked to run a query
        super().__init__(system, kafka, job, nobody)
        self._reader = KafkaReader(kafka)
        self._start()  # makes the topics: until then nobody can append

    def run(self) -> None:
        """Apply everything that is there, of all cells."""
        self._start()
        here = {
            (self._kafka.topic(lane, cell), part - 1): (position, END)
            for (cell, lane, part), position in self._cursors.items()
        }
        found = self._reader.read(here)
        if found:
            table = pa.table(dict(zip(COLUMNS, map(list, zip(*found, strict=True)), strict=True)))
            self._job.take(partial(self._gather, table))
            self._job.settle()

    def close(self) -> None:
        self._reader.close()
        super().close()

    def _query(self, lane: Lane) -> Any:
        return SimpleNamespace(isActive=True, stop=lambda: None)
