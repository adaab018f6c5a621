"""Signals become incidents: which one, on which asset, and what changes about it."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
import psycopg

from lily.assets import words
from lily.assets.claims import When, moment
from lily.assets.model import INCIDENTS
from lily.events.facts import Fact
from lily.events.signals import SignalSeen
from lily.incidents import names
from lily.incidents.model import COURSE, Incident
from lily.incidents.names import Candidate
from lily.store import incidents
from lily.store.database import Unit
from lily.store.incidents import Who
from lily.types import Tenant

END = 2**62
MOST = 500  # assets that have the words of a name; more than that is no help

HEARD = "SELECT tenant, key FROM signal_key WHERE tenant = ANY(%s) AND key = ANY(%s)"
REMEMBER = (
    "INSERT INTO signal_key (tenant, at, key) SELECT %s, %s, unnest(%s::text[])"
    " ON CONFLICT DO NOTHING"
)
NAMED = "SELECT guid, qualified_name, asset_type FROM assets_named(%s, %s::tsquery, %s)"
ALIASED = (
    "SELECT a.guid, a.qualified_name, a.asset_type FROM asset_alias n"
    " JOIN asset a ON a.tenant = n.tenant AND a.guid = n.guid"
    " WHERE n.tenant = %s AND n.alias = %s AND a.deleted_by IS NULL"
)
RULE = "SELECT guid FROM rule_attachment WHERE tenant = %s AND source = %s AND rule = %s"
LINKED = (
    "SELECT incident, spoke_at, spoke_at_offset FROM incident_external"
    " WHERE tenant = %s AND source = %s AND external_id = %s FOR UPDATE"
)
LINK = (
    "INSERT INTO incident_external"
    " (tenant, source, external_id, incident, closed, spoke_at, spoke_at_offset)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (tenant, source, external_id)"
    " DO UPDATE SET closed = excluded.closed, spoke_at = excluded.spoke_at,"
    " spoke_at_offset = excluded.spoke_at_offset"
)
STILL_OPEN = "SELECT FROM incident_external WHERE tenant = %s AND incident = %s AND NOT closed"
BY_PREFIX = (
    f"{incidents.SELECT} WHERE tenant = %s AND id BETWEEN %s AND %s ORDER BY id LIMIT 2 FOR UPDATE"
)
OPEN_RULE = (
    f"{incidents.SELECT} WHERE tenant = %s AND source = %s AND rule = %s"
    " AND guid IS NOT DISTINCT FROM %s AND state <> 'resolved' FOR UPDATE"
)
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


class Heard(msgspec.Struct, frozen=True):
    """A signal on its way in, with who says it and where it stands in the log."""

    tenant: int
    offset: int
    signal: SignalSeen
    source: str
    by: str
    cause: str
    when: When
    raw: str = ""
    traceparent: str = ""

    @property
    def key(self) -> str:
        """What makes twice once."""
        return f"{self.source}|{self.signal.key}"[:2000].replace("\0", "")


Told = tuple[list[Incident], list[Fact]]  # what was touched, and what there is to tell


def hear_all(
    conn: psycopg.Connection,
    heard: Sequence[Heard],
    tenant: Callable[[int], Tenant],
    now: datetime,
) -> list[tuple[Heard, str]]:
    """Apply signals in their order; those that cannot be stored come back with the reason.

    All together first: one that is refused is found by trying each alone.
    """
    fresh = _unheard(conn, heard)
    try:
        with conn.transaction():
            _hear(conn, fresh, tenant, now)
        return []
    except (psycopg.DataError, psycopg.IntegrityError):
        return _one_by_one(conn, fresh, tenant, now)


def _one_by_one(
    conn: psycopg.Connection,
    heard: Sequence[Heard],
    tenant: Callable[[int], Tenant],
    now: datetime,
) -> list[tuple[Heard, str]]:
    refused = []
    for each in heard:
        try:
            with conn.transaction():
                _hear(conn, [each], tenant, now)
        except (psycopg.DataError, psycopg.IntegrityError) as cause:
            refused.append((each, str(cause).strip()))
    return refused


def _unheard(conn: psycopg.Connection, heard: Sequence[Heard]) -> list[Heard]:
    """Each message once, without those that were heard before."""
    if not heard:
        return []
    given = {(each.tenant, each.key): each for each in reversed(heard)}
    values = [sorted({tenant for tenant, _ in given}), [key for _, key in given]]
    for known in conn.execute(HEARD, values).fetchall():
        given.pop((known[0], known[1]), None)
    return sorted(given.values(), key=lambda each: each.offset)


def _hear(
    conn: psycopg.Connection,
    heard: Sequence[Heard],
    tenant: Callable[[int], Tenant],
    now: datetime,
) -> None:
    """Facts and marks come last, once for each tenant: its other writers wait from there on."""
    told: dict[int, Told] = defaultdict(lambda: ([], []))
    for each in heard:
        touched, facts = _take(Unit(conn, tenant(each.tenant)), each, now)
        told[each.tenant][0].extend(touched)
        told[each.tenant][1].extend(facts)
    for number in sorted(told):
        keys = [each.key for each in heard if each.tenant == number]
        conn.execute(REMEMBER, [number, now, keys])
        incidents.settle(Unit(conn, tenant(number)), *told[number])


def _take(unit: Unit, message: Heard, now: datetime) -> Told:
    """What one signal does."""
    signal = message.signal
    who = Who(signal.person or message.by, message.source, now, message.cause, message.traceparent)
    if not signal.incident:
        return _heard(unit, signal, message.source, message.when, who)
    found = _meant(unit, signal.incident)
    return _moved(unit, found, signal, who) if found is not None else ([], [])


def place(unit: Unit, called: Sequence[str]) -> list[Candidate]:
    """The assets that the first telling name may mean: one is an answer, several a question."""
    for name in called:
        rows = unit.conn.execute(ALIASED, [unit.tenant.number, name]).fetchall()
        found = [Candidate(*row) for row in rows]
        if found or (found := _named(unit, name)):
            return found
    return []


def adopt(unit: Unit, now: datetime, before: int = END, limit: int = 100) -> int | None:
    """Attach parked incidents whose asset has appeared, the newest first; where to go on."""
    rows = unit.conn.execute(PARKED, [unit.tenant.number, before, limit]).fetchall()
    for row in rows:
        incident = incidents.read(row)
        guid = _by_rule(unit, incident.source, incident.rule)
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


def _heard(unit: Unit, signal: SignalSeen, source: str, when: When, who: Who) -> Told:
    """A signal that names an incident by the tool's own id."""
    spoke = (moment(when), when[1])
    external = signal.external_id or signal.key
    row = unit.conn.execute(LINKED, [unit.tenant.number, source, external]).fetchone()
    if row is not None and (row[1], row[2]) > spoke:
        return [], []  # something newer is known of it
    facts: list[Fact] = []
    if row is not None:
        incident = incidents.get(unit, row[0], lock=True)
    else:
        incident, made = _found_or_opened(unit, signal, source, external, who)
        facts += [made] if made else []
    closed = signal.state == "resolved"
    unit.conn.execute(LINK, [unit.tenant.number, source, external, incident.id, closed, *spoke])
    wanted = _wanted(signal, incident)
    state = _state(unit, incident, signal)
    if state is not None:
        wanted["state"] = state
    changed = incidents.change(unit, incident, wanted, who, signal.comment)
    if changed is not None and not (facts and changed.kind == "IncidentChanged"):
        facts.append(changed)
    return [incident], facts


