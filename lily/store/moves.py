"""Moves of tenants between cells: begun, continued after a crash, taken back."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Literal
from uuid import uuid4

import msgspec
import psycopg

from lily.clock import Clock
from lily.errors import Conflict, NotFound
from lily.events.facts import Fact
from lily.identity.actor import Actor
from lily.store import feed, moving
from lily.store.database import HOME, Database, Unit
from lily.store.seal import Seal
from lily.store.tenants import claimed
from lily.types import Isolation, Tenant, TenantState

Step = Literal["closing", "copying", "switching", "opening", "clearing", "aborting", "failed"]

COLUMNS = "number, source, target, isolation, before, step, reason, by, cause, started_at, at"
BEGIN = """
INSERT INTO move (number, source, target, isolation, before, step, by, cause)
VALUES (%s, %s, %s, %s, %s, 'closing', %s, %s)
"""
STATE = "UPDATE tenant SET state = %s WHERE number = %s"
STEP = """
UPDATE move SET step = %s, reason = %s, at = clock_timestamp() WHERE number = %s AND step = %s
"""
SWITCH = """
UPDATE tenant SET cell = %s, isolation = %s, moved_at = clock_timestamp() WHERE number = %s
"""
FORGET = "DELETE FROM move WHERE number = %s"
FAILED = """
UPDATE move SET step = 'failed', target = source, at = clock_timestamp() WHERE number = %s
"""
LOCK = "SELECT pg_try_advisory_lock(hashtext('lily move'), %s)"


class Move(msgspec.Struct, frozen=True):
    """Where a tenant comes from, where it goes to, and how far it is."""

    number: int
    source: str
    target: str
    isolation: Isolation
    before: TenantState
    step: Step
    reason: str
    by: str
    cause: str
    started_at: datetime
    at: datetime


def begin(
    database: Database, seal: Seal, tenant: Tenant, to: Isolation, url: str | None, actor: Actor
) -> Move:
    """Note that a tenant is to move; the workers do it. The same wish again changes nothing."""
    under_way = find(database, tenant)
    if under_way is not None and under_way.step != "failed":
        if under_way.isolation == to and under_way.step != "aborting":
            return under_way
        raise Conflict(f"{tenant.name} is moving already; wait, or abort that first.")
    if to == "pooled":
        if tenant.cell == HOME:
            raise Conflict(f"{tenant.name} is in the shared database already.")
        with database.home() as conn:
            _begin(conn, tenant, HOME, to, actor)
    else:
        assert url is not None
        cell = str(uuid4())
        with claimed(url, cell), database.home() as conn:
            sealed = seal.seal(url.encode())
            conn.execute("INSERT INTO cell (name, url) VALUES (%s, %s)", [cell, sealed])
            _begin(conn, tenant, cell, to, actor)
    return get(database, tenant)


def _begin(
    conn: psycopg.Connection, tenant: Tenant, target: str, to: Isolation, actor: Actor
) -> None:
    row = conn.execute(
        "SELECT state FROM tenant WHERE number = %s FOR UPDATE", [tenant.number]
    ).fetchone()
    if row is None or row[0] == "moving":
        raise Conflict(f"{tenant.name} is moving already; wait, or abort that first.")
    conn.execute(FORGET, [tenant.number])  # one that failed
    place = [tenant.number, tenant.cell, target, to, row[0]]
    conn.execute(BEGIN, [*place, actor.name, actor.cause])
    conn.execute(STATE, ["moving", tenant.number])


def abort(database: Database, tenant: Tenant) -> Move:
    """Take it back, as long as the tenant is still where it was."""
    with database.home() as conn:
        conn.execute(STEP, ["aborting", "aborted", tenant.number, "closing"])
        conn.execute(STEP, ["aborting", "aborted", tenant.number, "copying"])
    found = get(database, tenant)
    if found.step not in ("aborting", "failed"):
        raise Conflict(f"{tenant.name} has moved already; move it back instead.")
    return found


def find(database: Database, tenant: Tenant) -> Move | None:
    with database.home() as conn:
        row = conn.execute(
            f"SELECT {COLUMNS} FROM move WHERE number = %s", [tenant.number]
        ).fetchone()
    return Move(*row) if row else None


def get(database: Database, tenant: Tenant) -> Move:
    if (found := find(database, tenant)) is None:
        raise NotFound("move of", tenant.name)
    return found


def under_way(database: Database) -> list[Move]:
    with database.home() as conn:
        rows = conn.execute(
            f"SELECT {COLUMNS} FROM move WHERE step <> 'failed' ORDER BY started_at"
        ).fetchall()
    return [Move(*row) for row in rows]


@contextmanager
def ours(database: Database, move: Move) -> Iterator[bool]:
    """Whether no other process carries this tenant; nobody else does until the end."""
    with moving.owner(database.url_of(HOME)) as conn:
        row = conn.execute(LOCK, [move.number]).fetchone()
        yield bool(row and row[0])


def advance(database: Database, move: Move, step: Step, reason: str = "") -> None:
    """On to the next step, unless somebody has asked to abort."""
    with moving.owner(database.url_of(HOME)) as conn:
        conn.execute(STEP, [step, reason[:2000], move.number, move.step])


def switch(database: Database, move: Move) -> None:
    """From here on the tenant is in its new place, though still closed."""
    with moving.owner(database.url_of(HOME)) as conn, conn.transaction():
        if conn.execute(STEP, ["opening", "", move.number, "switching"]).rowcount:
            conn.execute(SWITCH, [move.target, move.isolation, move.number])


def welcome(database: Database, clock: Clock, move: Move) -> None:
    """Open the new place, and tell it in the tenant's feed, once."""
    tenant = database.tenant(move.number)
    fact = Fact(
        kind="TenantChanged",
        at=clock.now(),
        by=move.by,
        cause=move.cause,
        before={"isolation": "dedicated" if move.isolation == "pooled" else "pooled"},
        after={"isolation": move.isolation},
    )
    with moving.owner(database.url_of(move.target)) as conn, conn.transaction():
        if conn.execute(moving.OPEN, [move.number]).rowcount:
            feed.record(Unit(conn, tenant), [fact])


def give_back(database: Database, move: Move) -> None:
    """The state that the tenant had before."""
    with moving.owner(database.url_of(HOME)) as conn:
        conn.execute(STATE, [move.before, move.number])


def end(database: Database, move: Move, left: str, failed: bool = False) -> None:
    """Done with it. A database of its own that was left belongs to nobody then."""
    if left != HOME:
        with moving.owner(database.url_of(left)) as conn, conn.transaction():
            conn.execute(moving.OPEN, [move.number])
            conn.execute("DELETE FROM cell WHERE name = %s", [left])
    with moving.owner(database.url_of(HOME)) as conn, conn.transaction():
        conn.execute(FAILED if failed else FORGET, [move.number])
        if left != HOME:
            conn.execute("DELETE FROM cell WHERE name = %s", [left])
