"""A new leader shuts out the one before it, who may be dead, cut off, or only paused."""

from contextlib import suppress
from functools import partial
from threading import Event

import psycopg

from lily.errors import Unavailable
from lily.store.database import Database, direct
from lily.telemetry import logger

# Names of the connections on which leaders write.
INGEST = "lily ingest"
PROPAGATE = "lily propagate"

PAUSE = 0.2
# A transaction under way holds locks on what it wrote, and would be waited for.
CUT_OFF = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = %s AND pid <> pg_backend_pid()
   AND state <> 'idle'
"""
CLAIM = "UPDATE applied SET epoch = %(epoch)s WHERE epoch < %(epoch)s"


def claim(database: Database, epoch: int, stop: Event) -> None:
    """From here on no earlier leader commits a batch. A cell that is away is guarded by its
    position until the first batch reaches it."""
    while not stop.is_set():
        try:
            database.each_cell(partial(_claim, database, epoch))
            return
        except (Unavailable, psycopg.errors.LockNotAvailable) as cause:
            logger(__name__).warning("taking over is tried again", reason=str(cause).strip())
            stop.wait(PAUSE)


def _claim(database: Database, epoch: int, cell: str) -> None:
    cut_off(database, INGEST, cell)
    try:
        with direct(database, cell) as conn:
            conn.execute("SET lock_timeout = '1s'")
            conn.execute(CLAIM, {"epoch": epoch})
    except psycopg.errors.LockNotAvailable:
        raise
    except psycopg.OperationalError as cause:
        raise Unavailable(f"cell {cell} cannot be claimed: {cause}") from cause


def cut_off(database: Database, name: str, cell: str) -> None:
    """End what others of that name have under way; as who owns the database, like whom they came.

    Where that is not allowed, it ends by itself: by time, or when the machine is found gone.
    """
    with (
        suppress(psycopg.Error),
        psycopg.connect(database.url_of(cell), autocommit=True, connect_timeout=5) as conn,
    ):
        if ended := conn.execute(CUT_OFF, [name]).rowcount:
            logger(__name__).warning("what another left under way was ended", count=ended)