def _found_or_opened(
    unit: Unit, signal: SignalSeen, source: str, external: str, who: Who
) -> tuple[Incident, Fact | None]:
    """The open one of the same rule and asset, else a new one."""
    guid = _by_rule(unit, source, signal.rule)
    called = names.usable(signal.names)
    found = [] if guid else place(unit, called)
    if len(found) == 1:
        guid = found[0].guid
    if signal.rule:
        values = [unit.tenant.number, source, signal.rule, guid]
        row = unit.conn.execute(OPEN_RULE, values).fetchone()
        if row is not None:
            incident = incidents.read(row)
            incidents.note_seen(unit, incident, who, external)
            return incident, None
    incident = Incident(
        id=incidents.new_id(), number=0, guid=guid, source=source, external_id=external,
        rule=signal.rule, title=signal.title or _untitled(signal, source),
        description=signal.description, severity=signal.severity or "medium", state="open",
        url=signal.url, owner=signal.owner, names=called,
        candidates=[each.guid for each in found] if guid is None else [], details=signal.details,
        version=1, opened_at=who.at, updated_at=who.at,
    )  # fmt: skip
    return incident, incidents.open_one(unit, incident, who)


def _wanted(signal: SignalSeen, incident: Incident) -> dict[str, object]:
    """What the signal says, without what it does not mention."""
    given = {
        name: getattr(signal, name) for name in ("title", "description", "severity", "url", "owner")
    }
    wanted = {name: value for name, value in given.items() if value}
    return {**wanted, "details": {**incident.details, **signal.details}}


