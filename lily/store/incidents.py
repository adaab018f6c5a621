"""Incidents: rows, history, and the facts about them, in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec
from psycopg.types.json import Jsonb

from lily.assets import words
from lily.assets.model import FAILING, INCIDENTS
from lily.errors import Conflict, NotFound
from lily.events.facts import Fact, FactKind
from lily.incidents.model import COLUMNS, COURSE, KINDS, Incident, told
from lily.store import feed
from lily.store.database import Unit

_COLUMNS = ", ".join(COLUMNS)
SELECT = f"SELECT {_COLUMNS} FROM incident"
_GIVEN = [name for name in COLUMNS if name != "number"]
INSERT = (
    f"INSERT INTO incident (tenant, {', '.join(_GIVEN)})"
    f" VALUES (%s{', %s' * len(_GIVEN)}) RETURNING number"
)
_CHANGING = (
    "guid", "external_id", "rule", "title", "description", "severity", "state", "url", "owner",
    "names", "candidates", "details", "version", "updated_at",
)  # fmt: skip
UPDATE = (
    f"UPDATE incident SET {', '.join(f'{name} = %s' for name in _CHANGING)}"
    " WHERE tenant = %s AND id = %s"
)
EVENT = (
    "INSERT INTO incident_event (tenant, incident, at, kind, by, via, changes, comment)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_ILL = INCIDENTS | FAILING
_FAILING, _DEGRADED = ("".join(f"''{word}'' " for word in words.ill(bad)) for bad in (True, False))
# What the open incidents make of their assets; one that is as it should be is not touched.
FLAG = f"""
WITH w AS (
  SELECT g.guid, CASE WHEN bool_or(i.severity IN ('critical', 'high')) THEN {_ILL}
                      WHEN count(i.id) > 0 THEN {INCIDENTS} ELSE 0 END AS bits
    FROM unnest(%(guids)s::uuid[]) AS g (guid)
    LEFT JOIN incident i ON i.tenant = %(tenant)s AND i.guid = g.guid
                        AND i.state IN ('open', 'acknowledged')
   GROUP BY g.guid)
UPDATE asset a SET layers = (a.layers & ~{_ILL}) | w.bits,
       search = ts_delete(a.search, %(words)s::text[]) || CASE w.bits
         WHEN {_ILL} THEN '{_FAILING}'::tsvector WHEN {INCIDENTS} THEN '{_DEGRADED}'::tsvector
         ELSE ''::tsvector END
  FROM w WHERE a.tenant = %(tenant)s AND a.guid = w.guid AND a.layers & {_ILL} <> w.bits
"""
_WORDS = sorted({*words.ill(True), *words.ill(False)})
CLOSE_ALL = "UPDATE incident_external SET closed = %s WHERE tenant = %s AND incident = %s"
REMEMBER_RULE = (
    "INSERT INTO rule_attachment (tenant, source, rule, guid, by, at)"
    " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (tenant, source, rule)"
    " DO UPDATE SET guid = excluded.guid, by = excluded.by, at = excluded.at"
)
ABOUT = (
    "SELECT guid, coalesce(caller_id, guid::text), qualified_name, asset_type FROM asset"
    " WHERE tenant = %s AND guid = ANY(%s)"
)


class Who(msgspec.Struct, frozen=True):
    """Who changes it, from where, when and because of what."""

    by: str
    via: str
    at: datetime
    cause: str = ""
    traceparent: str = ""


def get(unit: Unit, id: UUID, lock: bool = False) -> Incident:
    row = unit.conn.execute(
        f"{SELECT} WHERE tenant = %s AND id = %s" + (" FOR UPDATE" if lock else ""),
        [unit.tenant.number, id],
    ).fetchone()
    if row is None:
        raise NotFound("incident", id)
    return read(row)


def read(row: Sequence[Any]) -> Incident:
    return Incident(**dict(zip(COLUMNS, row, strict=True)))


def move(
    unit: Unit,
    incident_id: UUID,
    to_state: str,
    by: str,
    source: str,
    comment: str = "",
    *,
    at: datetime | None = None,
    cause: str = "",
    traceparent: str = "",
) -> Incident:
    """Bring an incident into a state. Where it is already, or cannot go, it stays without a fact.

    `source` is where the change came from; nobody tells it back there.
    """
    incident = get(unit, incident_id, lock=True)
    who = Who(by, source, at or _now(unit), cause or f"incident:{incident_id}", traceparent)
    if (fact := shift(unit, incident, to_state, who, comment)) is not None:
        settle(unit, [incident], [fact])
    return incident


def shift(
    unit: Unit, incident: Incident, to_state: str, who: Who, comment: str = ""
) -> Fact | None:
    """The same for an incident that is locked; the fact is the caller's to record."""
    if to_state not in COURSE[incident.state]:
        return None
    unit.conn.execute(CLOSE_ALL, [to_state == "resolved", unit.tenant.number, incident.id])
    return change(unit, incident, {"state": to_state}, who, comment)


def open_one(unit: Unit, incident: Incident, who: Who) -> Fact:
    """Insert it; the fact is the caller's to record."""
    values = [_stored(incident, name) for name in _GIVEN]
    row = unit.conn.execute(INSERT, [unit.tenant.number, *values]).fetchone()
    assert row is not None
    incident.number = row[0]
    _note(unit, incident, "opened", who, {"state": incident.shown_state})
    return fact_of(unit, KINDS[incident.state], incident, who)


