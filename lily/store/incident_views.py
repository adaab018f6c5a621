"""Reading incidents: pages, history, and what assets suffer from."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from lily.assets.model import INCIDENTS, Asset
from lily.incidents.model import COLUMNS, LIVE, Incident, suffering
from lily.store.database import Unit
from lily.store.incidents import ABOUT, SELECT, read

EVENTS = (
    "SELECT number, at, kind, by, via, changes, comment FROM incident_event"
    " WHERE tenant = %s AND incident = %s ORDER BY number DESC LIMIT 1000"
)
PAGE = (
    f"SELECT coalesce(a.caller_id, i.guid::text), {', '.join(f'i.{name}' for name in COLUMNS)}"
    " FROM incident i LEFT JOIN asset a ON a.tenant = i.tenant AND a.guid = i.guid"
    " WHERE i.tenant = %(tenant)s AND (%(before)s::bigint IS NULL OR i.number < %(before)s)"
    " AND (%(all)s OR (i.state = ANY(%(states)s) AND NOT (i.guid IS NULL AND i.state = 'open'))"
    " OR (%(unattached)s AND i.guid IS NULL AND i.state = 'open'))"
    " AND (%(severities)s::text[] IS NULL OR i.severity = ANY(%(severities)s))"
    " AND (%(sources)s::text[] IS NULL OR i.source = ANY(%(sources)s))"
    " AND (%(guid)s::uuid IS NULL OR i.guid = %(guid)s)"
    " AND (%(rule)s::text IS NULL OR i.rule = %(rule)s)"
    " ORDER BY i.number DESC LIMIT %(limit)s"
)
OPEN_ON = f"{SELECT} WHERE tenant = %s AND guid = ANY(%s) AND state = ANY(%s) ORDER BY number"


class Event(msgspec.Struct, frozen=True):
    """Something that happened to an incident."""

    number: int
    at: datetime
    kind: str
    by: str
    via: str
    changes: dict[str, Any]
    comment: str


def events(unit: Unit, id: UUID) -> list[Event]:
    """Its history, newest first."""
    rows = unit.conn.execute(EVENTS, [unit.tenant.number, id]).fetchall()
    return [Event(*row) for row in rows]


def open_on(unit: Unit, guids: Sequence[UUID]) -> dict[UUID, list[Incident]]:
    """What these assets suffer from."""
    found: dict[UUID, list[Incident]] = {}
    if guids:
        values = [unit.tenant.number, list(guids), list(LIVE)]
        for row in unit.conn.execute(OPEN_ON, values).fetchall():
            incident = read(row)
            assert incident.guid is not None
            found.setdefault(incident.guid, []).append(incident)
    return found


async def open_incidents(conn: AsyncConnection, tenant: int, guid: UUID) -> list[Incident]:
    """What one asset suffers from; for the hot path."""
    found = await conn.execute(OPEN_ON, [tenant, [guid], list(LIVE)], prepare=True)
    return [read(row) for row in await found.fetchall()]


def shown_with(unit: Unit, assets: Sequence[Asset]) -> dict[UUID, dict[str, Any]]:
    """What to show with each of these assets that has open incidents."""
    guids = [asset.guid for asset in assets if asset.layers & INCIDENTS]
    return {guid: suffering(found) for guid, found in open_on(unit, guids).items()}


def page(
    unit: Unit,
    before: int | None,
    limit: int,
    states: Sequence[str] = (),
    severities: Sequence[str] = (),
    sources: Sequence[str] = (),
    guid: UUID | None = None,
    rule: str | None = None,
) -> list[tuple[Incident, str | None]]:
    """The newest first, each with the id of its asset. `unattached` is a state like the others."""
    rows = unit.conn.execute(
        PAGE,
        {
            "tenant": unit.tenant.number, "before": before, "limit": limit,
            "states": [state for state in states if state != "unattached"],
            "unattached": "unattached" in states, "all": not states,
            "severities": list(severities) or None, "sources": list(sources) or None,
            "guid": guid, "rule": rule,
        },
    ).fetchall()  # fmt: skip
    return [(read(row[1:]), row[0]) for row in rows]


def asset_id(unit: Unit, incident: Incident) -> str | None:
    """The id of its asset, as people know it."""
    if incident.guid is None:
        return None
    row = unit.conn.execute(ABOUT, [unit.tenant.number, [incident.guid]]).fetchone()
    return row[1] if row else str(incident.guid)
