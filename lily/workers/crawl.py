"""Reads sources: asks for what is due, claims a run, sends differences, ends with what is gone."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Event, Thread
from typing import Any
from uuid import UUID, uuid4

from lily import plugins, schedule
from lily.assets.hooks import reason_of
from lily.errors import Invalid, NotFound, PluginError, Reject, Retry, Unavailable
from lily.sdk import Cursor, Narrows, Source
from lily.store import connections, crawl_plan, crawls
from lily.store.connections import Connection
from lily.store.crawl_seen import Progress, Seen
from lily.store.crawls import Run
from lily.store.database import Unit
from lily.store.throttle import Backlog
from lily.telemetry import CRAWLS, logger
from lily.types import Tenant
from lily.wiring import Core, source_folders
from lily.workers.reading import Chunk, chunks
from lily.workers.sending import Counts, Sender

PAUSE = 1.0
PLAN_EVERY = 5  # turns
TIDY_EVERY = 600
AT_ONCE = 2  # crawls in one process; they mostly wait for what they read
BEAT = 5.0
ATTEMPTS = 4
FIRST_WAIT = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=10)


class Ended(Exception):
    """The run is no longer ours: cancelled, or taken over after too long a silence."""


def run(core: Core, stop: Event) -> None:
    host, turn = Host(core, stop), 0
    try:
        while not stop.is_set():
            if turn % PLAN_EVERY == 0:
                host.plan()
            if turn % TIDY_EVERY == 0:
                host.tidy()
            host.fill()
            turn += 1
            stop.wait(PAUSE)
    finally:
        host.close()


def work(core: Core, stop: Event) -> int:
    """Everything that is due now, one after the other; returns how many runs."""
    host, done = Host(core, stop), 0
    host.plan()
    while (found := host.claim()) is not None:
        host.crawl(*found)
        done += 1
        if stop.is_set():
            break
    host.close()
    return done


class Host:
    """Crawls of one process. Several processes share the work through the claims."""

    def __init__(self, core: Core, stop: Event) -> None:
        self._core = core
        self._stop = stop
        self._worker = uuid4()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="crawl")
        self._busy: set[Future[None]] = set()

    def plan(self) -> None:
        """Ask for what is due by its schedule."""
        now = self._core.clock.now()

        def look(conn: Any, tenants: list[Tenant]) -> None:
            crawl_plan.plan(
                conn, tenants, schedule.next_after, schedule.DEFAULT, schedule.NEVER, now
            )

        self._everywhere(look)

    def fill(self) -> None:
        """Start as many runs as there is room for."""
        self._busy = {future for future in self._busy if not future.done()}
        while len(self._busy) < AT_ONCE and (found := self.claim()) is not None:
            self._busy.add(self._pool.submit(self.crawl, *found))

    def claim(self) -> tuple[Tenant, Run] | None:
        found: list[tuple[Tenant, Run]] = []

        def look(conn: Any, tenants: list[Tenant]) -> None:
            numbers = {tenant.number: tenant for tenant in tenants}
            if not found:
                now = self._core.clock.now()
                claimed = crawls.claim(conn, list(numbers), self._worker, now)
                found.extend([(numbers[claimed.tenant], claimed)] if claimed else [])

        self._everywhere(look)
        return found[0] if found else None

    def crawl(self, tenant: Tenant, claimed: Run) -> None:
        crawl(self._core, tenant, claimed, self._worker, self._stop)

    def tidy(self) -> None:
        now = self._core.clock.now()
        self._everywhere(
            lambda conn, tenants: crawls.forget(conn, [t.number for t in tenants], now)
        )

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _everywhere(self, work: Callable[[Any, list[Tenant]], object]) -> None:
        """In every cell that answers, for the tenants that are active there."""
        tenants = [t for t in self._core.database.tenants() if t.state == "active"]

        def inside(cell: str) -> None:
            own = [tenant for tenant in tenants if tenant.cell == cell]
            if own:
                with self._core.database.cell(cell, [tenant.number for tenant in own]) as conn:
                    work(conn, own)

        self._core.database.each_cell(inside)


def crawl(core: Core, tenant: Tenant, claimed: Run, worker: UUID, stop: Event) -> None:
    """Work on a claimed run until it is finished, back in the queue, or somebody else's."""
    log = logger(__name__).bind(tenant=tenant.name, run=str(claimed.id))
    attempt = Attempt(core, tenant, claimed, worker, stop)
    hidden: tuple[str, ...] = ()
    try:
        with core.database.cell(tenant.cell, [tenant.number]) as conn:
            connection = connections.get(Unit(conn, tenant), claimed.connection)
        hidden = plugins.hidden(connections.opened(core.seal.open, tenant.number, connection))
        state = attempt.complete(connection)
        log.info("crawl finished", state=state, **attempt.counts.shown())
    except Ended:
        log.info("crawl ended by somebody else")
    except Unavailable:
        raise  # our own store is away: silence lets another process take over
    except Exception as cause:  # noqa: BLE001  a source's bug must not stop the others
        attempt.failed(cause, reason_of(cause, hidden))
        log.warning("crawl failed", reason=reason_of(cause, hidden))


