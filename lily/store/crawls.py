"""Runs of crawlers: asked for, claimed by one process, finished, and remembered."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, get_args
from uuid import UUID, uuid4

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.errors import Conflict, NotFound
from lily.events.facts import Fact
from lily.identity.actor import Actor
from lily.store import feed
from lily.store.database import Unit

State = Literal["queued", "running", "succeeded", "partial", "failed", "cancelled"]
Cause = Literal["schedule", "request", "capture"]
STATES: tuple[State, ...] = get_args(State)

SILENT = timedelta(seconds=30)  # a run without a sign of life for so long has lost its process
KEPT = timedelta(days=30)

COLUMNS = (
    "tenant, id, number, connection, state, cause, by, scope, attempt, created_at, started_at,"
    " finished_at, counts, cursor, error"
)
INSERT = (
    "INSERT INTO crawl_run (tenant, id, connection, state, cause, by, scope, not_before,"
    " created_at) VALUES (%s, %s, %s, 'queued', %s, %s, %s, %s, %s)"
    f" RETURNING {COLUMNS}"
)
WAITING = (
    f"SELECT {COLUMNS} FROM crawl_run WHERE tenant = %s AND connection = %s AND state = 'queued'"
    " AND cause <> 'capture' AND scope IS NOT DISTINCT FROM %s LIMIT 1 FOR UPDATE"
)
CLAIM = f"""
UPDATE crawl_run SET state = 'running', worker = %(worker)s, beat_at = %(now)s,
       attempt = attempt + 1, started_at = coalesce(started_at, %(now)s)
 WHERE (tenant, id) = (
   SELECT r.tenant, r.id FROM crawl_run r
    WHERE r.tenant = ANY(%(tenants)s) AND (
      (r.state = 'running' AND r.beat_at < %(silent)s)
      OR (r.state = 'queued' AND r.not_before <= %(now)s AND NOT EXISTS (
        SELECT FROM crawl_run o WHERE o.tenant = r.tenant AND o.connection = r.connection
           AND o.state = 'running' AND o.cause <> 'capture')))
    ORDER BY r.not_before, r.number LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {COLUMNS}
"""
OWN = "tenant = %(tenant)s AND id = %(id)s AND worker = %(worker)s AND state = 'running'"


class Run(msgspec.Struct, frozen=True):
    """One crawl. `scope` is a subtree by qualified name; without it everything is read."""

    tenant: int
    id: UUID
    number: int
    connection: UUID
    state: State
    cause: Cause
    by: str
    scope: str | None
    attempt: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    counts: dict[str, int]
    cursor: Any
    error: str


def ask(
    unit: Unit, connection: UUID, cause: Cause, by: str, scope: str | None, now: datetime
) -> Run:
    """A new run, or the one that already waits for the same."""
    number = unit.tenant.number
    row = unit.conn.execute(WAITING, [number, connection, scope]).fetchone()
    if row is None:
        values = [number, uuid4(), connection, cause, by, scope, now, now]
        row = unit.conn.execute(INSERT, values).fetchone()
    assert row is not None
    return Run(*row)


def begin(
    conn: psycopg.Connection,
    tenant: int,
    connection: UUID,
    scope: str | None,
    worker: UUID,
    now: datetime,
) -> Run:
    """A run for what a capture reports: it starts at once, beside whatever else runs."""
    values = [tenant, uuid4(), connection, "capture", "capture", scope, now, now]
    row = conn.execute(INSERT, values).fetchone()
    assert row is not None
    conn.execute(
        "UPDATE crawl_run SET state = 'running', worker = %s, beat_at = %s, started_at = %s,"
        " attempt = 1 WHERE tenant = %s AND id = %s",
        [worker, now, now, tenant, row[1]],
    )
    return msgspec.structs.replace(Run(*row), state="running", started_at=now, attempt=1)


def get(unit: Unit, id: UUID) -> Run:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM crawl_run WHERE tenant = %s AND id = %s", [unit.tenant.number, id]
    ).fetchone()
    if row is None:
        raise NotFound("crawl", id)
    return Run(*row)


def page(unit: Unit, connection: UUID, before: int | None, limit: int) -> list[Run]:
    """Newest first."""
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM crawl_run WHERE tenant = %(tenant)s AND connection = %(connection)s"
        " AND (%(before)s::bigint IS NULL OR number < %(before)s)"
        " ORDER BY number DESC LIMIT %(limit)s",
        {
            "tenant": unit.tenant.number,
            "connection": connection,
            "before": before,
            "limit": limit,
        },
    ).fetchall()
    return [Run(*row) for row in rows]


def cancel(unit: Unit, id: UUID, actor: Actor, now: datetime) -> Run:
    """End a run that waits or works; the process that works on it notices with its next write."""
    done = unit.conn.execute(
        "UPDATE crawl_run SET state = 'cancelled', finished_at = %s, worker = NULL, error = %s"
        " WHERE tenant = %s AND id = %s AND state IN ('queued', 'running')",
        [now, f"cancelled by {actor.name}", unit.tenant.number, id],
    )
    run = get(unit, id)
    if done.rowcount == 0:
        raise Conflict(f"The crawl is over: it {run.state}.")
    tell(unit, run, actor, now)
    return run


def claim(
    conn: psycopg.Connection, tenants: Sequence[int], worker: UUID, now: datetime
) -> Run | None:
    """The next run that is due, or that lost its process. Several processes never get the same."""
    values = {"tenants": list(tenants), "worker": worker, "now": now, "silent": now - SILENT}
    try:
        with conn.transaction():
            row = conn.execute(CLAIM, values).fetchone()
    except psycopg.errors.UniqueViolation:
        return None  # another process took a run of the same connection at this moment
    return Run(*row) if row else None


def beat(
    conn: psycopg.Connection,
    run: Run,
    worker: UUID,
    now: datetime,
    counts: Mapping[str, int] | None = None,
) -> bool:
    """Say that the run is alive; false when it is no longer ours."""
    done = conn.execute(
        "UPDATE crawl_run SET beat_at = %(now)s, counts = coalesce(%(counts)s, counts)"
        f" WHERE {OWN}",
        {
            "now": now,
            "counts": None if counts is None else Jsonb(dict(counts)),
            "tenant": run.tenant,
            "id": run.id,
            "worker": worker,
        },
    )
    return done.rowcount == 1


def again(
    conn: psycopg.Connection, run: Run, worker: UUID, at: datetime, error: str, counted: bool
) -> bool:
    """Back into the queue, to go on where it stopped; `counted` as a failed attempt."""
    done = conn.execute(
        "UPDATE crawl_run SET state = 'queued', worker = NULL, not_before = %(at)s,"
        f" error = %(error)s, attempt = attempt - %(back)s WHERE {OWN}",
        {
            "at": at,
            "error": error,
            "back": 0 if counted else 1,
            "tenant": run.tenant,
            "id": run.id,
            "worker": worker,
        },
    )
    return done.rowcount == 1


def finish(
    unit: Unit, run: Run, worker: UUID, state: State, counts: Mapping[str, int], error: str,
    now: datetime,
) -> bool:  # fmt: skip
    """The run and its fact, together; false when it is no longer ours."""
    done = unit.conn.execute(
        "UPDATE crawl_run SET state = %(state)s, counts = %(counts)s, error = %(error)s,"
        " finished_at = %(now)s, worker = NULL, cursor = (SELECT s.cursor FROM crawl_state s"
        "   WHERE s.tenant = crawl_run.tenant AND s.connection = crawl_run.connection"
        "   AND crawl_run.scope IS NULL)"
        f" WHERE {OWN} RETURNING {COLUMNS}",
        {
            "state": state,
            "counts": Jsonb(dict(counts)),
            "error": error,
            "now": now,
            "tenant": run.tenant,
            "id": run.id,
            "worker": worker,
        },
    ).fetchone()
    if done is None:
        return False
    tell(unit, Run(*done), Actor(run.by, str(run.id)), now)
    return True


def tell(unit: Unit, run: Run, actor: Actor, now: datetime) -> None:
    after = {
        "run": str(run.id),
        "connection": str(run.connection),
        "state": run.state,
        "cause": run.cause,
        "counts": run.counts,
    }
    if run.scope is not None:
        after["scope"] = run.scope
    if run.error:
        after["error"] = run.error
    fact = Fact(
        kind="CrawlFinished", at=now, by=actor.name, cause=str(run.id), after=after,
        traceparent=actor.traceparent,
    )  # fmt: skip
    feed.record(unit, [fact])


def forget(conn: psycopg.Connection, tenants: Sequence[int], now: datetime) -> int:
    """Runs of long ago, and what is known of connections that are gone; returns how many rows."""
    old = conn.execute(
        "DELETE FROM crawl_run WHERE tenant = ANY(%s) AND finished_at < %s",
        [list(tenants), now - KEPT],
    )
    gone = conn.execute(
        "DELETE FROM crawl_seen WHERE (tenant, connection, guid) IN ("
        " SELECT s.tenant, s.connection, s.guid FROM crawl_state t"
        " JOIN crawl_seen s ON s.tenant = t.tenant AND s.connection = t.connection"
        " WHERE t.tenant = ANY(%s) AND NOT EXISTS (SELECT FROM connection c"
        "   WHERE c.tenant = t.tenant AND c.id = t.connection) LIMIT 10000)",
        [list(tenants)],
    )
    return old.rowcount + gone.rowcount
