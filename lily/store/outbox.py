"""Deliveries on their way: claimed in groups by one of several processes, settled in groups.

A claim names the process, and the process holds a session lock. When the lock can be taken, the
process is dead, and what it was sending is taken over as something that may have arrived.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.errors import Unavailable
from lily.store.connections import Connection
from lily.store.database import Database

LOCK = "SELECT pg_try_advisory_lock(%s, hashtext(%s))"
FREE = "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))"
SPACE = 0x6E6F7469  # "noti"

_CONNECTION = ", ".join(f"c.{name}" for name in Connection.__struct_fields__)
OUTLETS = """
SELECT c.tenant, c.id, c.revision, c.enabled, o.failures, o.paused_until,
       coalesce(o.gone_revision = c.revision, false)
  FROM connection c LEFT JOIN outlet o ON o.tenant = c.tenant AND o.connection = c.id
 WHERE c.tenant = ANY(%s) AND 'target' = ANY(c.uses)
"""
FILTERS = """
SELECT tenant, id, revision FROM connection
 WHERE tenant = ANY(%s) AND enabled AND 'filter' = ANY(uses) ORDER BY tenant, ordinal, name
"""
STORED = f"SELECT c.tenant, {_CONNECTION} FROM connection c WHERE tenant = ANY(%s) AND id = ANY(%s)"

# Of each thread the oldest alone: what follows waits for the handle that it will update.
CLAIM = """
WITH picked AS (
  SELECT d.tenant, d.id FROM unnest(%(tenants)s::int[], %(connections)s::uuid[], %(caps)s::int[])
         AS c(tenant, connection, cap)
   CROSS JOIN LATERAL (
     SELECT d.tenant, d.id FROM delivery d
      WHERE d.tenant = c.tenant AND d.connection = c.connection AND d.state = 'waiting'
        AND d.due_at <= %(now)s
        AND (d.thread IS NULL OR NOT EXISTS (
              SELECT FROM delivery e WHERE e.tenant = d.tenant AND e.connection = d.connection
                 AND e.thread = d.thread AND e.state IN ('waiting', 'sending')
                 AND e.number < d.number))
      ORDER BY d.due_at, d.number LIMIT c.cap FOR UPDATE SKIP LOCKED) d),
taken AS (
  UPDATE delivery d SET state = 'sending', worker = %(worker)s, tries = tries + 1
    FROM picked p WHERE d.tenant = p.tenant AND d.id = p.id
  RETURNING d.tenant, d.id, d.connection, d.notice, d.attempts, d.tries, d.unsure, d.created_at,
            d.subscription)
SELECT t.tenant, t.id, t.connection, t.attempts, t.tries, t.unsure, t.created_at, n.key,
       n.content::text, h.handle, n.kind, n.guid,
       CASE WHEN t.subscription IS NOT NULL THEN coalesce(s.owner, '') END
  FROM taken t JOIN notice n ON n.tenant = t.tenant AND n.id = t.notice
  LEFT JOIN subscription s ON s.tenant = t.tenant AND s.id = t.subscription
  LEFT JOIN remote_handle h ON h.tenant = t.tenant AND h.connection = t.connection
        AND h.key = n.key
"""
SPENT = """
SELECT tenant, connection, spent_until FROM outlet
 WHERE tenant = ANY(%s) AND connection = ANY(%s) ORDER BY tenant, connection
   FOR UPDATE SKIP LOCKED
"""
SPEND = "UPDATE outlet SET spent_until = %s WHERE tenant = %s AND connection = %s"
FIRST_OUTLET = """
INSERT INTO outlet (tenant, connection) SELECT * FROM unnest(%s::int[], %s::uuid[])
ON CONFLICT DO NOTHING
"""
SETTLE = """
UPDATE delivery d SET state = s.state, due_at = s.due_at, attempts = d.attempts + s.counted,
       unsure = s.unsure, status = s.status, reason = s.reason, last_at = s.at, worker = NULL,
       settled_at = CASE WHEN s.state = 'waiting' THEN NULL ELSE s.at END
  FROM unnest(%s::int[], %s::uuid[], %s::text[], %s::timestamptz[], %s::int[], %s::bool[],
              %s::int[], %s::text[], %s::timestamptz[])
       AS s(tenant, id, state, due_at, counted, unsure, status, reason, at)
 WHERE d.tenant = s.tenant AND d.id = s.id AND d.state = 'sending' AND d.worker = %s
RETURNING d.tenant, d.id
"""
ATTEMPT = """
INSERT INTO delivery_attempt (tenant, delivery, number, at, outcome, status, millis, reason, calls)
SELECT a.tenant, a.delivery, a.number, a.at, a.outcome, a.status, a.millis, a.reason, a.calls::json
  FROM unnest(%s::int[], %s::uuid[], %s::int[], %s::timestamptz[], %s::text[], %s::int[],
              %s::real[], %s::text[], %s::text[])
       AS a(tenant, delivery, number, at, outcome, status, millis, reason, calls)
