"""Loops of workers, in threads, for as long as a test needs them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from lily.wiring import Core

Loop = Callable[[Core, Event], None]


@contextmanager
def looping(system: Core, *loops: Loop) -> Iterator[None]:
    stop = Event()
    threads = [Thread(target=loop, args=(system, stop)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
