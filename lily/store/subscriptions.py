"""Who wants to hear of what, and where to."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.errors import Conflict, NotFound, Stale
from lily.events.facts import Fact, FactKind
from lily.identity.actor import Actor
from lily.notify.match import Match
from lily.store import feed
from lily.store.database import Unit

MOST = 1_000
COLUMNS = (
    "id, name, match, connection, template, owner, enabled, muted_until, since, revision,"
    " created_at, updated_at"
)


class Subscription(msgspec.Struct, frozen=True):
    """It hears the facts behind `since` that match, while it is enabled and not muted."""

    id: UUID
    name: str
    match: Match
    connection: UUID | None
    template: dict[str, str] | None
    owner: str
    enabled: bool
    muted_until: datetime | None
    since: int
    revision: int
    created_at: datetime
    updated_at: datetime

    def quiet(self, now: datetime) -> bool:
        return self.muted_until is not None and self.muted_until > now


def create(unit: Unit, made: Subscription, actor: Actor) -> Subscription:
    """It hears nothing from before: its own fact is where it begins."""
    count = unit.conn.execute(
        "SELECT count(*) FROM subscription WHERE tenant = %s", [unit.tenant.number]
    ).fetchone()
    if count is not None and count[0] >= MOST:
        raise Conflict(f"A tenant has at most {MOST} subscriptions; delete one that is not needed.")
    position = _record(unit, "SubscriptionCreated", actor, made.updated_at, None, made)
    made = msgspec.structs.replace(made, since=position)
    try:
        unit.conn.execute(
            f"INSERT INTO subscription (tenant, {COLUMNS})"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [unit.tenant.number, *_values(made)],
        )
    except psycopg.errors.UniqueViolation:
        raise _taken(made.name) from None
    return made


def get(unit: Unit, id: UUID) -> Subscription:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM subscription WHERE tenant = %s AND id = %s",
        [unit.tenant.number, id],
    ).fetchone()
    if row is None:
        raise NotFound("subscription", id)
    return _read(row)


def locked(unit: Unit, id: UUID, revision: int | None) -> Subscription:
    unit.conn.execute(
        "SELECT FROM subscription WHERE tenant = %s AND id = %s FOR UPDATE",
        [unit.tenant.number, id],
    )
    found = get(unit, id)
    if revision is not None and revision != found.revision:
        raise Stale(f"The subscription is at revision {found.revision}; read it again.")
    return found


def page(unit: Unit, after: str | None, limit: int) -> list[Subscription]:
    """By name."""
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM subscription WHERE tenant = %(tenant)s"
        " AND (%(after)s::text IS NULL OR name > %(after)s) ORDER BY name LIMIT %(limit)s",
        {"tenant": unit.tenant.number, "after": after, "limit": limit},
    ).fetchall()
    return [_read(row) for row in rows]


def listening(unit: Unit) -> list[Subscription]:
    """All that are enabled; of a deleted connection nobody hears anything."""
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM subscription s WHERE tenant = %s AND enabled"
        " AND (connection IS NULL OR EXISTS (SELECT FROM connection c WHERE c.tenant = s.tenant"
        " AND c.id = s.connection AND c.enabled AND 'target' = ANY(c.uses)))",
        [unit.tenant.number],
    ).fetchall()
    return [_read(row) for row in rows]


def change(unit: Unit, before: Subscription, after: Subscription, actor: Actor) -> Subscription:
    """Store what differs; what changes nothing makes no revision and no fact."""
    if msgspec.structs.replace(after, updated_at=before.updated_at) == before:
        return before
    after = msgspec.structs.replace(after, revision=before.revision + 1)
    try:
        unit.conn.execute(
            "UPDATE subscription SET name = %s, match = %s, connection = %s, template = %s,"
            " owner = %s, enabled = %s, muted_until = %s, since = %s, revision = %s,"
            " created_at = %s, updated_at = %s WHERE tenant = %s AND id = %s",
            [*_values(after)[1:], unit.tenant.number, before.id],
        )
    except psycopg.errors.UniqueViolation:
        raise _taken(after.name) from None
    _record(unit, "SubscriptionChanged", actor, after.updated_at, before, after)
    return after


def delete(unit: Unit, gone: Subscription, actor: Actor, at: datetime) -> None:
    unit.conn.execute(
        "DELETE FROM subscription WHERE tenant = %s AND id = %s", [unit.tenant.number, gone.id]
    )
    unit.conn.execute(
        "UPDATE delivery SET state = 'cancelled', settled_at = %s,"
        " reason = 'The subscription was deleted.'"
        " WHERE tenant = %s AND subscription = %s AND state = 'waiting'",
        [at, unit.tenant.number, gone.id],
    )
    _record(unit, "SubscriptionDeleted", actor, at, gone, None)


def _read(row: Any) -> Subscription:
    values = list(row)
    values[2] = msgspec.convert(values[2], Match)
    return Subscription(*values)


def _values(made: Subscription) -> list[Any]:
    values = list(msgspec.structs.astuple(made))
    values[2] = Jsonb(msgspec.to_builtins(made.match))
    values[4] = Jsonb(made.template) if made.template is not None else None
    return values


def _taken(name: str) -> Conflict:
    return Conflict(f"There is already a subscription named {name!r}; choose another name.")


def _record(
    unit: Unit,
    kind: FactKind,
    actor: Actor,
    at: datetime,
    before: Subscription | None,
    after: Subscription | None,
) -> int:
    fact = Fact(
        kind=kind,
        at=at,
        by=actor.name,
        cause=actor.cause,
        before=None if before is None else msgspec.to_builtins(before, str_keys=True),
        after=None if after is None else msgspec.to_builtins(after, str_keys=True),
        traceparent=actor.traceparent,
    )
    return feed.record(unit, [fact])
