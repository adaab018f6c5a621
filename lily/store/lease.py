"""One active process per duty: a row that its holder renews, and that others may take when it ends.

The database's clock alone decides, so machines need not agree on the time; and a holder that hangs,
or whose machine is gone, is replaced like one that died.
"""

import os
import socket
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import Event, Thread
from uuid import UUID, uuid4

import msgspec
import psycopg

from lily.store.database import HOME, Database
from lily.store.presence import is_gone
from lily.telemetry import LEADS, logger

TERM = 8.0  # seconds for which it is held without being renewed
BEAT = 1.0
PAUSE = 0.5
AWAY = (psycopg.OperationalError, psycopg.InternalError)  # gone, or only to be read for now

# The time is in the number, so that it grows even where an older copy of the table was restored.
TAKE = """
INSERT INTO lease AS l (duty, holder, epoch, host, pid, place, since, until)
VALUES (%(duty)s, %(holder)s, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, %(host)s,
        %(pid)s, %(place)s, clock_timestamp(),
        clock_timestamp() + make_interval(secs => %(term)s))
ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, host = excluded.host,
       epoch = greatest(l.epoch + 1, excluded.epoch), pid = excluded.pid, place = excluded.place,
       since = excluded.since, until = excluded.until
 WHERE l.until < clock_timestamp() OR l.holder = ANY(%(gone)s::uuid[])
RETURNING epoch
"""
BESIDE = "SELECT holder, pid FROM lease WHERE duty = %(duty)s AND place = %(place)s AND place <> ''"
RENEW = """
UPDATE lease SET until = clock_timestamp() + make_interval(secs => %(term)s)
 WHERE duty = %(duty)s AND holder = %(holder)s RETURNING epoch
"""
END = "UPDATE lease SET until = '-infinity' WHERE duty = %(duty)s AND holder = %(holder)s"
FORGET = "DELETE FROM lease WHERE until < clock_timestamp() - interval '1 day'"
HOLDERS = """
SELECT duty, holder, epoch, host, pid, since FROM lease
 WHERE until > clock_timestamp() ORDER BY duty
"""


class Held(msgspec.Struct, frozen=True):
    """A duty, and who has it now."""

    duty: str
    holder: UUID
    epoch: int
    host: str
    pid: int
    since: datetime


class Lease:
    """Wait for the duty, keep it, and say when it is lost.

    It keeps a standby quiet and numbers who leads; what fences a writer is that number, and the
    position that it must find in the store.
    """

    def __init__(
        self, database: Database, duty: str, lost: Callable[[], None], term: float = TERM
    ) -> None:
        self._database = database
        self._duty = duty
        self._lost = lost
        self._term = term
        self._id = uuid4()
        self._conn: psycopg.Connection | None = None
        self._done = Event()
        self._thread: Thread | None = None
        self.epoch = 0

    def free(self) -> bool:
        """Take it if nobody has it; then it is kept."""
        try:
            if not self._take():
                return False
        except AWAY:
            self._drop()
            return False
        LEADS.labels(_kind(self._duty)).inc()
        self._thread = Thread(target=self._keep, name=f"lease-{self._duty}", daemon=True)
        self._thread.start()
        return True

    def acquire(self, stop: Event, look: Callable[[], None] = lambda: None) -> bool:
        """Until it is ours; false if asked to stop first. `look` is called while we wait."""
        told = False
        while not stop.is_set():
            if self.free():
                return True
            if not told:
                logger(__name__).info("another process is active; standing by", duty=self._duty)
                told = True
            look()
            stop.wait(PAUSE)
        return False

    def release(self) -> None:
        """Who waits may have it at once."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(self._term)
            if self._thread.is_alive():  # its connection hangs: let it end by itself
                return
        if self._end_of_duty():
            self._ask(END)
        self._drop()

    def _take(self) -> bool:
        row = self._execute(TAKE, gone=self._gone()).fetchone()
        if row is None:
            return False
        self._execute(FORGET)
        self.epoch = row[0]
        return True

    def _gone(self) -> list[UUID]:
        """A holder on this machine that was killed need not be waited for."""
        return [holder for holder, pid in self._execute(BESIDE).fetchall() if is_gone(pid)]

    def _keep(self) -> None:
        while not self._done.wait(BEAT):
            if self._ask(RENEW) == []:
                if self._end_of_duty():
                    logger(__name__).warning("another process has taken over", duty=self._duty)
                    self._lost()
                return

    def _end_of_duty(self) -> bool:
        """Whether it was ours until now."""
        held, self.epoch = self.epoch > 0, 0
        if held:
            LEADS.labels(_kind(self._duty)).dec()
        return held

    def _ask(self, statement: str) -> list[int] | None:
        """What it answers; None while the database does not: then nobody else can ask it either."""
        try:
            done = self._execute(statement)
            return [epoch for (epoch,) in done.fetchall()] if done.description else []
        except AWAY:
            self._drop()
            return None

    def _execute(self, statement: str, **more: object) -> psycopg.Cursor:
        if self._conn is None or self._conn.closed:
            url = self._database.role_url(HOME)
            self._conn = psycopg.connect(url, autocommit=True, connect_timeout=5)
        values = {
            "duty": self._duty, "holder": self._id, "host": socket.gethostname(),
            "pid": os.getpid(), "place": _place(), "term": self._term, **more,
        }  # fmt: skip
        return self._conn.execute(statement.encode(), values)

    def _drop(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def holders(database: Database) -> list[Held]:
    """Who has which duty now."""
    with database.home() as conn:
        return [Held(*row) for row in conn.execute(HOLDERS).fetchall()]


def _kind(duty: str) -> str:
    """`enforce:9f3…` is one of many that are counted together."""
    return duty.partition(":")[0]


@cache
def _place() -> str:
    """A machine since its start, as far as it shares process numbers; empty where none can tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""
