"""Edges applied at once, without a pipeline, and the graph as the store tells it."""

import itertools
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from lily.assets.claims import when
from lily.assets.names import guid_of
from lily.events.lanes import lane_of
from lily.events.lineage import EdgeGone, EdgeObservation, EdgeSeen
from lily.lineage.edges import EdgeMessage
from lily.store.ingest import PART, Batch, Incoming, Ingest
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core

_offsets = itertools.count(10_000_000)


def join(start: str, end: str, label: str = "derived-from", **more: Any) -> EdgeSeen:
    return EdgeSeen(from_name=start, to_name=end, relationship_type=label, **more)


def part(start: str, end: str, label: str = "derived-from") -> EdgeGone:
    return EdgeGone(from_name=start, to_name=end, relationship_type=label)


def edge_message(
    seen: EdgeObservation, source: str, at: datetime, offset: int | None = None
) -> EdgeMessage:
    place = next(_offsets) if offset is None else offset
    return EdgeMessage(seen, source, "test", str(uuid4()), when(at, place))


def arrivals(tenant: Tenant, messages: Iterable[EdgeMessage]) -> list[Incoming]:
    return [
        Incoming(tenant.number, lane_of(m.seen.qualified_name), m.when[1], m, "{}")
        for m in messages
    ]


def commit(system: Core, tenant: Tenant, incoming: list[Incoming], part: int = PART) -> None:
    ingest = Ingest(effective, lambda _: tenant, lambda _: {}, part)
    with system.database.cell(tenant.cell) as conn:
        ingest.apply(conn, Batch(uuid4(), [], incoming, []), system.clock.now())


def tell(
    system: Core,
    tenant: Tenant,
    *said: EdgeObservation,
    source: str = "crawler",
    at: datetime | None = None,
) -> list[str]:
    """One source speaks of edges, in one batch; returns the causes."""
    messages = [edge_message(each, source, at or system.clock.now()) for each in said]
    commit(system, tenant, arrivals(tenant, messages))
    return [message.cause for message in messages]


def rows(core: Core, tenant: Tenant, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with core.database.unit(tenant) as unit:
        return unit.conn.execute(query.encode(), list(values)).fetchall()


def live(core: Core, tenant: Tenant) -> set[tuple[UUID, UUID, str, bool]]:
    """The graph that everybody sees."""
    query = "SELECT upstream, downstream, type, implied FROM live_edge WHERE tenant = %s"
    return {(up, down, kind, implied) for up, down, kind, implied in rows(
        core, tenant, query, tenant.number)}  # fmt: skip


def guid(tenant: Tenant, name: str) -> UUID:
    return guid_of(tenant.id, name)
