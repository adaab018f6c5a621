"""Keeps engines in the state that tags and policies want: at once when facts say so, and again."""

from threading import Event, Thread
from uuid import UUID

from lily.store import enforcers
from lily.store.connections import Connection
from lily.store.lease import Lease
from lily.store.wakeups import Waiter, Wakeups
from lily.telemetry import logger
from lily.types import Tenant
from lily.wiring import Core
from lily.workers.keeper import Keeper

PAUSE = 1.0
LOOK = 0.5  # a wake-up is a hint; this is the promise
SOON = 0.05  # while something is kept back


def run(core: Core, stop: Event) -> None:
    """One thread for each enforcer connection; of several processes one holds it."""
    wakeups = Wakeups(core.database)
    watching: dict[tuple[int, UUID, int], Thread] = {}
    try:
        while not stop.is_set():
            watching = {key: thread for key, thread in watching.items() if thread.is_alive()}
            for tenant, connection in enforcers.connections(core.database):
                key = (tenant.number, connection.id, connection.revision)
                if key not in watching:
                    watch = Watch(core, tenant, connection, wakeups, stop)
                    watching[key] = Thread(target=watch.run, name="enforce", daemon=True)
                    watching[key].start()
            stop.wait(PAUSE)
    finally:
        wakeups.stop()
        for thread in watching.values():
            thread.join(10)


class Watch:
    """Looks after one engine until its connection changes or another process takes over."""

    def __init__(
        self, core: Core, tenant: Tenant, connection: Connection, wakeups: Wakeups, stop: Event
    ) -> None:
        self._core = core
        self._tenant = tenant
        self._connection = connection
        self._wakeups = wakeups
        self._stop = stop
        self._lost = Event()

    def run(self) -> None:
        lease = Lease(self._core.database, f"enforce:{self._connection.id}", self._lost.set)
        try:
            if not lease.acquire(self._stop):
                return
            self._keep()
        except Exception as cause:  # noqa: BLE001  one engine's bug must not stop the others
            logger(__name__).error(
                "enforcement failed", connection=self._connection.name, reason=str(cause),
                exc_info=True,
            )  # fmt: skip
            self._stop.wait(5)
        finally:
            lease.release()

    def _keep(self) -> None:
        keeper = Keeper(self._core, self._tenant, self._connection)
        grown = Event()
        waiter = Waiter(self._tenant, keeper.position, grown.set)
        self._wakeups.add(waiter)
        try:
            keeper.sweep()
            while not (self._stop.is_set() or self._lost.is_set() or self._is_outdated()):
                keeper.step()
                waiter.after = keeper.position
                grown.wait(SOON if keeper.hurries else LOOK)
                grown.clear()
        finally:
            self._wakeups.remove(waiter)
            keeper.close()

    def _is_outdated(self) -> bool:
        return not enforcers.is_current(self._core.database, self._tenant, self._connection)