ON CONFLICT DO NOTHING
"""
HANDLE = """
INSERT INTO remote_handle (tenant, connection, key, handle, at) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (tenant, connection, key) DO UPDATE SET handle = excluded.handle, at = excluded.at
"""
FARED = """
INSERT INTO outlet AS o (tenant, connection, failures, paused_until, reason)
VALUES (%(tenant)s, %(connection)s, %(failures)s, %(paused_until)s, %(reason)s)
ON CONFLICT (tenant, connection) DO UPDATE
   SET failures = CASE WHEN %(failed)s THEN o.failures + %(failures)s ELSE %(failures)s END,
       paused_until = greatest(CASE WHEN %(failed)s THEN o.paused_until END, excluded.paused_until),
       reason = excluded.reason
"""
WITHHOLD = """
UPDATE delivery d SET state = 'withheld', worker = NULL, tries = tries - 1, reason = w.reason,
       settled_at = %(now)s
  FROM unnest(%(ids)s::uuid[], %(reasons)s::text[]) AS w(id, reason)
 WHERE d.id = w.id AND d.state = 'sending' AND d.worker = %(worker)s
"""
SENDING = "SELECT DISTINCT worker FROM delivery WHERE state = 'sending' AND worker <> %s"
# What has a handle is looked up before it is made again, and searches lag a little behind.
RECLAIM = """
UPDATE delivery SET state = 'waiting', worker = NULL, unsure = true,
       due_at = %s + CASE WHEN thread IS NULL THEN interval '0' ELSE interval '10 seconds' END,
       reason = 'The process that sent it ended.'
 WHERE state = 'sending' AND worker = %s
"""
ORPHANS = """
UPDATE delivery d SET state = 'cancelled', settled_at = %s, reason = 'The connection was deleted.'
 WHERE d.tenant = ANY(%s) AND d.state = 'waiting' AND NOT EXISTS (
   SELECT FROM connection c WHERE c.tenant = d.tenant AND c.id = d.connection)
