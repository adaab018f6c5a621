"""Back-pressure: who has time waits while the core lane is behind."""

from threading import Event
from time import monotonic

from lily.errors import LilyError
from lily.store.database import Database
from lily.store.lag import lag

BOUND = 0.5  # seconds that an observation of the core lane may wait
LONGEST = 5.0  # then a chunk goes on: slow, but not never
LOOK = 0.25
PAUSE = 0.1


class Throttle:
    """Asked before each chunk; looks at the core lane a few times a second at most."""

    def __init__(self, database: Database, cell: str, stop: Event, bound: float = BOUND) -> None:
        self._database = database
        self._cell = cell
        self._stop = stop
        self._bound = bound
        self._looked = -LOOK
        self._behind = 0.0

    def wait(self) -> float:
        """Seconds that were waited."""
        began = monotonic()
        while self._lag() > self._bound and monotonic() - began < LONGEST:
            if self._stop.wait(PAUSE):
                break
        return monotonic() - began

    def _lag(self) -> float:
        if monotonic() - self._looked >= LOOK:
            try:
                found = lag(self._database, self._cell)
                self._behind = max((e.seconds for e in found if e.lane == "core"), default=0.0)
            except LilyError:
                self._behind = 0.0
            self._looked = monotonic()
        return self._behind
