"""Large reaches: planned beside everything else, applied chunk by chunk, planned anew when stale.

A plan is what should be against what is stored. Chunks of it are applied one transaction each, and
between two of them whatever else has come goes first. If that looked at an asset of the rest, the
rest is thrown away and planned anew; and a task ends only when a fresh plan finds nothing to do. So
a stale plan cannot bring back what was removed, and the end is exact.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Event, Lock, Thread
from time import monotonic
from uuid import UUID, uuid4

import msgspec
import psycopg

from lily.errors import LilyError
from lily.events.facts import Fact
from lily.lineage.stirred import BY
from lily.store.database import Database, bind_many
from lily.store.presence import is_loading
from lily.store.propagation import ASK, Propagator, connect, limited, position, standing
from lily.store.propagation_apply import Cause, apply
from lily.store.propagation_plan import Difference, Plan, Scope
from lily.telemetry import LOOP_FAILURES, PROPAGATION_LIMITED, logger
from lily.types import Tenant

CHUNK = 2_000  # rows a transaction
TIRED = 3  # plans that went stale, after which the next one is made while others wait
LONG = 600.0  # seconds after which it is told that a task takes long
POLL = 0.5
CALM = 1.0
RESTLESS = 120.0  # seconds after which nothing is waited for
WIDE = 200_000  # assets from which a whole tenant is planned by the batch job, if there is one

DUTY = "propagation-tasks"
TAKE = "SELECT pg_try_advisory_lock(hashtext(%s))"
LET_GO = "SELECT pg_advisory_unlock(hashtext(%s))"
OPEN = """
SELECT tenant, id, starts, up_starts, whole, names, cause, traceparent, size, plans, created_at
  FROM propagation_task WHERE tenant = ANY(%s) AND state = 'waiting'
 ORDER BY size, created_at, id LIMIT 1
"""
PLANNED = "UPDATE propagation_task SET plans = plans + 1, size = %s WHERE tenant = %s AND id = %s"
CHUNKED = """
UPDATE propagation_task SET chunks = chunks + 1, changed = changed + %s
 WHERE tenant = %s AND id = %s
"""
DONE = """
UPDATE propagation_task SET state = 'done', finished_at = %s
 WHERE tenant = %s AND id = %s RETURNING size, plans, chunks, changed
"""
FORGET = """
DELETE FROM propagation_task
 WHERE tenant = %s AND state = 'done' AND finished_at < %s - interval '7 days'
"""


class Task(msgspec.Struct, frozen=True):
    tenant: int
    id: UUID
    starts: list[UUID]
    up_starts: list[UUID]
    whole: bool
    names: list[str] | None
    cause: str
    traceparent: str
    size: int
    plans: int
    created_at: datetime

    @property
    def scope(self) -> Scope:
        names = None if self.names is None else frozenset(self.names)
        return Scope(tuple(self.starts), tuple(self.up_starts), self.whole, names)


class _Rest:
    """What is left of the plan under way, and whether it still holds."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.guids: set[UUID] | None = None  # null while it is being planned
        self.touched: set[UUID] = set()
        self.position = 0  # of the facts that the plan knows of
        self.stale = False


Recompute = Callable[[Tenant], Plan]


