"""What was revoked, known in every process within a second."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event, Lock, Thread
from uuid import UUID

import psycopg

from lily.clock import micros
from lily.errors import LilyError, Unavailable
from lily.store.database import Database
from lily.telemetry import logger
from lily.types import Tenant

POLL = 0.5
PATIENCE = 5.0  # after so long without news nobody is called valid
OVERLAP = timedelta(minutes=2)  # longer than any transaction that revokes may take to commit

REVOKE = """
INSERT INTO revocation (id, before, until)
SELECT %(id)s, at, at + %(life)s FROM clock_timestamp() AS at
"""
LIVE = "SELECT id, before, until FROM revocation WHERE until > now()"
MOVED = "SELECT id, cell FROM tenant WHERE moved_at IS NOT NULL"
NEWS = "SELECT id, before, until FROM revocation WHERE before > %s"


def revoke(conn: psycopg.Connection, id: UUID, life: timedelta) -> None:
    """Refuse what was issued under this id until now. Call it after the rows are locked."""
    conn.execute(REVOKE, {"id": id, "life": life})


class Revocations:
    """A copy of the list in memory, and how old it is."""

    def __init__(self, database: Database, patience: float = PATIENCE) -> None:
        self._database = database
        self._patience = patience
        self._before: dict[UUID, tuple[int, int]] = {}
        self._cells: dict[UUID, str] = {}
        self._confirmed = float("-inf")
        self._read_up_to: datetime | None = None
        self._lock = Lock()

    def confirm(self) -> None:
        if time.monotonic() - self._confirmed > self._patience:
            raise Unavailable("Revoked tokens cannot be checked at the moment.")

    def hit(self, ids: Iterable[UUID], issued: int) -> bool:
        found = (self._before.get(id) for id in ids)
        return any(each is not None and issued <= each[0] for each in found)

    def moved(self, tenant: Tenant) -> bool:
        """Whether the tenant is in another cell by now."""
        return self._cells.get(tenant.id, tenant.cell) != tenant.cell

    def poll(self) -> None:
        """Read what is new. The age counts from before the question, not from the answer."""
        asked = time.monotonic()
        with self._lock, self._database.home() as conn:
            row = conn.execute("SELECT now()").fetchone()
            assert row is not None
            self._take(self._read(conn), row[0])
            self._cells = dict(conn.execute(MOVED).fetchall())
            self._read_up_to = row[0]
            self._confirmed = asked

    def _read(self, conn: psycopg.Connection) -> list[tuple[UUID, datetime, datetime]]:
        if self._read_up_to is None:
            return conn.execute(LIVE).fetchall()
        return conn.execute(NEWS, [self._read_up_to - OVERLAP]).fetchall()

    def _take(self, rows: list[tuple[UUID, datetime, datetime]], now: datetime) -> None:
        for id, before, until in rows:
            first, last = self._before.get(id, (0, 0))
            self._before[id] = (max(first, micros(before)), max(last, micros(until)))
        over = [id for id, (_, until) in self._before.items() if until < micros(now)]
        for id in over:
            del self._before[id]


class Follower:
    """A thread that keeps copies of small tables fresh."""

    def __init__(self, steps: Sequence[Callable[[], None]], every: float = POLL) -> None:
        self._steps = steps
        self._every = every
        self._ended = Event()
        self._thread = Thread(target=self._run, name="follow-revocations", daemon=True)

    def start(self) -> None:
        """Returns after the first look, so that a healthy process answers from the start."""
        with suppress(LilyError, psycopg.Error):
            self._look()
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _look(self) -> None:
        for step in self._steps:
            step()

    def _run(self) -> None:
        reachable = True
        while not self._ended.wait(self._every):
            try:
                self._look()
                reachable = True
            except (LilyError, psycopg.Error) as cause:
                if reachable:
                    logger(__name__).warning("revocations not followed", reason=str(cause))
                reachable = False
