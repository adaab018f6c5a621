"""Validity of assignments: what begins or ends at a moment does so then."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from lily.assets import labels
from lily.assets.change import Context
from lily.assets.edits import Who
from lily.assets.names import as_guid, guid_of
from lily.clock import Clock
from lily.store import assets, definitions, feed, priority
from lily.store.database import Database, Unit
from lily.store.edits import patiently
from lily.tags.effective import effective, own
from lily.types import Tenant

CHUNK = 500

# As the index has it.
_OPEN = (
    "((state = 'scheduled' AND valid_from IS NOT NULL)"
    " OR (state = 'active' AND valid_until IS NOT NULL))"
)
_DUE = "CASE state WHEN 'scheduled' THEN valid_from ELSE valid_until END"
NEXT = f"SELECT min({_DUE}) FROM tag_assignment WHERE tenant = ANY(%s) AND {_OPEN}"
WHO = (
    "SELECT DISTINCT tenant FROM tag_assignment"
    f" WHERE tenant = ANY(%s) AND {_OPEN} AND {_DUE} <= %s"
)
ASSETS = f"""
SELECT a.guid, a.lane, a.qualified_name FROM asset a
 WHERE a.tenant = %(tenant)s AND a.guid IN (
   SELECT guid FROM tag_assignment WHERE tenant = %(tenant)s AND {_OPEN} AND {_DUE} <= %(now)s
    ORDER BY {_DUE} LIMIT %(chunk)s)
"""


def next_due(database: Database, cell: str, tenants: Sequence[Tenant]) -> datetime | None:
    """When the next assignment of these tenants begins or ends."""
    numbers = [tenant.number for tenant in tenants]
    with database.cell(cell, numbers) as conn:
        row = conn.execute(NEXT, [numbers]).fetchone()
    return row[0] if row else None


def due(database: Database, clock: Clock, cell: str, tenants: Sequence[Tenant]) -> list[Tenant]:
    """The tenants for whom something begins or ends now."""
    numbers = [tenant.number for tenant in tenants]
    with database.cell(cell, numbers) as conn:
        found = {number for (number,) in conn.execute(WHO, [numbers, clock.now()])}
    return [tenant for tenant in tenants if tenant.number in found]


def come_due(database: Database, tenant: Tenant, now: datetime, chunk: int = CHUNK) -> int:
    """Let a chunk of what is due begin and end; on how many assets."""
    return patiently(lambda: _come_due(database, tenant, now, chunk))


def _come_due(database: Database, tenant: Tenant, now: datetime, chunk: int) -> int:
    number = tenant.number
    ranks = priority.ranks(database, tenant)
    with database.cell(tenant.cell, [number]) as conn:
        rows = conn.execute(ASSETS, {"tenant": number, "now": now, "chunk": chunk}).fetchall()
        unit = Unit(conn, tenant)
        groups = definitions.book(database, unit).groups

        def resolve(name: str) -> UUID:
            return as_guid(name) or guid_of(tenant.id, name)

        context = Context(now, effective, resolve, ranks, groups, own)
        who = Who("system", f"expiry:{now.isoformat()}")
        found = assets.load(conn, {(number, guid): (lane, name) for guid, lane, name in rows})
        facts, changed = [], []
        for known in found.values():
            if known.asset is None:
                continue
            outcome = labels.come_due(known, who, context)
            if outcome.assigned:
                changed.append(known)
                assets.save_assignments(conn, known, outcome.assigned, now)
                facts += outcome.facts
        if facts:
            first = feed.record(unit, facts)
            places = {fact.guid: first + index for index, fact in enumerate(facts)}
            for known in changed:
                assert known.asset is not None
                known.asset.feed_position = places.get(known.guid, known.asset.feed_position)
        assets.save(conn, [known.asset for known in changed if known.asset is not None])
        return len(changed)
