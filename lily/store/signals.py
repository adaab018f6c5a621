"""Signals become incidents: which one, on which asset, and what changes about it."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
import psycopg

from lily.assets.claims import When, moment
from lily.events.facts import Fact
from lily.events.signals import SignalSeen
from lily.incidents import names
from lily.incidents.model import COURSE, Incident
from lily.store import incidents
from lily.store.database import Unit
from lily.store.incidents import Who
from lily.store.placing import by_rule, place
from lily.types import Tenant

HEARD = "SELECT tenant, key FROM signal_key WHERE tenant = ANY(%s) AND key = ANY(%s)"
REMEMBER = (
    "INSERT INTO signal_key (tenant, at, key) SELECT %s, %s, unnest(%s::text[])"
    " ON CONFLICT DO NOTHING"
)
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
TABLES = "further assets of "  # in the details of an incident, under the id that names them
STILL_OPEN = "SELECT FROM incident_external WHERE tenant = %s AND incident = %s AND NOT closed"
BY_PREFIX = (
    f"{incidents.SELECT} WHERE tenant = %s AND id BETWEEN %s AND %s ORDER BY id LIMIT 2 FOR UPDATE"
)
OPEN_RULE = (
    f"{incidents.SELECT} WHERE tenant = %s AND source = %s AND rule = %s"
    " AND guid IS NOT DISTINCT FROM %s AND state <> 'resolved' FOR UPDATE"
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
        if signal.others:
            kept = {TABLES + (signal.external_id or signal.key): signal.others}
            signal = msgspec.structs.replace(signal, details={**signal.details, **kept})
        touched, facts = _heard(unit, signal, message.source, message.when, who)
        for each in _others(unit, signal, touched[0]) if touched else ():
            more = _heard(unit, each, message.source, message.when, who)
            touched += more[0]
            facts += more[1]
        return touched, facts
    found = _meant(unit, signal.incident)
    return _moved(unit, found, signal, who) if found is not None else ([], [])


def _others(unit: Unit, signal: SignalSeen, incident: Incident) -> list[SignalSeen]:
    """The same signal for each further asset, also where only an earlier one has named it.

    Each has an incident of its own, under the tool's id with the asset's name behind it.
    """
    external = signal.external_id or signal.key
    found = []
    for called in incident.details.get(TABLES + external) or ():
        usable = names.usable(called)
        if usable:
            alone = len(place(unit, usable)) == 1  # of one rule only one can wait for its asset
            found.append(
                msgspec.structs.replace(
                    signal, external_id=f"{external}|{'.'.join(names.parts(usable[0]))}",
                    names=usable, others=[], rule=signal.rule if alone else "",
                )
            )  # fmt: skip
    return found


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
    called = names.usable(signal.names)
    found = place(unit, called) if signal.others or "|" in external else []
    guid = None if found else by_rule(unit, source, signal.rule)
    found = found or ([] if guid else place(unit, called))
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
