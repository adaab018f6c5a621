"""Forgets what has done its work: applied observations, old answers, failed logins."""

from threading import Event

from lily.log import postgres as log
from lily.store.sweep import sweep
from lily.types import LANES
from lily.wiring import Core

PAUSE = 60.0
CHUNK = 20_000


def run(core: Core, stop: Event) -> None:
    while not stop.is_set():
        work(core, stop)
        stop.wait(PAUSE)


def work(core: Core, stop: Event) -> None:
    """Trim every lane of every cell in chunks, then the rest."""
    for cell in core.database.cells():
        for lane in LANES:
            trimmed = CHUNK
            while trimmed == CHUNK and not stop.is_set():
                with core.database.cell(cell) as conn:
                    trimmed = log.trim(conn, lane, core.settings.log_keep_hours, CHUNK)
    sweep(core.database)
