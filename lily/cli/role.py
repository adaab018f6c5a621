"""What every role process does around its work: logs, signals, and following its parent."""

import gc
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING

from lily.cli.failures import Failure

if TYPE_CHECKING:
    from lily.settings import Settings
    from lily.store.database import Role
    from lily.wiring import Core

ALONE = 20.0
GARBAGE = 50_000  # objects
SAME_SIGNAL = 0.5  # a terminal and a wrapper such as make may both pass on one Ctrl-C


def begin(settings: "Settings", parent: int | None) -> Event:
    """Set up this process as a role; the event is set when it should stop."""
    from lily import telemetry
    from lily.cli import processes

    telemetry.configure(settings.log_level, settings.log_format)
    # Requests and batches make many objects and hardly a cycle. Looking for cycles as often as
    # Python does by itself took a third of the time in which documents are checked.
    gc.set_threshold(GARBAGE, 20, 20)
    stop = stop_on_signal()
    if parent is not None:
        processes.follow_parent(parent)
        Thread(target=_end_alone, args=(stop, parent), name="end-alone", daemon=True).start()
    return stop


def tell_metrics(settings: "Settings", parent: int | None) -> None:
    """Beside the work, for who scrapes; under `lily up` the API tells those of all processes."""
    from lily import telemetry

    if parent is None and settings.metrics_port:
        telemetry.tell(settings.metrics_port, settings.host)


def _end_alone(stop: Event, parent: int) -> None:
    """With the supervisor gone nobody insists that we stop, so we do it ourselves."""
    from lily.cli import processes

    stop.wait()
    time.sleep(ALONE)
    if os.getppid() != parent:
        processes.sweep(os.getsid(0))


def stop_on_signal(again: Callable[[], None] = lambda: None) -> Event:
    """Set by the first SIGTERM, SIGINT or SIGHUP; every further one calls `again`."""
    stop = Event()
    first = 0.0

    def heard(_: int, __: FrameType | None) -> None:
        nonlocal first
        if not stop.is_set():
            first = time.monotonic()
            stop.set()
        elif time.monotonic() - first > SAME_SIGNAL:
            again()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup wants it ignored
            signal.signal(number, heard)
    return stop


def connect(settings: "Settings", role: "Role", stop: Event, patience: float = 60) -> "Core":
    """The core, once the database answers and is migrated."""
    from lily import wiring
    from lily.errors import LilyError
    from lily.store.migrate import pending

    until = time.monotonic() + patience
    while True:
        try:
            missing = pending(wiring.home_url(settings))
        except OSError as cause:
            raise Failure(f"The database cannot be used: {cause}.") from cause
        except LilyError as cause:
            if time.monotonic() > until or stop.is_set():
                raise Failure(f"{cause} {database_cure(settings)}") from cause
            stop.wait(0.5)
            continue
        if missing:
            raise Failure(f"The database lacks {', '.join(missing)}; run `lily migrate`.")
        return wiring.core(settings, role)


def database_cure(settings: "Settings") -> str:
    if settings.database == "embedded":
        return f"Start it with `lily up --home {_short(settings.home)}`, or set LILY_DATABASE."
    return "Check LILY_DATABASE, and that PostgreSQL runs there."


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
