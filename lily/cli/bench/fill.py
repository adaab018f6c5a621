"""Fills a cell with an estate as the pipeline would, without the log and Spark in between."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import uuid4

from lily.assets.change import Message
from lily.assets.claims import when
from lily.cli.bench.estate import FAMILY, Document, asset
from lily.cli.bench.place import Place
from lily.events.lanes import lane_of
from lily.events.observations import AssetSeen
from lily.store import raw
from lily.store.ingest import Batch, Incoming, Ingest
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core, core, home_url

CHUNK = 5_000


def fill(
    system: Core,
    tenant: Tenant,
    numbers: range,
    done: Callable[[int], None] = lambda _: None,
) -> None:
    """Make these assets of the estate exist; what exists already is left as it is."""
    ingest = Ingest(effective, lambda _: tenant, lambda _: {})
    began = system.clock.now()
    for start in range(0, len(numbers), CHUNK):
        chunk = numbers[start : start + CHUNK]
        incoming = [_incoming(tenant, number, asset(number), began) for number in chunk]
        with system.database.cell(tenant.cell) as conn:
            ingest.apply(conn, Batch(uuid4(), [], incoming, []), system.clock.now())
        done(start + len(chunk))


@contextmanager
def scratch(where: Place, assets: int) -> Iterator[str]:
    """A database beside that Lily's, with so many assets of the core lane, for raw limits."""
    with raw.scratch(home_url(where.settings)) as url:
        tenant = raw.first_tenant(url)
        settings = where.settings.model_copy(update={"database": url})
        system = core(settings, "lily_system", 1)
        try:
            fill(system, tenant, range(0, assets * FAMILY, FAMILY))
        finally:
            system.close()
        yield url


def _incoming(tenant: Tenant, number: int, document: Document, at: datetime) -> Incoming:
    seen = AssetSeen(**document)
    message = Message(seen, document["data_source"], "bench", str(uuid4()), when(at, number))
    return Incoming(tenant.number, lane_of(seen.qualified_name), number, message)
