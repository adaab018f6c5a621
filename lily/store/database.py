"""Connections: one pool a cell and role, and units of work bound to a tenant."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import Lock
from time import monotonic
from typing import Literal
from uuid import UUID

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import ConnectionPool, PoolTimeout

from lily.errors import NotFound, Unavailable
from lily.telemetry import logger
from lily.types import Tenant

Role = Literal["lily_app", "lily_system"]
Unseal = Callable[[bytes], bytes]

HOME = "home"
REPLICA = "home, to read"  # no cell is called so
# What the caller of this request may see of assets; empty is everything. See access/sight.py.
SIGHT: ContextVar[str] = ContextVar("sight", default="")
# The position of the feed that what this request reads must have reached; None is: the newest.
LEAST: ContextVar[int | None] = ContextVar("least", default=None)
MOVING = "The tenant is moving to another database; what was asked can be written in a moment."
MOVING_SECONDS = 5.0
AWAY = 30.0  # seconds for which a cell that did not answer is not asked again

set_json_dumps(msgspec.json.encode)
set_json_loads(msgspec.json.decode)


# A machine that is gone says nothing: each side asks, and gives up after some ten seconds.
WATCHFUL = {
    "keepalives_idle": "4", "keepalives_interval": "2", "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}  # fmt: skip
WATCHED = (
    "-c tcp_keepalives_idle=4 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
    " -c idle_in_transaction_session_timeout=60s"
)


def as_role(url: str, role: Role) -> str:
    """The same database, with no more rights than the role has."""
    given = conninfo_to_dict(url)
    unsaid = {name: value for name, value in WATCHFUL.items() if name not in given}
    own = f"-c role={role} -c search_path=lily,pg_temp -c timezone=UTC -c jit=off {WATCHED}"
    return make_conninfo(url, options=own, **unsaid)


class Unit:
    """One transaction, bound to one tenant. Rows of others cannot be seen from it."""

    def __init__(self, conn: psycopg.Connection, tenant: Tenant) -> None:
        self.conn = conn
        self.tenant = tenant


class Database:
    """The home database and every cell, as one role."""

    def __init__(
        self,
        home: str,
        role: Role,
        unseal: Unseal,
        size: int = 8,
        replica: str | None = None,
        pooler: str | None = None,
    ) -> None:
        """`replica` is a copy of the home database that follows it, for reading; `pooler` the way
        to it that keeps a connection for a transaction only."""
        self._home = home
        self._replica = replica
        self._pooler = pooler
        self._role: Role = role
        self._unseal = unseal
        self._size = size
        self._pools: dict[str, ConnectionPool] = {}
        self._away: dict[str, float] = {}
        self._lock = Lock()

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    @contextmanager
    def home(self) -> Iterator[psycopg.Connection]:
        """A transaction in the home database, bound to no tenant."""
        with self._transaction(HOME) as conn:
            yield conn

    @contextmanager
    def home_unit(self, tenant: Tenant) -> Iterator[Unit]:
        """A transaction in the home database for what a tenant keeps there: its logins."""
        bind = BIND if tenant.cell == HOME else BIND_AT_HOME
        with self._transaction(HOME) as conn:
            conn.execute(bind, [str(tenant.number), SIGHT.get(), tenant.number])
            yield Unit(conn, tenant)

    @contextmanager
    def at_home(self, tenants: Sequence[int]) -> Iterator[psycopg.Connection]:
        """Like `home`, for the system role: sees what these tenants keep there, wherever their
        assets have gone."""
        with self._transaction(HOME) as conn:
            conn.execute(BIND_MANY_AT_HOME, [_numbers(tenants)])
            yield conn

    @contextmanager
    def unit(self, tenant: Tenant) -> Iterator[Unit]:
        """A transaction in the tenant's cell: commits at the end, rolls back on any error."""
        with self._transaction(tenant.cell) as conn:
            _bind(conn, tenant)
            yield Unit(conn, tenant)

    @contextmanager
    def reading(self, tenant: Tenant) -> Iterator[Unit]:
        """Like `unit`, to read only: from the replica, once it has what the caller must see."""
        try:
            with ExitStack() as stack:
                unit = self._at_replica(stack, tenant)
                yield unit if unit is not None else stack.enter_context(self.unit(tenant))
        except psycopg.OperationalError as cause:  # it went away, or had to go on following
            if isinstance(cause, psycopg.errors.QueryCanceled):
                raise
            self._away[REPLICA] = monotonic() + AWAY
            raise Unavailable("The replica has ended the statement; ask again.") from cause

    @contextmanager
    def whole(self, tenant: Tenant) -> Iterator[Unit]:
        """Like `unit`, but with nobody's eyes: for decisions, which must know what is hidden."""
        with self._transaction(tenant.cell) as conn:
            if self._role == "lily_app":
                conn.execute(BIND, [str(tenant.number), "", tenant.number])
            elif not bind_many(conn, [tenant.number]):
                raise Unavailable(MOVING, after=MOVING_SECONDS)
            yield Unit(conn, tenant)

    @contextmanager
    def cell(self, name: str, tenants: Sequence[int] = ()) -> Iterator[psycopg.Connection]:
        """A transaction in a cell for the system role, seeing the given tenants."""
        with self._transaction(name) as conn:
            bind_many(conn, tenants)
            yield conn

    @contextmanager
    def frozen(self, name: str, tenants: Sequence[int]) -> Iterator[psycopg.Connection]:
        """Like `cell`, but all statements read the same moment, and none writes."""
        with self._connection(name) as conn:
            conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            try:
                with conn.transaction():
                    self._assume(name, conn)
                    conn.execute(PATIENT)  # what is read is worked on between two statements
                    bind_many(conn, tenants)
                    yield conn
            finally:
                conn.isolation_level = None

    def url_of(self, cell: str) -> str:
        """The address of a cell, as its administrator."""
        if cell == HOME:
            return self._home
        with self.home() as conn:
            row = conn.execute("SELECT url FROM cell WHERE name = %s", [cell]).fetchone()
        if row is None:
            raise NotFound("cell", cell)
        return self._unseal(row[0]).decode()

    def replica_url(self, cell: str) -> str | None:
        """Where a cell can be read besides; only the home database has such a place."""
        if cell != HOME or self._replica is None:
            return None
        return as_role(self._replica, self._role)

    def role_url(self, cell: str) -> str:
        return as_role(self.url_of(cell), self._role)

    def place_of(self, cell: str) -> dict[str, str]:
        """Host, port, name, user and password of a cell's database, for other programs."""
        given = conninfo_to_dict(self.role_url(cell))
        return {key: str(value) for key, value in given.items() if value is not None}

    def cells(self) -> list[str]:
        with self.home() as conn:
            return [name for (name,) in conn.execute("SELECT name FROM cell ORDER BY name")]

    def each_cell(self, work: Callable[[str], None]) -> None:
        """Do it in every cell. One that is away is left alone for a while: others do not wait."""
        for cell in self.cells():
            if self._away.get(cell, 0.0) > monotonic():
                continue
            try:
                work(cell)
            except Unavailable as cause:
                if cell == HOME:
                    raise
                self._away[cell] = monotonic() + AWAY
                logger(__name__).warning("a cell is away", cell=cell, reason=str(cause))

    def tenants(self) -> list[Tenant]:
        with self.home() as conn:
            rows = conn.execute(TENANTS + " ORDER BY number").fetchall()
        return [Tenant(*row) for row in rows]

    def priorities(self) -> dict[int, dict[str, int]]:
        """Which sources a tenant trusts most, strongest first, where it says so."""
        with self.home() as conn:
            rows = conn.execute(PRIORITIES).fetchall()
        return {number: {name: i for i, name in enumerate(names)} for number, names in rows}

    def tenant(self, key: UUID | str | int) -> Tenant:
        """By UUID, number or name."""
        where = {UUID: "id", int: "number", str: "name"}[type(key)]
        with self.home() as conn:
            row = conn.execute(f"{TENANTS} WHERE {where} = %s", [key]).fetchone()
        if row is None:
            raise NotFound("tenant", key)
        return Tenant(*row)

    def _at_replica(self, stack: ExitStack, tenant: Tenant) -> Unit | None:
        """A transaction there; None if there is none, or it is away, or too far behind."""
        url = self.replica_url(tenant.cell)
        if url is None or self._away.get(REPLICA, 0.0) > monotonic():
            return None
        least = LEAST.get()
        if least is None:
            with self.unit(tenant) as primary:
                least = _head(primary)
        own = ExitStack()
        try:
            conn = own.enter_context(self._pool(REPLICA).connection(timeout=1))
            own.enter_context(conn.transaction())
            _bind(conn, tenant)
            unit = Unit(conn, tenant)
            if _head(unit) >= least:
                stack.enter_context(own)
                return unit
        except (PoolTimeout, psycopg.OperationalError, psycopg.InternalError) as cause:
            self._away[REPLICA] = monotonic() + AWAY
            logger(__name__).warning("the replica is away", reason=str(cause))
        own.close()
        return None

    @contextmanager
    def _transaction(self, cell: str) -> Iterator[psycopg.Connection]:
        with self._connection(cell) as conn, conn.transaction():
            self._assume(cell, conn)
            yield conn

    def _assume(self, cell: str, conn: psycopg.Connection) -> None:
        """Behind a pooler a connection is ours for one transaction: so is what we set."""
        if cell == HOME and self._pooler is not None:
            conn.execute(ASSUME, [self._role])

    @contextmanager
    def _connection(self, cell: str) -> Iterator[psycopg.Connection]:
        try:
            with self._pool(cell).connection(timeout=5) as conn:
                yield conn
        except psycopg.errors.ReadOnlySqlTransaction as cause:
            raise Unavailable(MOVING, after=MOVING_SECONDS) from cause
        except (PoolTimeout, psycopg.OperationalError) as cause:
            if isinstance(cause, psycopg.errors.DeadlockDetected | psycopg.errors.QueryCanceled):
                raise
            raise Unavailable("The database cannot be reached.") from cause

    def _pool(self, cell: str) -> ConnectionPool:
        if (pool := self._pools.get(cell)) is not None:
            return pool
        url = self.role_url(cell) if cell != REPLICA else self.replica_url(HOME)
        options: dict[str, object] = {"autocommit": True}
        if cell == HOME and self._pooler is not None:
            # What one transaction has prepared the next may not find: it has another connection.
            url, options["prepare_threshold"] = self._pooler, None
        assert url is not None
        with self._lock:
            if cell not in self._pools:
                self._pools[cell] = ConnectionPool(
                    url,
                    min_size=1,
                    max_size=self._size,
                    open=True,
                    name=f"{self._role}@{cell}",
                    check=ConnectionPool.check_connection,
                    max_idle=60,
                    reconnect_timeout=30,
                    kwargs=options,
                )
            return self._pools[cell]


