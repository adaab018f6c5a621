"""Listens to sources that can tell at once what changed, and reads just that again."""

from datetime import timedelta
from threading import Event, Thread
from time import monotonic
from uuid import UUID, uuid4

from lily import plugins
from lily.assets.hooks import reason_of
from lily.errors import Unavailable
from lily.sdk import Captures, Cursor, Regranted
from lily.store import captures, connections, crawls, protections
from lily.store.captures import Installed
from lily.store.connections import Connection
from lily.store.database import Unit
from lily.telemetry import logger
from lily.types import Tenant
from lily.wiring import Core
from lily.workers.crawl import build, crawl

PAUSE = 2.0
BEAT = 5.0
REST = timedelta(seconds=30)  # after a failure
MANY = 50  # changes at once beyond which everything is read


def run(core: Core, stop: Event) -> None:
    listening = Listening(core, stop)
    try:
        while not stop.is_set():
            listening.step()
            stop.wait(PAUSE)
    finally:
        listening.close()


class Listening:
    """What should be installed is, what should not is not; one thread listens to each source."""

    def __init__(self, core: Core, stop: Event) -> None:
        self._core = core
        self._stop = stop
        self._worker = uuid4()
        self._threads: dict[tuple[int, UUID, int], Thread] = {}

    def step(self) -> None:
        """Start listeners that are missing, and take out what nobody wants any more."""
        self._threads = {key: each for key, each in self._threads.items() if each.is_alive()}
        cells: dict[str, dict[int, Tenant]] = {}
        for tenant in self._core.database.tenants():
            if tenant.state == "active":
                cells.setdefault(tenant.cell, {})[tenant.number] = tenant
        self._core.database.each_cell(lambda cell: self._cell(cell, cells.get(cell, {})))

    def close(self) -> None:
        for thread in self._threads.values():
            thread.join(5)

    def _cell(self, cell: str, tenants: dict[int, Tenant]) -> None:
        if not tenants:
            return
        now = self._core.clock.now()
        with self._core.database.cell(cell, list(tenants)) as conn:
            wanted = captures.wanted(conn, list(tenants))
            left = captures.left_behind(conn, list(tenants), self._worker, now)
        for installed in left:
            self._remove(cell, tenants[installed.tenant], installed)
        for number, connection in wanted:
            key = (number, connection.id, connection.revision)
            if key not in self._threads:
                listener = Listener(
                    self._core, tenants[number], connection, self._worker, self._stop
                )
                thread = Thread(target=listener.run, name="capture", daemon=True)
                thread.start()
                self._threads[key] = thread

    def _remove(self, cell: str, tenant: Tenant, installed: Installed) -> None:
        """Until it works: the row stays, and the next step tries again."""
        secrets = None
        try:
            if installed.secrets is not None:
                about = connections.about(tenant.number, installed.connection)
                secrets = self._core.seal.open(installed.secrets, about)
            options = plugins.join(installed.options, secrets)
            plugins.build("source", installed.plugin, options).uninstall()
        except Exception as cause:  # noqa: BLE001  a source's bug must not stop the others
            reason = reason_of(cause, plugins.hidden(secrets))
            logger(__name__).warning("capture is still installed", reason=reason)
            with self._core.database.cell(cell, [tenant.number]) as conn:
                captures.note(conn, tenant.number, installed.connection, self._worker, error=reason)
            return
        with self._core.database.cell(cell, [tenant.number]) as conn:
            captures.forget(conn, installed)


class Listener:
    """Listens to one source until it is changed, ended, or somebody else's."""

    def __init__(
        self, core: Core, tenant: Tenant, connection: Connection, worker: UUID, stop: Event
    ) -> None:
        self._core = core
        self._tenant = tenant
        self._connection = connection
        self._worker = worker
        self._stop = stop
        self._beaten = monotonic()

    def run(self) -> None:
        hidden: tuple[str, ...] = ()
        try:
            mine, cursor = self._claim()
            if not mine:
                return
            secrets = connections.opened(
                self._core.seal.open, self._tenant.number, self._connection
            )
            hidden = plugins.hidden(secrets)
            self._listen(None if cursor is None else Cursor(cursor))
            self._release()
        except Unavailable:
            return
        except Exception as cause:  # noqa: BLE001  a source's bug must not stop the others
            self._note(error=reason_of(cause, hidden))
            logger(__name__).warning(
                "capture failed", tenant=self._tenant.name, reason=reason_of(cause, hidden)
            )
            self._stop.wait(REST.total_seconds())

    def _listen(self, cursor: Cursor | None) -> None:
        source, _ = build(self._core, self._tenant, self._connection)
        if not isinstance(source, Captures) or not source.wants_capture():
            return
        source.install()
        self._note()
        scopes: list[str] = []
        for change in source.changes(cursor):
            if isinstance(change, str):
                scopes.append(change)
            elif isinstance(change, Regranted):
                self._look_again()
            elif isinstance(change, Cursor):
                self._read_again(scopes)
                scopes = []
                self._note(change.value)
            if self._stop.is_set() or not self._alive():
                return

    def _read_again(self, scopes: list[str]) -> None:
        """Just what was touched; everything, if that is nearly everything."""
        unique = list(dict.fromkeys(scopes))
        if len(unique) > MANY:
            with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
                unit, now = Unit(conn, self._tenant), self._core.clock.now()
                crawls.ask(unit, self._connection.id, "schedule", "capture", None, now)
            return
        for scope in unique:
            with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
                run = crawls.begin(
                    conn, self._tenant.number, self._connection.id, scope, self._worker,
                    self._core.clock.now(),
                )  # fmt: skip
            crawl(self._core, self._tenant, run, self._worker, self._stop)
            self._look_again(scope)

    def _look_again(self, under: str = "") -> None:
        """Rights changed, or a table is another one: the enforcer there has something to do."""
        with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            unit, now = Unit(conn, self._tenant), self._core.clock.now()
            protections.ask_again(unit, self._connection.id, now, under)

    def _alive(self) -> bool:
        if monotonic() - self._beaten < BEAT:
            return True
        self._beaten = monotonic()
        with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            return captures.beat(
                conn, self._tenant.number, self._connection.id, self._connection.revision,
                self._worker, self._core.clock.now(),
            )  # fmt: skip

    def _claim(self) -> tuple[bool, object]:
        with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            return captures.claim(
                conn, self._tenant.number, self._connection, self._worker, self._core.clock.now()
            )

    def _release(self) -> None:
        with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            captures.release(conn, self._tenant.number, self._connection.id, self._worker)

    def _note(self, cursor: object = None, error: str = "") -> None:
        with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            captures.note(
                conn, self._tenant.number, self._connection.id, self._worker, cursor, error
            )
