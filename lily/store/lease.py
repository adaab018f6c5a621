"""One active process per duty: a session lock that ends with its connection."""

from collections.abc import Callable
from threading import Event, Thread

import psycopg

from lily.store.database import HOME, Database
from lily.telemetry import logger

TRY = "SELECT pg_try_advisory_lock(hashtext(%s))"
PAUSE = 0.5


class Lease:
    """Wait for the duty, keep it, and say when it is lost.

    The lock is a courtesy that keeps a standby quiet; what fences a writer is the position that
    it must find in the store.
    """

    def __init__(self, database: Database, duty: str, lost: Callable[[], None]) -> None:
        self._database = database
        self._duty = duty
        self._lost = lost
        self._conn: psycopg.Connection | None = None
        self._done = Event()
        self._thread = Thread(target=self._watch, name=f"lease-{duty}", daemon=True)

    def acquire(self, stop: Event) -> bool:
        """Until it is ours; false if asked to stop first."""
        told = False
        while not stop.is_set():
            if self._try():
                self._thread.start()
                return True
            if not told:
                logger(__name__).info("another process is active; standing by", duty=self._duty)
                told = True
            stop.wait(PAUSE)
        return False

    def release(self) -> None:
        self._done.set()
        if self._conn is not None:
            self._conn.close()

    def _try(self) -> bool:
        try:
            if self._conn is None or self._conn.closed:
                self._conn = psycopg.connect(
                    self._database.role_url(HOME), autocommit=True, connect_timeout=5
                )
            row = self._conn.execute(TRY, [self._duty]).fetchone()
            return bool(row and row[0])
        except psycopg.OperationalError:
            self._drop()
            return False

    def _watch(self) -> None:
        while not self._done.wait(1.0):
            try:
                assert self._conn is not None
                self._conn.execute("SELECT 1")
            except (psycopg.Error, AssertionError):
                if not self._done.is_set() and not self._regain():
                    self._lost()
                    return

    def _regain(self) -> bool:
        """The database was away: take the lock again, unless somebody else was faster."""
        self._drop()
        while not self._done.is_set():
            try:
                self._conn = psycopg.connect(
                    self._database.role_url(HOME), autocommit=True, connect_timeout=5
                )
                row = self._conn.execute(TRY, [self._duty]).fetchone()
                return bool(row and row[0])
            except psycopg.Error:
                self._done.wait(PAUSE)
        return True

    def _drop(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
