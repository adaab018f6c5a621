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
    keep, no_lake = core.settings.log_keep_hours, core.settings.lake == "off"

    def trim(cell: str) -> None:
        for lane in LANES:
            trimmed = CHUNK
            while trimmed == CHUNK and not stop.is_set():
                with core.database.cell(cell) as conn:
                    trimmed = log.trim(conn, lane, keep, CHUNK, unarchived=no_lake)

    core.database.each_cell(trim)
    sweep(core.database)
