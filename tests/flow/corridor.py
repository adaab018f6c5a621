"""The corridor without Spark: what is in the log goes through the ingest job, now."""

from threading import Event
from uuid import UUID, uuid4

from lily.events.envelope import Envelope
from lily.events.lineage import EdgeGone, EdgeSeen
from lily.events.observations import Observation
from lily.log import postgres as log
from lily.pipeline.ingest import Job, Piece, Stretches
from lily.store import positions
from lily.types import Tenant
from lily.wiring import Core


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

    def run(self, cell: str = "home") -> None:
        """Apply everything that is in the log of a cell."""
        stretches: Stretches = {}
        with self._system.database.cell(cell) as conn:
            for lane, start in positions.applied(conn).items():
                rows = log.read(conn, lane, start, 2**62, 100_000)
                if rows:
                    stretches[Piece(cell, lane, start, rows[-1][0])] = [
                        (row[0], row[1], row[2], row[3], row[4]) for row in rows
                    ]
        if stretches:
            assert self._job.apply_cell(cell, stretches)

    def close(self) -> None:
        self._job.close()