class Attempt:
    """One try at a run, from where the last one stopped."""

    def __init__(self, core: Core, tenant: Tenant, claimed: Run, worker: UUID, stop: Event) -> None:
        self._core = core
        self._tenant = tenant
        self._run = claimed
        self._worker = worker
        self._stop = stop
        self._lost = Event()
        self._schedule = schedule.DEFAULT
        self.counts = Counts.of(claimed.counts)

    def complete(self, connection: Connection) -> str:
        """Read to the end, then say what is gone; returns the state."""
        if not connection.enabled or "source" not in connection.uses:
            raise Reject("The connection is not an enabled source.")
        self._schedule = connection.schedule or schedule.DEFAULT
        source, rate = build(self._core, self._tenant, connection)
        if self._run.scope is not None and isinstance(source, Narrows):
            source = source.within(self._run.scope)
        sender = Sender(self._tenant, connection, self._run, self.counts, self._core.clock.now())
        progress = self._progress()
        beating = Thread(target=self._beat, name="crawl-beat", daemon=True)
        beating.start()
        try:
            self._read(source, sender, progress, rate)
            self._conclude(sender, progress)
        finally:
            self._lost.set()
            beating.join()
        return "partial" if self.counts.rejected else "succeeded"

    def failed(self, cause: Exception, reason: str) -> None:
        """Try again later, unless that is hopeless; then the next run begins from the start."""
        now = self._core.clock.now()
        with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            if self._stop.is_set():
                crawls.again(conn, self._run, self._worker, now, reason, counted=False)
                return
            hopeless = isinstance(cause, Reject | PluginError | Invalid | NotFound)
            if not hopeless and self._run.attempt < ATTEMPTS:
                at = now + _wait(self._run.attempt, cause)
                crawls.again(conn, self._run, self._worker, at, reason, counted=True)
                return
            unit = Unit(conn, self._tenant)
            shown = self.counts.shown()
            if crawls.finish(unit, self._run, self._worker, "failed", shown, reason, now):
                CRAWLS.labels("failed").inc()
                self._forget(Seen(conn, self._tenant.number, self._run.connection))

    def _progress(self) -> Progress:
        """Where to go on; a scoped run is its own and begins at the beginning."""
        fresh = Progress(self._run.number)
        if self._run.scope is not None:
            return fresh
        with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            seen = Seen(conn, self._tenant.number, self._run.connection)
            found = seen.progress()
            if found is None:
                seen.keep(fresh, self._schedule)
        return found or fresh

    def _read(self, source: Source, sender: Sender, progress: Progress, rate: float | None) -> None:
        start = None if progress.cursor is None else Cursor(progress.cursor)
        backlog = Backlog(self._core.database, self._tenant.cell, self._stop)
        for chunk in chunks(source.read(start), self._run.scope):
            backlog.wait()
            sent = self._store(sender, chunk, progress)
            if rate:
                self._pause(sent / rate)
            self._check()

    def _store(self, sender: Sender, chunk: Chunk, progress: Progress) -> int:
        """Differences, memory, cursor and sign of life in one transaction."""
        with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            seen = Seen(conn, self._tenant.number, self._run.connection)
            if self._run.scope is None and chunk.cursor is not None:
                seen.keep(Progress(progress.run, chunk.cursor.value), self._schedule)
            envelopes = sender.differences(seen, progress.run, chunk)
            self._alive(conn)
            sender.append(conn, envelopes)
        return len(envelopes)

    def _conclude(self, sender: Sender, progress: Progress) -> None:
        """The run was complete: what it did not see is gone."""
        more = True
        while more:
            with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
                seen = Seen(conn, self._tenant.number, self._run.connection)
                envelopes = sender.gone(seen, progress.run, self._run.scope)
                more = bool(envelopes)
                self._alive(conn)
                if more:
                    sender.append(conn, envelopes)
                else:
                    self._finish(conn, seen)

    def _finish(self, conn: Any, seen: Seen) -> None:
        state: crawls.State = "partial" if self.counts.rejected else "succeeded"
        now, shown = self._core.clock.now(), self.counts.shown()
        self._forget(seen)
        unit = Unit(conn, self._tenant)
        if not crawls.finish(
            unit, self._run, self._worker, state, shown, self.counts.refusals(), now
        ):
            raise Ended
        CRAWLS.labels(state).inc()

    def _forget(self, seen: Seen) -> None:
        if self._run.scope is None:
            seen.keep(None, self._schedule)

    def _alive(self, conn: Any) -> None:
        now, shown = self._core.clock.now(), self.counts.shown()
        if not crawls.beat(conn, self._run, self._worker, now, shown):
            raise Ended

    def _check(self) -> None:
        if self._lost.is_set():
            raise Ended
        if self._stop.is_set():
            raise Retry("Lily is stopping; the crawl goes on when it is back.")

    def _pause(self, seconds: float) -> None:
        """Sleep, but wake up to stop."""
        while seconds > 0 and not self._lost.is_set() and not self._stop.is_set():
            self._stop.wait(min(seconds, 0.5))
            seconds -= 0.5

    def _beat(self) -> None:
        """A source may think for minutes before it yields; the run lives on meanwhile."""
        while not self._lost.wait(BEAT):
            try:
                with self._core.database.cell(self._tenant.cell, [self._tenant.number]) as conn:
                    if not crawls.beat(conn, self._run, self._worker, self._core.clock.now()):
                        self._lost.set()
            except Unavailable:
                continue


def build(core: Core, tenant: Tenant, connection: Connection) -> tuple[Source, float | None]:
    """The source, and how many observations a second it may send."""
    secrets = connections.opened(core.seal.open, tenant.number, connection)
    options = plugins.join(connection.options, secrets)
    checked = plugins.check("source", connection.plugin, options)
    plugins.confine(checked, source_folders(core.settings, tenant))
    source: Source = plugins.build("source", connection.plugin, options)
    plugins.reach(source, core.settings.egress_allow)
    return source, getattr(checked, "rate_limit", None)


def _wait(attempt: int, cause: Exception) -> timedelta:
    wait = min(FIRST_WAIT * int(4 ** (attempt - 1)), LONGEST_WAIT)
    asked = cause.after if isinstance(cause, Retry) else None
    return max(wait, timedelta(seconds=asked)) if asked else wait