class Tasks:
    """Works off the tasks of all cells, the smallest first; per tenant one process at a time."""

    def __init__(
        self, propagator: Propagator, chunk: int = CHUNK, recompute: Recompute | None = None,
        wide: int = WIDE, calm: float = 0.0,
    ) -> None:  # fmt: skip
        self._propagator = propagator
        self._chunk = chunk
        self._recompute = recompute
        self._wide = wide
        self._calm = calm  # seconds without another large change, before a plan is worth making
        self._large_at: dict[int, float] = {}
        self._connections: dict[str, psycopg.Connection] = {}
        self._rest: _Rest | None = None
        self._lock = Lock()
        self._told_long: set[UUID] = set()
        self.changed = 0
        propagator.watch(self._look)

    def step(self, tenant: Tenant) -> bool:
        """Work on one task of a tenant until it is done or another goes first. False: none."""
        conn = self._connection(tenant.cell)
        task = self._next(conn, tenant)
        if task is None or not self._is_time(task) or not _mine(conn, tenant):
            return False
        try:
            self._work(conn, tenant, task)
        finally:
            if not conn.broken:
                conn.execute(LET_GO, [f"{DUTY}:{tenant.number}"])
        return True

    def close(self) -> None:
        for conn in self._connections.values():
            conn.close()

    def _is_time(self, task: Task) -> bool:
        """While an estate is loaded, every plan would be stale before it is made.

        So each one that was is waited for twice as long as the one before.
        """
        quiet = monotonic() - self._large_at.get(task.tenant, float("-inf"))
        age = self._propagator.clock.now() - task.created_at
        if age.total_seconds() > RESTLESS * 2 ** min(task.plans, 4):
            return True
        loaded = self._calm > 0 and task.whole and is_loading(self._propagator.database)
        return quiet >= self._calm and not loaded

    def _look(self, tenant: Tenant, guids: frozenset[UUID] | None) -> None:
        """Somebody is about to commit what they saw of these assets."""
        with self._lock:
            rest = self._rest
            if guids is None:
                self._large_at[tenant.number] = monotonic()
            if rest is None or rest.tenant.number != tenant.number:
                return
            if guids is None:
                rest.stale = True
            elif rest.guids is None:
                rest.touched |= guids
            elif not rest.guids.isdisjoint(guids):
                rest.stale = True

    def _work(self, conn: psycopg.Connection, tenant: Tenant, task: Task) -> None:
        with self._lock:
            rest = self._rest = _Rest(tenant)
        conn.execute("SELECT take_stock()")  # the chunks before this plan have changed much
        try:
            if task.plans and task.plans % TIRED == 0:
                made = self._plan_alone(conn, tenant, task, rest)
            else:
                made = self._plan(conn, tenant, task, rest)
            chunks = self._chunks(made.differences)
            self._tell_long(conn, tenant, task)
            for chunk in chunks:
                if self._propagator.stop.is_set() or rest.stale:
                    return
                if not self._apply(conn, tenant, task, chunk, rest):
                    return
                if self._smaller(conn, tenant, task):
                    return
                self._propagator.stop.wait(0.01)  # who waits for the tenant goes first
            if not chunks and not rest.stale:
                self._finish(conn, tenant, task, made, rest)
        finally:
            with self._lock:
                self._rest = None

    def _plan(self, conn: psycopg.Connection, tenant: Tenant, task: Task, rest: _Rest) -> Plan:
        """One moment's view of everything; the others go on."""
        if self._recompute is not None and task.whole and task.size > self._wide:
            return self._plan_wide(conn, tenant, task, rest, self._recompute)
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        try:
            with conn.transaction():
                bind_many(conn, [tenant.number])
                rest.position = standing(conn, tenant.number)
                context = self._propagator.context(conn, tenant)
                made = self._propagator.plan(conn, tenant, task.scope, context)
        finally:
            conn.isolation_level = None
        self._note(made, rest)
        with conn.transaction():
            bind_many(conn, [tenant.number])
            conn.execute(PLANNED, [made.size, tenant.number, task.id])
        return made

    def _plan_wide(
        self, conn: psycopg.Connection, tenant: Tenant, task: Task, rest: _Rest,
        recompute: Recompute,
    ) -> Plan:  # fmt: skip
        """By the batch job. It looks at all names, so it may find more than was asked for."""
        with conn.transaction():
            bind_many(conn, [tenant.number])
            rest.position = standing(conn, tenant.number)
        made = recompute(tenant)
        self._note(made, rest)
        with conn.transaction():
            bind_many(conn, [tenant.number])
            conn.execute(PLANNED, [task.size, tenant.number, task.id])
        return made

    def _plan_alone(
        self, conn: psycopg.Connection, tenant: Tenant, task: Task, rest: _Rest
    ) -> Plan:
        """Nobody else may write meanwhile: changes came faster than plans could be made."""
        with conn.transaction():
            bind_many(conn, [tenant.number])
            rest.position = position(conn, tenant.number)
            context = self._propagator.context(conn, tenant)
            made = self._propagator.plan(conn, tenant, task.scope, context)
            conn.execute(PLANNED, [made.size, tenant.number, task.id])
            self._note(made, rest)
        return made

    def _note(self, made: Plan, rest: _Rest) -> None:
        with self._lock:
            rest.guids = {each.guid for each in made.differences}
            if not rest.guids.isdisjoint(rest.touched):
                rest.stale = True

    def _chunks(self, differences: Sequence[Difference]) -> list[list[Difference]]:
        """All of one asset in one chunk."""
        by_guid: dict[UUID, list[Difference]] = defaultdict(list)
        for each in differences:
            by_guid[each.guid].append(each)
        chunks: list[list[Difference]] = [[]]
        for together in by_guid.values():
            if len(chunks[-1]) + len(together) > self._chunk and chunks[-1]:
                chunks.append([])
            chunks[-1] += together
        return [chunk for chunk in chunks if chunk]

    def _apply(
        self, conn: psycopg.Connection, tenant: Tenant, task: Task, chunk: list[Difference],
        rest: _Rest,
    ) -> bool:  # fmt: skip
        with conn.transaction():
            bind_many(conn, [tenant.number])
            if not self._holds(conn, tenant, rest):
                return False
            context = self._propagator.context(conn, tenant)
            cause = Cause(task.cause, task.traceparent)
            shown = apply(conn, tenant.number, chunk, lambda _: cause, context)
            conn.execute(CHUNKED, [shown, tenant.number, task.id])
        self.changed += shown
        with self._lock:
            if rest.guids is not None:
                rest.guids -= {each.guid for each in chunk}
        return True

    def _holds(self, conn: psycopg.Connection, tenant: Tenant, rest: _Rest) -> bool:
        """Whether the plan still does; from here on nothing moves but by us.

        A position that this process did not set is another one's, which told us nothing.
        """
        now = position(conn, tenant.number)
        known = (rest.position, self._propagator.positions.get(tenant.number))
        return not rest.stale and now in known

    def _finish(
        self, conn: psycopg.Connection, tenant: Tenant, task: Task, made: Plan, rest: _Rest
    ) -> None:
        with conn.transaction():
            bind_many(conn, [tenant.number])
            if not self._holds(conn, tenant, rest):
                return
            now = self._propagator.clock.now()
            row = conn.execute(DONE, [now, tenant.number, task.id]).fetchone()
            if row is None:
                return
            conn.execute(FORGET, [tenant.number, now])
            size, plans, chunks, changed = row
            after = {"task": task.id, "size": size, "plans": plans, "chunks": chunks,
                     "changed": changed}  # fmt: skip
            told = Fact(
                kind="PropagationFinished", at=now, by=BY, cause=task.cause, after=after,
                traceparent=task.traceparent,
            )  # fmt: skip
            facts = [*limited(made, task.cause, now), told]
            context = self._propagator.context(conn, tenant)
            apply(conn, tenant.number, [], lambda _: Cause(""), context, lambda: facts)

    def _tell_long(self, conn: psycopg.Connection, tenant: Tenant, task: Task) -> None:
        now = self._propagator.clock.now()
        if task.id in self._told_long or (now - task.created_at).total_seconds() < LONG:
            return
        self._told_long.add(task.id)
        PROPAGATION_LIMITED.labels("time").inc()
        after = {"limit": "time", "task": task.id, "assets": task.size}
        told = Fact(kind="PropagationLimited", at=now, by=BY, cause=task.cause, after=after)
        with conn.transaction():
            bind_many(conn, [tenant.number])
            context = self._propagator.context(conn, tenant)
            apply(conn, tenant.number, [], lambda _: Cause(""), context, lambda: [told])

    def _smaller(self, conn: psycopg.Connection, tenant: Tenant, task: Task) -> bool:
        first = self._next(conn, tenant)
        return first is not None and first.id != task.id

    def _next(self, conn: psycopg.Connection, tenant: Tenant) -> Task | None:
        with conn.transaction():
            bind_many(conn, [tenant.number])
            row = conn.execute(OPEN, [[tenant.number]]).fetchone()
        return Task(*row) if row else None

    def _connection(self, cell: str) -> psycopg.Connection:
        conn = self._connections.get(cell)
        if conn is None or conn.closed or conn.broken:
            conn = self._connections[cell] = connect(self._propagator.database, cell)
        return conn