def _untitled(signal: SignalSeen, source: str) -> str:
    return f"{source}: {signal.details.get('type') or 'incident'}"


def _state(unit: Unit, incident: Incident, signal: SignalSeen) -> str | None:
    """Where the signal moves it, if anywhere."""
    to = signal.state
    if to == "acknowledged" and incident.state == "resolved" and signal.reopens:
        to = "open"
    if to is None or to not in COURSE[incident.state]:
        return None
    if to == "open" and (not signal.reopens or incident.state == "suppressed"):
        return None  # that it began brings back nothing, and what a person hushed stays hushed
    if to == "resolved":
        values = [unit.tenant.number, incident.id]
        if unit.conn.execute(STILL_OPEN, values).fetchone() is not None:
            return None  # raised under several ids, and not all of them are over
    return to


def _moved(unit: Unit, incident: Incident, signal: SignalSeen, who: Who) -> Told:
    """A signal that names an incident by Lily's id: a click, a ticket.

    A comment on a move that changes nothing is not told: it may be the echo of our own doing.
    """
    if signal.state is not None:
        fact = incidents.shift(unit, incident, signal.state, who, signal.comment)
    else:
        fact = incidents.change(unit, incident, {}, who, signal.comment)
    return [incident], [fact] if fact else []


def _meant(unit: Unit, given: str) -> Incident | None:
    """By id, or by at least its first eight digits if they fit one only."""
    digits = given.replace("-", "").lower()
    if not 8 <= len(digits) <= 32 or not set(digits) <= set("0123456789abcdef"):
        return None
    low, high = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    rows = unit.conn.execute(BY_PREFIX, [unit.tenant.number, low, high]).fetchall()
    return incidents.read(rows[0]) if len(rows) == 1 else None


def _by_rule(unit: Unit, source: str, rule: str) -> UUID | None:
    if not rule:
        return None
    row = unit.conn.execute(RULE, [unit.tenant.number, source, rule]).fetchone()
    return row[0] if row else None


def _named(unit: Unit, name: str) -> list[Candidate]:
    """By the words of the name: first where the last part is the whole name of the asset."""
    *_, last = parts = names.parts(name)
    told = list(dict.fromkeys(word for part in parts for word in words.split(part)))
    if not told:
        return []
    exact = _quoted(words.facet("name", last))
    for query in ([exact, *map(_quoted, words.split(" ".join(parts[:-1])))], map(_quoted, told)):
        values = [unit.tenant.number, " & ".join(query), MOST]
        found = [Candidate(*row) for row in unit.conn.execute(NAMED, values).fetchall()]
        if fit := names.fitting(found, name):
            return fit
    return []


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
