"""Back-pressure: who has time waits while the log is behind."""

from threading import Event
from time import monotonic

from lily.errors import LilyError
from lily.store.database import Database
from lily.store.lag import lag, looking
from lily.store.presence import alive

BOUND = 0.5  # seconds that an observation of the core lane may wait
LONGEST = 5.0  # then a chunk goes on: slow, but not never
LOOK = 0.25
PAUSE = 0.1
MOST_WAITING = 150_000  # observations of a lane that crawls may leave to be applied
FULL = """
SELECT coalesce(bool_or(EXISTS (
         SELECT FROM log l WHERE l.lane = a.lane AND l."offset" > a.position
          ORDER BY l."offset" OFFSET %s LIMIT 1)), false)
  FROM applied a WHERE a.part = 0
"""


class Throttle:
    """Asked before each chunk; looks at the core lane a few times a second at most."""

    def __init__(
        self,
        database: Database,
        cell: str,
        stop: Event,
        bound: float = BOUND,
        look: float = LOOK,
    ) -> None:
        self._database = database
        self._cell = cell
        self._stop = stop
        self._bound = bound
        self._look = look
        self._looked = -look
        self._behind = 0.0

    def wait(self) -> float:
        """Seconds that were waited."""
        began = monotonic()
        while self._lag() > self._bound and monotonic() - began < LONGEST:
            if self._stop.wait(PAUSE):
                break
        return monotonic() - began

    def _lag(self) -> float:
        if monotonic() - self._looked >= self._look:
            try:
                self._behind = self._measured()
            except LilyError:
                self._behind = 0.0
            self._looked = monotonic()
        return self._behind

    def _measured(self) -> float:
        found = lag(self._database, self._cell)
        here = max((each.seconds for each in found if each.lane == "core"), default=0.0)
        return max(here, self._in_kafka())

    def _in_kafka(self) -> float:
        """What waits there only the pipeline knows, and it says so every few seconds."""
        waits = 0.0
        for each in alive(self._database, "pipeline"):
            told = each.detail.get("lag")
            if "kafka" in each.detail and isinstance(told, dict):
                waits = max(waits, float(told.get("core", 0.0)))
        return waits


class Backlog(Throttle):
    """For those who fill the log: held up while too much in it waits, in whichever lane."""

    def __init__(
        self, database: Database, cell: str, stop: Event, most: int = MOST_WAITING
    ) -> None:
        super().__init__(database, cell, stop, look=1.0)
        self._most = most

    def _measured(self) -> float:
        with looking(self._database, self._cell) as conn:
            row = conn.execute(FULL, [self._most]).fetchone()
        return LONGEST if row and row[0] else 0.0