def _mine(conn: psycopg.Connection, tenant: Tenant) -> bool:
    row = conn.execute(TAKE, [f"{DUTY}:{tenant.number}"]).fetchone()
    return bool(row and row[0])


def ask_for_all(
    conn: psycopg.Connection, tenant: Tenant, cause: str, size: int, now: datetime
) -> UUID:
    """A task that looks at everything of the tenant again; `conn` is in a transaction of it."""
    id = uuid4()
    conn.execute(ASK, [tenant.number, id, [], [], True, None, cause, "", 0, size, now])
    return id


class TaskLoop:
    """A thread that waits for tasks and works them off; it costs nothing while there are none."""

    def __init__(self, propagator: Propagator, tasks: Tasks) -> None:
        self._propagator = propagator
        self._tasks = tasks
        self._database: Database = propagator.database
        self._stop = Event()
        self._thread = Thread(target=self._run, name="propagation-tasks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Let the chunk under way be committed, and begin no other."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.is_set() and not self._propagator.stop.is_set():
            began = monotonic()
            try:
                busy = self.sweep()
            except (LilyError, psycopg.Error) as cause:
                LOOP_FAILURES.labels("propagation").inc()
                logger(__name__).warning("a large reach waits", reason=str(cause).strip())
                busy = False
            except Exception as cause:  # noqa: BLE001  or tags would never arrive again
                LOOP_FAILURES.labels("propagation").inc()
                logger(__name__).error("a large reach failed", reason=str(cause), exc_info=True)
                busy = False
            if not busy:
                self._stop.wait(max(0.0, POLL - (monotonic() - began)))
        self._tasks.close()

    def sweep(self) -> bool:
        """One step for every tenant that has a task."""
        busy = False
        by_cell: dict[str, dict[int, Tenant]] = defaultdict(dict)
        for tenant in self._database.tenants():
            by_cell[tenant.cell][tenant.number] = tenant
        for cell, tenants in by_cell.items():
            with self._database.cell(cell, list(tenants)) as conn:
                query = "SELECT DISTINCT tenant FROM propagation_task WHERE state = 'waiting'"
                waiting = [tenants[number] for (number,) in conn.execute(query).fetchall()]
            for tenant in waiting:
                if not self._stop.is_set():
                    busy = self._tasks.step(tenant) or busy
        return busy
