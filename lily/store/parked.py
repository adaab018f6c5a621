"""Incidents that wait for their asset, and assets that came back to theirs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import psycopg

from lily.assets.model import INCIDENTS
from lily.store import incidents
from lily.store.database import Unit
from lily.store.incidents import Who
from lily.store.placing import by_rule, place
from lily.types import Tenant

END = 2**62
PARKED = (
    f"{incidents.SELECT} WHERE tenant = %s AND guid IS NULL AND state <> 'resolved'"
    " AND number < %s ORDER BY number DESC LIMIT %s FOR UPDATE SKIP LOCKED"
)
WAITING = (
    "SELECT h.tenant, h.position FROM feed_head h WHERE h.tenant = ANY(%s) AND EXISTS ("
    " SELECT FROM incident i WHERE i.tenant = h.tenant AND i.guid IS NULL"
    " AND i.state <> 'resolved')"
)
UNMARKED = (
    "SELECT DISTINCT i.tenant, i.guid FROM incident i"
    " JOIN asset a ON a.tenant = i.tenant AND a.guid = i.guid"
    " WHERE i.tenant = ANY(%s) AND i.state IN ('open', 'acknowledged')"
    f" AND a.layers & {INCIDENTS} = 0"
)


def adopt(unit: Unit, now: datetime, before: int = END, limit: int = 100) -> int | None:
    """Attach parked incidents whose asset has appeared, the newest first; where to go on."""
    rows = unit.conn.execute(PARKED, [unit.tenant.number, before, limit]).fetchall()
    for row in rows:
        incident = incidents.read(row)
        guid = by_rule(unit, incident.source, incident.rule)
        found = [guid] if guid else [each.guid for each in place(unit, incident.names)]
        if len(found) == 1:
            who = Who("lily", incident.source, now, f"incident:{incident.id}")
            stays, fact = incidents.attach(unit, incident, found[0], who)
            incidents.settle(unit, [stays], [fact])
    return incidents.read(rows[-1]).number if len(rows) == limit else None


def waiting(conn: psycopg.Connection, tenants: Sequence[int]) -> list[tuple[int, int]]:
    """The tenants that have incidents to place, each with its feed's head."""
    rows = conn.execute(WAITING, [list(tenants)]).fetchall()
    return [(tenant, position) for tenant, position in rows]


def revive(conn: psycopg.Connection, tenants: Mapping[int, Tenant]) -> None:
    """Assets that were made anew while an incident of theirs was open suffer again."""
    found: dict[int, list[UUID]] = defaultdict(list)
    for number, guid in conn.execute(UNMARKED, [list(tenants)]).fetchall():
        found[number].append(guid)
    for number, guids in found.items():
        incidents.flag(Unit(conn, tenants[number]), guids)
