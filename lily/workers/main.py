"""Runs every background loop in its own thread, and keeps it running."""

from collections.abc import Callable, Sequence
from threading import Event, Thread

from lily.store.presence import Presence, presence
from lily.telemetry import LOOP_FAILURES, logger
from lily.wiring import Core
from lily.workers import (
    adopt,
    capture,
    cascade,
    crawl,
    deliver,
    enforce,
    lag,
    match,
    move,
    refold,
    relay,
    retention,
    trim,
    validity,
)

Loop = Callable[[Core, Event], None]

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0

# A loop works until `stop` is set. What it raises is logged, and it begins again.
LOOPS: list[Loop] = [
    cascade.run,
    retention.run,
    validity.run,
    refold.run,
    trim.run,
    move.run,
    crawl.run,
    capture.run,
    lag.run,
    adopt.run,
    match.run,
    deliver.run,
    enforce.run,
    relay.run,
]


def run(core: Core, stop: Event, loops: Sequence[Loop] | None = None) -> None:
    """Until `stop` is set, and every loop has finished what it was doing."""
    chosen = LOOPS if loops is None else loops
    with presence(core, "work") as me:
        threads = [
            Thread(target=_keep, args=(loop, core, stop, me), name=name_of(loop)) for loop in chosen
        ]
        for thread in threads:
            thread.start()
        me.say(warm=True, loops=[name_of(loop) for loop in chosen])
        stop.wait()
        for thread in threads:
            thread.join()


def name_of(loop: Loop) -> str:
    """`lily.workers.retention.run` is called retention; a nameless callable by its type."""
    module = getattr(loop, "__module__", "").rpartition(".")[2]
    name: str = getattr(loop, "__name__", type(loop).__name__)
    return module if name == "run" and module else name


def _keep(loop: Loop, core: Core, stop: Event, me: Presence) -> None:
    name, pause = name_of(loop), FIRST_PAUSE
    while not stop.is_set():
        try:
            loop(core, stop)
            return
        except Exception as cause:  # noqa: BLE001  one broken loop must not end the others
            LOOP_FAILURES.labels(name).inc()
            logger(__name__).error(
                "worker loop failed", loop=name, reason=str(cause), again_in=pause, exc_info=True
            )
            me.say(**{f"failure_{name}": str(cause)})
        stop.wait(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
