"""Signals applied at once, without a pipeline."""

import itertools
from typing import Any
from uuid import uuid4

from lily.assets.claims import when
from lily.events.signals import SignalSeen
from lily.incidents.model import Incident
from lily.store import feed, history, incidents, signals
from lily.store.signals import Heard
from lily.types import Tenant
from lily.wiring import Core

_offsets = itertools.count(1)


def heard(system: Core, tenant: Tenant, source: str = "montecarlo", **fields: Any) -> None:
    """One tool says one thing."""
    fields.setdefault("key", uuid4().hex)
    hear(system, tenant, SignalSeen(**fields), source)


def hear(system: Core, tenant: Tenant, signal: SignalSeen, source: str = "montecarlo") -> None:
    now = system.clock.now()
    offset = next(_offsets)
    message = Heard(tenant.number, offset, signal, source, source, uuid4().hex, when(now, offset))
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        assert signals.hear_all(conn, [message], lambda _: tenant, now) == []


def all_of(core: Core, tenant: Tenant) -> list[Incident]:
    """Every incident, the oldest first."""
    with core.database.unit(tenant) as unit:
        rows = unit.conn.execute(f"{incidents.SELECT} WHERE tenant = %s ORDER BY number",
                                 [tenant.number]).fetchall()  # fmt: skip
    return [incidents.read(row) for row in rows]


def facts(core: Core, tenant: Tenant, after: int = 0) -> list[tuple[str, dict[str, Any]]]:
    """What was told of incidents: kind, and after."""
    with core.database.unit(tenant) as unit:
        links = feed.after(unit, after, 10_000)
    told = [history.told(link) for link in links if link.kind.startswith("Incident")]
    return [(fact.kind, fact.after or {}) for fact in told]
