"""Observations applied at once, without a pipeline: the same merge, in the test's own thread."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from lily.assets.change import Message
from lily.assets.claims import when
from lily.assets.model import Asset
from lily.events.lanes import lane_of
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.store import views
from lily.store.ingest import Batch, Incoming, Ingest
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core

_offsets = itertools.count(1)


def seen(
    system: Core,
    tenant: Tenant,
    qualified_name: str,
    source: str = "crawler",
    at: datetime | None = None,
    **fields: Any,
) -> str:
    """One source sees one asset; returns the cause."""
    return apply(system, tenant, [AssetSeen(qualified_name=qualified_name, **fields)], source, at)[
        0
    ]


def gone(system: Core, tenant: Tenant, qualified_name: str, source: str = "crawler") -> str:
    return apply(system, tenant, [AssetGone(qualified_name=qualified_name)], source)[0]


def apply(
    system: Core,
    tenant: Tenant,
    observations: Iterable[Observation],
    source: str = "crawler",
    at: datetime | None = None,
) -> list[str]:
    """Commit observations as one batch; returns their causes."""
    incoming = [_incoming(tenant, each, source, at or system.clock.now()) for each in observations]
    ingest = Ingest(effective, lambda _: tenant, lambda _: {})
    with system.database.cell(tenant.cell) as conn:
        ingest.apply(conn, Batch(uuid4(), [], incoming, []), system.clock.now())
    return [each.message.cause for each in incoming]


def _incoming(tenant: Tenant, each: Observation, source: str, at: datetime) -> Incoming:
    offset = next(_offsets)
    message = Message(each, source, "test", str(uuid4()), when(at, offset))
    return Incoming(tenant.number, lane_of(each.qualified_name), offset, message)


def read(core: Core, tenant: Tenant, given: str) -> Asset:
    """The asset as it is stored now."""
    with core.database.unit(tenant) as unit:
        return views.find(unit, given)


def ago(**span: float) -> datetime:
    """A moment before a fixed day, for observations that should be old."""
    return datetime(2026, 1, 1, tzinfo=UTC) - timedelta(**span)
