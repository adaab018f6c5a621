"""Tells waiters that a feed has grown: one connection a cell, however many wait."""

from collections.abc import Callable
from threading import Event, Lock, Thread

import psycopg

from lily.errors import LilyError
from lily.store.database import Database
from lily.telemetry import logger
from lily.types import Tenant

POLL = 0.25  # a notification is a hint; this is the promise
LINGER = 120  # polls without anybody waiting until the connection is given back

HEAD = "SELECT position FROM feed_head WHERE tenant = %s"
# A caller's role is bound to a tenant, a worker's to several.
BIND = "SELECT set_config('lily.tenant', %s, true), set_config('lily.tenants', %s, true)"

Wake = Callable[[], None]


class Waiter:
    """Somebody who wants to hear when a tenant's feed passes a position."""

    def __init__(self, tenant: Tenant, after: int, wake: Wake) -> None:
        self.tenant = tenant
        self.after = after
        self.wake = wake


class Wakeups:
    """Waiters of this process. Their `wake` is called from another thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = Lock()
        self._waiting: dict[str, set[Waiter]] = {}
        self._listeners: dict[str, Thread] = {}
        self._ended = Event()

    def add(self, waiter: Waiter) -> None:
        cell = waiter.tenant.cell
        with self._lock:
            self._waiting.setdefault(cell, set()).add(waiter)
            if cell not in self._listeners and not self._ended.is_set():
                thread = Thread(target=self._run, args=[cell], name=f"facts@{cell}", daemon=True)
                self._listeners[cell] = thread
                thread.start()

    def remove(self, waiter: Waiter) -> None:
        with self._lock:
            self._waiting.get(waiter.tenant.cell, set()).discard(waiter)

    def stop(self) -> None:
        """Wake everybody up and give the connections back."""
        self._ended.set()
        with self._lock:
            threads = list(self._listeners.values())
            waiters = [each for group in self._waiting.values() for each in group]
        for waiter in waiters:
            waiter.wake()
        for thread in threads:
            thread.join(5)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def _run(self, cell: str) -> None:
        while not self._ended.is_set():
            try:
                self._listen(cell)
                return
            except (psycopg.Error, LilyError) as cause:
                logger(__name__).warning("cannot listen to facts", cell=cell, reason=str(cause))
                self._ended.wait(1)
        self._forget(cell, always=True)

    def _listen(self, cell: str) -> None:
        url = self._database.role_url(cell)
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as conn:
            conn.execute("LISTEN lily_facts")
            idle = 0
            while not self._ended.is_set():
                for told in conn.notifies(timeout=POLL, stop_after=1):
                    tenant, _, position = told.payload.partition(":")
                    self._grown(cell, int(tenant), int(position))
                tenants = self._tenants(cell)
                for number in tenants:
                    self._grown(cell, number, _head(conn, number))
                idle = 0 if tenants else idle + 1
                if idle > LINGER and self._forget(cell):
                    return
        self._forget(cell, always=True)

    def _tenants(self, cell: str) -> list[int]:
        with self._lock:
            return sorted({each.tenant.number for each in self._waiting.get(cell, ())})

    def _grown(self, cell: str, number: int, position: int) -> None:
        with self._lock:
            ready = [
                each for each in self._waiting.get(cell, ())
                if each.tenant.number == number and each.after < position
            ]  # fmt: skip
        for waiter in ready:
            waiter.wake()

    def _forget(self, cell: str, always: bool = False) -> bool:
        with self._lock:
            if self._waiting.get(cell) and not always:
                return False
            self._listeners.pop(cell, None)
            return True


def _head(conn: psycopg.Connection, number: int) -> int:
    with conn.transaction():
        conn.execute(BIND, [str(number), f"{{{number}}}"])
        row = conn.execute(HEAD, [number]).fetchone()
    return row[0] if row else 0
