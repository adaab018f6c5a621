"""Tenants: made, listed, suspended, counted. A dedicated one gets a database to itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import msgspec
import psycopg
from psycopg.errors import UniqueViolation

from lily.clock import Clock
from lily.errors import Conflict, Invalid, Unavailable
from lily.identity.actor import Actor
from lily.store import people
from lily.store.database import HOME, TENANTS, Database, Unit
from lily.store.desk import Desk, desk, write_facts
from lily.store.migrate import migrate
from lily.store.revocations import revoke
from lily.store.seal import Seal
from lily.types import Isolation, Tenant, TenantState

BOOTSTRAP = 0x6C696C79_0002
CLAIM = 0x6C696C79_0003

INSERT = """
INSERT INTO tenant (id, name, cell, isolation) VALUES (%s, %s, %s, %s)
RETURNING number, id, name, cell, isolation, state
"""
STATE = "UPDATE tenant SET state = %s WHERE number = %s AND state <> %s"
PAGE = f"{TENANTS} WHERE name > %s ORDER BY name LIMIT %s"
ASSETS = "SELECT lane, count(*) FROM asset WHERE tenant = %s GROUP BY lane"
FACTS = "SELECT position FROM feed_head WHERE tenant = %s"
DEAD = "SELECT count(*) FROM dead_letter WHERE tenant = %s AND state = 'parked'"
FIELD = "database_url"
TAKEN = "SELECT EXISTS (SELECT FROM lily.tenant) OR (SELECT count(*) > 1 FROM lily.cell)"


class Admin(msgspec.Struct, frozen=True):
    """The first person of a tenant."""

    username: str
    hashed: str
    platform: bool = False


class Usage(msgspec.Struct, frozen=True):
    assets: dict[str, int]
    facts: int
    dead_letters: int


def create(database: Database, clock: Clock, name: str, admin: Admin, actor: Actor) -> Tenant:
    """A tenant in the shared cell."""
    with database.home() as conn:
        work = _insert(conn, clock, (name, HOME, "pooled"), admin, actor)
        write_facts(database, work)
    return work.tenant


def create_dedicated(
    database: Database, clock: Clock, seal: Seal, name: str, url: str, admin: Admin, actor: Actor
) -> Tenant:
    """A tenant with a database of its own, which is migrated first."""
    cell = str(uuid4())
    with claimed(url, cell), database.home() as conn:
        sealed = seal.seal(url.encode())
        conn.execute("INSERT INTO cell (name, url) VALUES (%s, %s)", [cell, sealed])
        work = _insert(conn, clock, (name, cell, "dedicated"), admin, actor)
    write_facts(database, work)  # the cell is known only now
    return work.tenant


def first(database: Database, clock: Clock, name: str, admin: Admin, actor: Actor) -> Tenant | None:
    """The first tenant of an empty installation; None when there is one already."""
    with database.home() as conn:
        conn.execute("SELECT pg_advisory_xact_lock(%s)", [BOOTSTRAP])
        if conn.execute("SELECT 1 FROM tenant LIMIT 1").fetchone() is not None:
            return None
        work = _insert(conn, clock, (name, HOME, "pooled"), admin, actor)
        write_facts(database, work)
    return work.tenant


def page(database: Database, after: str, limit: int) -> list[Tenant]:
    with database.home() as conn:
        return [Tenant(*row) for row in conn.execute(PAGE, [after, limit]).fetchall()]


def usage(database: Database, tenant: Tenant) -> Usage:
    with database.unit(tenant) as unit:
        assets: dict[str, int] = dict(unit.conn.execute(ASSETS, [tenant.number]).fetchall())
        facts = unit.conn.execute(FACTS, [tenant.number]).fetchone()
        dead = unit.conn.execute(DEAD, [tenant.number]).fetchone()
    lanes = {"core": 0, "fields": 0, **assets}
    return Usage(lanes, facts[0] if facts else 0, dead[0] if dead else 0)


def set_state(
    database: Database,
    clock: Clock,
    tenant: Tenant,
    state: TenantState,
    actor: Actor,
    life: timedelta,
) -> Tenant:
    """Suspend or resume; what was issued before a suspension is refused for good."""
    if tenant.state == "moving":
        raise Conflict(f"{tenant.name} is moving to another database; wait until it is there.")
    with desk(database, clock, tenant, actor) as work:
        done = work.conn.execute(STATE, [state, tenant.number, state])
        if done.rowcount:
            if state == "suspended":
                revoke(work.conn, tenant.id, life)
            work.note("TenantChanged", {"state": state}, {"state": tenant.state})
    return database.tenant(tenant.name)


def _insert(
    conn: psycopg.Connection,
    clock: Clock,
    place: tuple[str, str, Isolation],
    admin: Admin,
    actor: Actor,
) -> Desk:
    name, cell, isolation = place
    try:
        row = conn.execute(INSERT, [uuid4(), name, cell, isolation]).fetchone()
    except UniqueViolation as cause:
        raise Conflict(f"There is already a tenant {name}; choose another name.") from cause
    assert row is not None
    tenant = Tenant(*row)
    conn.execute("SELECT set_config('lily.tenant', %s, true)", [str(tenant.number)])
    work = Desk(Unit(conn, tenant), actor, clock)
    work.note("TenantCreated", {"name": name, "isolation": isolation})
    people.create(work, admin.username, admin.username, "admin", admin.hashed, admin.platform)
    return work


@contextmanager
def claimed(url: str, cell: str) -> Iterator[None]:
    """Migrate a database and mark it as this cell's, unless it is somebody's already. How far
    Kafka was read for whoever had it before does not count: a new cell has topics of its own."""
    try:
        migrate(url)
    except (psycopg.Error, Unavailable) as cause:
        # The driver's text may hold the URL, and with it the password.
        raise Invalid(
            "cannot be opened and migrated; check address, user and rights", FIELD
        ) from cause
    with psycopg.connect(url) as conn:
        conn.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIM])
        row = conn.execute(TAKEN).fetchone()
        if row is None or row[0]:
            raise Invalid("is used by another tenant; give an empty database", FIELD)
        conn.execute("INSERT INTO lily.cell (name) VALUES (%s)", [cell])
        conn.execute("DELETE FROM lily.applied WHERE part > 0")
        yield