def direct(database: Database, cell: str) -> psycopg.Connection:
    """A connection of one's own, for who keeps temporary tables on it."""
    return psycopg.connect(database.role_url(cell), autocommit=True, connect_timeout=5)


ASSUME = (
    "SELECT set_config('role', %s, true), set_config('search_path', 'lily, pg_temp', true),"
    " set_config('timezone', 'UTC', true), set_config('jit', 'off', true)"
)
# Tenant, sight, and the tenant's number again: one that is on its way elsewhere is only read.
BIND = (
    "SELECT set_config('lily.tenant', %s, true), set_config('lily.sight', %s, true),"
    " (SELECT halt(phase) FROM departure WHERE number = %s)"
)
# The same within the one statement that it is for. The rest of the statement takes the tenant from
# here, and so comes after it.
BOUND = """
(SELECT set_config('lily.tenant', %(me)s::int::text, true)::int AS tenant,
        set_config('lily.sight', %(sight)s, true),
        (SELECT halt(phase) FROM departure WHERE number = %(me)s) OFFSET 0)"""
PATIENT = "SET LOCAL idle_in_transaction_session_timeout = '30min'"
HEAD = "SELECT position FROM feed_head WHERE tenant = %s"
# Logins stay at home, wherever else the tenant has gone.
BIND_AT_HOME = BIND[:-1] + " AND phase <> 'gone')"
BIND_MANY_AT_HOME = "SELECT set_config('lily.tenants', %s, true)"
# The pipeline goes on while a tenant closes; after that, it does not see the tenant.
BIND_MANY = """
SELECT set_config('lily.tenants', CASE
  WHEN EXISTS (SELECT FROM departure WHERE phase IN ('closed', 'gone')) THEN (
    SELECT coalesce(array_agg(n), '{}')::text FROM unnest(%(given)s::text::int[]) n
     WHERE NOT EXISTS (SELECT FROM departure WHERE number = n AND phase IN ('closed', 'gone')))
  ELSE %(given)s::text END, true)
"""
TENANTS = "SELECT number, id, name, cell, isolation, state FROM tenant"

PRIORITIES = (
    "SELECT number, settings -> 'source_priority' FROM tenant"
    " WHERE jsonb_typeof(settings -> 'source_priority') = 'array'"
)


def bind_many(conn: psycopg.Connection, tenants: Sequence[int]) -> bool:
    """Whether any of them can be seen from here on: who goes elsewhere is not."""
    row = conn.execute(BIND_MANY, {"given": _numbers(tenants)}).fetchone()
    return row is not None and row[0] != "{}"


def _numbers(tenants: Sequence[int]) -> str:
    return "{" + ",".join(map(str, tenants)) + "}"


def _bind(conn: psycopg.Connection, tenant: Tenant) -> None:
    conn.execute(BIND, [str(tenant.number), SIGHT.get(), tenant.number])


def _head(unit: Unit) -> int:
    row = unit.conn.execute(HEAD, [unit.tenant.number]).fetchone()
    return row[0] if row else 0