def change(
    unit: Unit, incident: Incident, wanted: Mapping[str, Any], who: Who, comment: str = ""
) -> Fact | None:
    """Store what differs, in the row and its history; None when nothing does."""
    before = {k: getattr(incident, k) for k, v in wanted.items() if getattr(incident, k) != v}
    if not before and not comment:
        return None
    was = incident.shown_state
    for name in before:
        setattr(incident, name, wanted[name])
    incident.version += 1
    incident.updated_at = who.at
    values = [_stored(incident, name) for name in _CHANGING]
    unit.conn.execute(UPDATE, [*values, unit.tenant.number, incident.id])
    moved = "state" in before
    kind = "state" if moved else "changed" if before else "comment"
    plain = _plain(before)
    told_before = {**plain, **({"state": was} if moved else {})}
    changes = {n: [plain[n], wanted[n]] for n in plain if isinstance(wanted[n], str)}
    _note(unit, incident, kind, who, changes, comment)
    fact_kind: FactKind = KINDS[incident.state] if moved else "IncidentChanged"
    return fact_of(unit, fact_kind, incident, who, comment, told_before or None)


def attach(
    unit: Unit, incident: Incident, guid: UUID, who: Who, remember: bool = False
) -> tuple[Incident, Fact]:
    """Say which asset it is about; what its rule raises later follows when that is remembered.

    When the asset has one open for the same rule, this one ends and becomes part of that.
    """
    if remember and incident.rule:
        values = [unit.tenant.number, incident.source, incident.rule, guid, who.by, who.at]
        unit.conn.execute(REMEMBER_RULE, values)
    same = _same_rule(unit, incident, guid)
    if same is not None:
        return same, _join(unit, incident, same, who)
    was = incident.shown_state
    old, incident.guid, incident.candidates = incident.guid, guid, []
    incident.version += 1
    incident.updated_at = who.at
    values = [_stored(incident, name) for name in _CHANGING]
    unit.conn.execute(UPDATE, [*values, unit.tenant.number, incident.id])
    changes = {"guid": [str(old) if old else None, str(guid)]}
    _note(unit, incident, "attached", who, changes)
    before = {"state": was, "guid": str(old) if old else None}
    return incident, fact_of(unit, "IncidentAttached", incident, who, "", before)


def settle(unit: Unit, touched: Sequence[Incident], facts: Sequence[Fact]) -> None:
    """Mark the assets that suffer, unmark those that do not, and tell; in this order."""
    flag(unit, sorted({each.guid for each in touched if each.guid is not None}))
    if facts:
        feed.record(unit, facts)


def flag(unit: Unit, guids: Sequence[UUID]) -> None:
    """Bring the marks of these assets up to date with their incidents."""
    if guids:
        values = {"tenant": unit.tenant.number, "guids": list(guids), "words": _WORDS}
        unit.conn.execute(FLAG, values)


def fact_of(
    unit: Unit,
    kind: FactKind,
    incident: Incident,
    who: Who,
    comment: str = "",
    before: dict[str, Any] | None = None,
) -> Fact:
    asset_id, name, its_type = "", "", ""
    if incident.guid is not None:
        row = unit.conn.execute(ABOUT, [unit.tenant.number, [incident.guid]]).fetchone()
        if row is not None:
            _, asset_id, name, its_type = row
    return Fact(
        kind=kind, at=who.at, by=who.by, cause=who.cause, guid=incident.guid, asset_id=asset_id,
        qualified_name=name, asset_type=its_type, before=before,
        after=told(incident, who.via, comment), traceparent=who.traceparent,
    )  # fmt: skip


def new_id() -> UUID:
    return uuid4()


def _same_rule(unit: Unit, incident: Incident, guid: UUID) -> Incident | None:
    if not incident.rule or incident.state == "resolved":
        return None
    row = unit.conn.execute(
        f"{SELECT} WHERE tenant = %s AND source = %s AND rule = %s AND guid = %s"
        " AND state <> 'resolved' AND id <> %s FOR UPDATE",
        [unit.tenant.number, incident.source, incident.rule, guid, incident.id],
    ).fetchone()
    return read(row) if row else None


def _join(unit: Unit, gone: Incident, stays: Incident, who: Who) -> Fact:
    unit.conn.execute(
        "UPDATE incident_external SET incident = %s WHERE tenant = %s AND incident = %s",
        [stays.id, unit.tenant.number, gone.id],
    )
    _note(unit, stays, "seen", who, {"joined": str(gone.id)})
    fact = change(unit, gone, {"state": "resolved"}, who, f"is part of incident {stays.id} now")
    if fact is None:
        raise Conflict("The incident is over already.")
    return fact


def _note(
    unit: Unit,
    incident: Incident,
    kind: str,
    who: Who,
    changes: Mapping[str, Any],
    comment: str = "",
) -> None:
    values = [unit.tenant.number, incident.id, who.at, kind, who.by, who.via, Jsonb(changes)]
    unit.conn.execute(EVENT, [*values, comment])


def note_seen(unit: Unit, incident: Incident, who: Who, external_id: str) -> None:
    """It was raised again under another id while it is open."""
    _note(unit, incident, "seen", who, {"external_id": external_id})


def _stored(incident: Incident, name: str) -> Any:
    value = getattr(incident, name)
    return Jsonb(value) if name == "details" else value


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(dict(values))
    return plain


def _now(unit: Unit) -> datetime:
    row = unit.conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    at: datetime = row[0]
    return at