"""


_encode = msgspec.json.Encoder().encode


class OutletState(msgspec.Struct, frozen=True):
    """A target, whether it may be used, and how it fared."""

    tenant: int
    connection: UUID
    revision: int
    enabled: bool
    failures: int | None
    paused_until: datetime | None
    gone: bool


class Claimed(msgspec.Struct, frozen=True):
    """A delivery that is ours to send. `content` is the notice as JSON."""

    tenant: int
    id: UUID
    connection: UUID
    attempts: int
    tries: int
    unsure: bool
    created_at: datetime
    key: str
    content: str
    handle: Any
    kind: str
    guid: UUID | None
    owner: str | None  # of its subscription, empty when that is no more; None when it has none


class Settled(msgspec.Struct, frozen=True):
    """What came of one try."""

    claimed: Claimed
    at: datetime
    state: str
    due_at: datetime
    counted: bool
    unsure: bool
    outcome: str
    status: int | None
    millis: float
    reason: str
    calls: list[dict[str, Any]]
    handle: Any = None


class Fared(msgspec.Struct, frozen=True):
    """How a target did in a group of tries: failures in a row since its last success."""

    tenant: int
    connection: UUID
    failed: bool
    failures: int
    paused_until: datetime | None
    reason: str


class Spending(msgspec.Struct, frozen=True):
    """A target with a rate: how many of a cap it may have now."""

    tenant: int
    connection: UUID
    interval: timedelta
    burst: int


class Alive:
    """The lock that tells others that this worker lives; it ends with the connection."""

    def __init__(self, database: Database, cell: str, worker: UUID) -> None:
        url = database.role_url(cell)
        try:
            self._conn = psycopg.connect(url, autocommit=True, connect_timeout=5)
            self._conn.execute(LOCK, [SPACE, str(worker)])
        except psycopg.OperationalError as cause:
            raise Unavailable("The database cannot be reached.") from cause

    def held(self) -> bool:
        try:
            self._conn.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        self._conn.close()


def outlets(conn: psycopg.Connection, tenants: Sequence[int]) -> list[OutletState]:
    return [OutletState(*row) for row in conn.execute(OUTLETS, [list(tenants)]).fetchall()]


def filters(conn: psycopg.Connection, tenants: Sequence[int]) -> list[tuple[int, UUID, int]]:
    """Filters in force, in their order: tenant, connection, revision."""
    return [(*row,) for row in conn.execute(FILTERS, [list(tenants)]).fetchall()]


def stored(
    conn: psycopg.Connection, wanted: Sequence[tuple[int, UUID]]
) -> dict[tuple[int, UUID], Connection]:
    tenants, ids = [tenant for tenant, _ in wanted], [id for _, id in wanted]
    rows = conn.execute(STORED, [tenants, ids]).fetchall()
    return {(row[0], row[1]): Connection(*row[1:]) for row in rows}


def claim(
    conn: psycopg.Connection,
    worker: UUID,
    caps: dict[tuple[int, UUID], int],
    rates: dict[tuple[int, UUID], Spending],
    now: datetime,
) -> list[Claimed]:
    """Up to so many of each target, as far as its rate allows; the oldest first."""
    limited = [rates[key] for key in caps if key in rates]
    spent = _spent(conn, limited) if limited else {}
    allowed = {}
    for key, cap in caps.items():
        if key in rates:
            cap = min(cap, _allowance(rates[key], spent[key], now)) if key in spent else 0
        if cap > 0:
            allowed[key] = cap
    if not allowed:
        return []
    values = {
        "tenants": [tenant for tenant, _ in allowed],
        "connections": [connection for _, connection in allowed],
        "caps": list(allowed.values()),
        "now": now,
        "worker": worker,
    }
    claimed = [Claimed(*row) for row in conn.execute(CLAIM, values).fetchall()]
    for rate in limited:
        key = rate.tenant, rate.connection
        used = sum(1 for each in claimed if (each.tenant, each.connection) == key)
        if used:
            until = max(spent[key] or now, now) + rate.interval * used
            conn.execute(SPEND, [until, *key])
    return claimed


def settle(
    conn: psycopg.Connection, worker: UUID, settled: Sequence[Settled], fared: Sequence[Fared]
) -> set[UUID]:
    """Write what came of a group; returns the ids that were still ours."""
    rows = conn.execute(
        SETTLE,
        [
            [s.claimed.tenant for s in settled],
            [s.claimed.id for s in settled],
            [s.state for s in settled],
            [s.due_at for s in settled],
            [int(s.counted) for s in settled],
            [s.unsure for s in settled],
            [s.status for s in settled],
            [s.reason for s in settled],
            [s.at for s in settled],
            worker,
        ],
    ).fetchall()
    conn.execute(
        ATTEMPT,
        [
            [s.claimed.tenant for s in settled],
            [s.claimed.id for s in settled],
            [s.claimed.tries for s in settled],
            [s.at for s in settled],
            [s.outcome for s in settled],
            [s.status for s in settled],
            [s.millis for s in settled],
            [s.reason for s in settled],
            [_encode(s.calls).decode() for s in settled],
        ],
    )
    for each in settled:
        if each.handle is not None:
            claimed = each.claimed
            conn.execute(
                HANDLE,
                [claimed.tenant, claimed.connection, claimed.key, Jsonb(each.handle), each.at],
            )
    for one in sorted(fared, key=lambda f: (f.tenant, f.connection)):
        conn.execute(FARED, msgspec.structs.asdict(one))
    return {id for _, id in rows}


def withhold(
    conn: psycopg.Connection, worker: UUID, reasons: Mapping[UUID, str], now: datetime
) -> None:
    """Write down why these of our claims are not sent."""
    values = {"ids": list(reasons), "reasons": list(reasons.values()), "now": now, "worker": worker}
    conn.execute(WITHHOLD, values)


def reclaim(conn: psycopg.Connection, me: UUID, now: datetime) -> int:
    """Take back what dead processes were sending; returns how many."""
    found = 0
    for (worker,) in conn.execute(SENDING, [me]).fetchall():
        row = conn.execute(FREE, [SPACE, str(worker)]).fetchone()
        if row is not None and row[0]:
            found += conn.execute(RECLAIM, [now, worker]).rowcount
    return found


def release(conn: psycopg.Connection, me: UUID, unbegun: Sequence[UUID], now: datetime) -> None:
    """Give back what was claimed: what was not begun as if nothing had been, the rest as unsure."""
    conn.execute(
        "UPDATE delivery SET state = 'waiting', worker = NULL, tries = tries - 1"
        " WHERE state = 'sending' AND worker = %s AND id = ANY(%s)",
        [me, list(unbegun)],
    )
    conn.execute(RECLAIM, [now, me])


def orphans(conn: psycopg.Connection, tenants: Sequence[int], now: datetime) -> int:
    """Cancel what would go to connections that are no more."""
    return conn.execute(ORPHANS, [now, list(tenants)]).rowcount


def _spent(
    conn: psycopg.Connection, limited: Sequence[Spending]
) -> dict[tuple[int, UUID], datetime | None]:
    """How far each rate is used up; one that another process is counting on now is left out."""
    tenants, ids = [each.tenant for each in limited], [each.connection for each in limited]
    conn.execute(FIRST_OUTLET, [tenants, ids])
    rows = conn.execute(SPENT, [tenants, ids]).fetchall()
    return {(tenant, connection): until for tenant, connection, until in rows}


def _allowance(rate: Spending, until: datetime | None, now: datetime) -> int:
    """A bucket that refills with the rate and holds a burst."""
    if until is None or until <= now:
        return rate.burst
    return max(0, rate.burst - -(-(until - now) // rate.interval))
