"""Fills a cell with an estate as the pipeline would, without the log and Spark in between."""

from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

from lily.assets.change import Message
from lily.assets.claims import when
from lily.cli.bench.estate import Document, asset
from lily.events.lanes import lane_of
from lily.events.observations import AssetSeen
from lily.store.ingest import Batch, Incoming, Ingest
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core

CHUNK = 5_000


def fill(
    system: Core, tenant: Tenant, count: int, done: Callable[[int], None] = lambda _: None
) -> None:
    """Make the first `count` assets of the estate exist; what exists already is left as it is."""
    ingest = Ingest(effective, lambda _: tenant, lambda _: {})
    began = system.clock.now()
    for start in range(0, count, CHUNK):
        numbers = range(start, min(start + CHUNK, count))
        incoming = [_incoming(tenant, number, asset(number), began) for number in numbers]
        with system.database.cell(tenant.cell) as conn:
            ingest.apply(conn, Batch(uuid4(), [], incoming, []), system.clock.now())
        done(numbers.stop)


def _incoming(tenant: Tenant, number: int, document: Document, at: datetime) -> Incoming:
    seen = AssetSeen(**document)
    message = Message(seen, document["data_source"], "bench", str(uuid4()), when(at, number))
    return Incoming(tenant.number, lane_of(seen.qualified_name), number, message)
