"""Which processes are alive: each role writes a row and keeps touching it."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Protocol
from uuid import UUID, uuid4

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.errors import LilyError
from lily.store.database import Database
from lily.telemetry import logger
from lily.types import Json

BEAT = 2.0
FRESH = "10 seconds"  # a row not touched for so long belongs to a process that is gone or stuck

WRITE = """
INSERT INTO process (id, role, host, pid, started_at, beat_at, detail)
VALUES (%(id)s, %(role)s, %(host)s, %(pid)s, now(), now(), %(detail)s)
ON CONFLICT (id) DO UPDATE SET beat_at = now(), detail = excluded.detail
"""
FORGET_STALE = "DELETE FROM process WHERE beat_at < now() - interval '1 hour'"
ALIVE = f"""
SELECT id, role, host, pid, started_at, beat_at, detail FROM process
 WHERE beat_at > now() - interval '{FRESH}' ORDER BY role, started_at
"""


class Process(msgspec.Struct, frozen=True):
    id: UUID
    role: str
    host: str
    pid: int
    started_at: datetime
    beat_at: datetime
    detail: Json


class Holder(Protocol):
    @property
    def database(self) -> Database: ...


class Presence:
    """A process telling that it lives. `say` adds to what it tells."""

    def __init__(self, database: Database, role: str) -> None:
        self.id = uuid4()
        self._database = database
        self._role = role
        self._detail: Json = {}
        self._lock = Lock()
        self._changed = Event()
        self._ended = False
        self._thread = Thread(target=self._run, name="presence", daemon=True)

    def say(self, **detail: object) -> None:
        """Told at once, and with each beat from now on."""
        with self._lock:
            self._detail = {**self._detail, **detail}
        self._changed.set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended = True
        self._changed.set()
        self._thread.join(10)
        with suppress(LilyError, psycopg.Error), self._database.home() as conn:
            conn.execute("DELETE FROM process WHERE id = %s", [self.id])

    def _run(self) -> None:
        reachable = True
        while not self._ended:
            self._changed.clear()
            try:
                self._beat()
                reachable = True
            except (LilyError, psycopg.Error) as cause:
                if reachable:
                    logger(__name__).warning("no heartbeat", role=self._role, reason=str(cause))
                reachable = False
            self._changed.wait(BEAT)

    def _beat(self) -> None:
        with self._lock:
            detail = self._detail
        values = {
            "id": self.id,
            "role": self._role,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "detail": Jsonb(detail),
        }
        with self._database.home() as conn:
            conn.execute(WRITE, values)
            conn.execute(FORGET_STALE)


@contextmanager
def presence(core: Holder, role: str) -> Iterator[Presence]:
    """Be seen as this role while the block runs, through restarts of the database too."""
    me = Presence(core.database, role)
    me.start()
    try:
        yield me
    finally:
        me.stop()


def alive(database: Database, role: str | None = None) -> list[Process]:
    """The processes that beat a moment ago."""
    with database.home() as conn:
        found = [Process(*row) for row in conn.execute(ALIVE)]
    return [each for each in found if role in (None, each.role) and not _known_dead(each)]


def is_loading(database: Database) -> bool:
    """Whether an estate is being loaded: then others step back."""
    return any(each.detail.get("state") == "active" for each in alive(database, "bulk"))


def is_gone(pid: int) -> bool:
    """Whether no process of this machine has that number, or only a dead one."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return True
    except OSError:  # not ours to ask, or a system without such files
        return False
    return state in "ZX"


def _known_dead(process: Process) -> bool:
    """A process of this machine that was killed is gone at once, not when its beat grows old."""
    return process.host == socket.gethostname() and is_gone(process.pid)
