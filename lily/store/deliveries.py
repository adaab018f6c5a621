"""Deliveries and their attempts, for people: list, read, send again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from lily.errors import Conflict, NotFound
from lily.notify.documents import Status
from lily.store.database import Unit

SELECT = """
SELECT d.id, d.number, coalesce(d.notification_id, d.id::text), d.notice, d.subscription,
       d.connection,
       coalesce(c.name, ''), coalesce(c.plugin, ''), n.kind, n.guid, n.content ->> 'title',
       d.state, d.attempts, d.tries, d.status, d.reason, d.due_at, d.last_at, d.settled_at,
       d.created_at, n.content
  FROM delivery d JOIN notice n ON n.tenant = d.tenant AND n.id = d.notice
  LEFT JOIN connection c ON c.tenant = d.tenant AND c.id = d.connection
"""
MATCH = (
    " d.tenant = %(tenant)s"
    " AND (%(state)s::text IS NULL OR d.state = %(state)s)"
    " AND (%(connection)s::uuid IS NULL OR d.connection = %(connection)s)"
    " AND (%(subscription)s::uuid IS NULL OR d.subscription = %(subscription)s)"
    " AND (%(since)s::timestamptz IS NULL OR d.created_at >= %(since)s)"
)
ATTEMPTS = """
SELECT number, at, outcome, status, millis, reason, calls FROM delivery_attempt
 WHERE tenant = %s AND delivery = %s ORDER BY number
"""
# Sent again it begins anew, under the same id: who got it already can tell.
AGAIN = """
UPDATE delivery SET state = 'waiting', attempts = %(attempts)s, due_at = %(now)s, settled_at = NULL,
       created_at = %(now)s, unsure = true, reason = %(reason)s
"""
STATUSES = """
SELECT notification_id, state, attempts, last_at, due_at, reason FROM delivery
 WHERE tenant = %s AND notification_id = ANY(%s)
"""


class Delivery(msgspec.Struct, frozen=True):
    """One chain of tries; `name` and `plugin` are of its connection."""

    id: UUID
    number: int
    notification_id: str
    notice: UUID
    subscription: UUID | None
    connection: UUID
    name: str
    plugin: str
    kind: str
    guid: UUID | None
    title: str
    state: str
    attempts: int
    tries: int
    status: int | None
    reason: str
    due_at: datetime
    last_at: datetime | None
    settled_at: datetime | None
    created_at: datetime
    content: dict[str, Any]


class Attempt(msgspec.Struct, frozen=True):
    number: int
    at: datetime
    outcome: str
    status: int | None
    millis: float
    reason: str
    calls: list[dict[str, Any]]


class Wanted(msgspec.Struct, frozen=True):
    """What is not given matches everything."""

    state: str | None = None
    connection: UUID | None = None
    subscription: UUID | None = None
    since: datetime | None = None


def page(unit: Unit, wanted: Wanted, before: int | None, limit: int) -> list[Delivery]:
    """Newest first."""
    rows = unit.conn.execute(
        f"{SELECT} WHERE {MATCH} AND (%(before)s::bigint IS NULL OR d.number < %(before)s)"
        " ORDER BY d.number DESC LIMIT %(limit)s",
        {**_bound(unit, wanted), "before": before, "limit": limit},
    ).fetchall()
    return [Delivery(*row) for row in rows]


def get(unit: Unit, id: UUID) -> Delivery:
    row = unit.conn.execute(
        f"{SELECT} WHERE d.tenant = %s AND d.id = %s", [unit.tenant.number, id]
    ).fetchone()
    if row is None:
        raise NotFound("delivery", id)
    return Delivery(*row)


def exists(unit: Unit, id: UUID) -> bool:
    row = unit.conn.execute(
        "SELECT 1 FROM delivery WHERE tenant = %s AND id = %s", [unit.tenant.number, id]
    ).fetchone()
    return row is not None


def named(unit: Unit, notification_id: str) -> Delivery | None:
    """By the name that callers know: its own, or its id."""
    try:
        id = UUID(notification_id)
    except ValueError:
        id = None
    row = unit.conn.execute(
        f"{SELECT} WHERE d.tenant = %s AND (d.notification_id = %s OR d.id = %s)"
        " ORDER BY d.notification_id NULLS LAST LIMIT 1",
        [unit.tenant.number, notification_id, id],
    ).fetchone()
    return Delivery(*row) if row else None


def attempts(unit: Unit, id: UUID) -> list[Attempt]:
    rows = unit.conn.execute(ATTEMPTS, [unit.tenant.number, id]).fetchall()
    return [Attempt(*row) for row in rows]


def again(unit: Unit, id: UUID, now: datetime, reason: str, attempts: int = 0) -> Delivery:
    """Send one again that is not under way, as if it had been tried so often."""
    values = {
        "tenant": unit.tenant.number, "id": id, "now": now, "reason": reason,
        "attempts": attempts,
    }  # fmt: skip
    done = unit.conn.execute(
        f"{AGAIN} WHERE tenant = %(tenant)s AND id = %(id)s"
        " AND state IN ('dead', 'delivered', 'cancelled', 'withheld', 'waiting')",
        values,
    )
    found = get(unit, id)
    if not done.rowcount:
        raise Conflict(f"Delivery {id} is being sent right now; wait for what comes of it.")
    return found


def again_matching(unit: Unit, wanted: Wanted, limit: int, now: datetime, reason: str) -> int:
    """The oldest dead ones that match, or withheld ones where those are asked for; how many."""
    done = unit.conn.execute(
        f"{AGAIN} WHERE tenant = %(tenant)s AND id IN (SELECT d.id FROM delivery d WHERE {MATCH}"
        " AND d.state = CASE %(state)s WHEN 'withheld' THEN 'withheld' ELSE 'dead' END"
        " ORDER BY d.number LIMIT %(limit)s FOR UPDATE)",
        {**_bound(unit, wanted), "limit": limit, "now": now, "reason": reason, "attempts": 0},
    )
    return done.rowcount


def redirect(unit: Unit, id: UUID, connection: UUID, thread: str | None) -> None:
    """Give a delivery that had nowhere to go a connection."""
    unit.conn.execute(
        "UPDATE delivery SET connection = %s, thread = %s WHERE tenant = %s AND id = %s",
        [connection, thread, unit.tenant.number, id],
    )


def statuses(unit: Unit, names: Sequence[str]) -> dict[str, Status]:
    rows = unit.conn.execute(STATUSES, [unit.tenant.number, list(names)]).fetchall()
    return {name: Status(*rest) for name, *rest in rows}


def _bound(unit: Unit, wanted: Wanted) -> dict[str, Any]:
    return {"tenant": unit.tenant.number, **msgspec.structs.asdict(wanted)}
