"""Known callers who asked for more than they may."""

import time
from collections import OrderedDict
from threading import Lock

from lily.clock import Clock
from lily.identity.actor import Actor
from lily.store.database import Database
from lily.store.desk import record
from lily.types import Caller

QUIET = 60.0  # a caller who hammers at a closed door makes one fact a minute
REMEMBERED = 5_000


class Refusals:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._told: OrderedDict[tuple[int, str, str], float] = OrderedDict()
        self._lock = Lock()

    def tell(self, caller: Caller, reason: str, request: str, actor: Actor) -> None:
        if self._first((caller.tenant.number, caller.subject, reason)):
            record(
                self._database,
                self._clock,
                caller.tenant,
                actor,
                "AccessRefused",
                subject=caller.subject,
                reason=reason,
                request=request,
            )

    def _first(self, key: tuple[int, str, str]) -> bool:
        now = time.monotonic()
        with self._lock:
            if now - self._told.get(key, float("-inf")) < QUIET:
                return False
            self._told[key] = now
            self._told.move_to_end(key)
            if len(self._told) > REMEMBERED:
                self._told.popitem(last=False)
        return True
