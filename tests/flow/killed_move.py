"""A worker that is killed in the middle of a move: `python -m tests.flow.killed_move …`."""

import sys
from threading import Event
from typing import Any

from lily.store import moves, moving
from lily.wiring import reopen
from lily.workers import move, move_lake
from tests.flow.killed import die

ROOMS: dict[str, Any] = {
    "drain": moving, "copy": moving, "carry": move_lake, "switch": moves, "welcome": moves,
    "clear": moving, "end": moves,
}  # fmt: skip


def main(settings: str, moment: str) -> None:
    core = reopen(settings, "lily_system")
    setattr(ROOMS[moment], moment, lambda *_, **__: die())
    move.work(core, Event(), move.Pace(drain=5, ends=20, caches=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
