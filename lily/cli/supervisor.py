"""Keeps child processes running: restarts the dead with back-off, stops all in order."""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Protocol

from lily.cli import processes

TICK = 0.1
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
LONG_LIFE = 60.0  # whoever lived so long has earned a fresh start

Launch = Callable[[int], subprocess.Popen[bytes]]


class Reporter(Protocol):
    """Where lines of children and news about them go."""

    def line(self, name: str, raw: bytes) -> None: ...

    def news(self, name: str, level: str, event: str, **more: object) -> None: ...


@dataclass(frozen=True)
class Program:
    """How to start one child (its output goes to the given descriptor) and how to stop it."""

    name: str
    launch: Launch
    stop_signal: signal.Signals = signal.SIGTERM
    kill_signal: signal.Signals = signal.SIGKILL
    patience: float = 15.0


def pause_after(previous: float, life: float) -> float:
    """How long to wait before the next start of a child that lived this long."""
    if life >= LONG_LIFE or previous == 0:
        return FIRST_PAUSE
    return min(previous * 2, LONGEST_PAUSE)


def why(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"ended with code {code}"


@dataclass
class Child:
    """One program as it runs, ran, or waits to run again."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = 0.0
    due: float | None = None
    starts: int = 0
    reader: Thread | None = None
    last: deque[str] = field(default_factory=lambda: deque(maxlen=8))

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Used from one thread that outlives it: children die with the thread that started them."""

    def __init__(self, reporter: Reporter, changed: Callable[[], None] = lambda: None) -> None:
        self._reporter = reporter
        self._changed = changed
        self._children: dict[str, Child] = {}

    def add(self, program: Program) -> Child:
        child = self._children[program.name] = Child(program)
        self._start(child)
        return child

    def pids(self) -> dict[str, int]:
        return {
            name: child.process.pid
            for name, child in self._children.items()
            if child.process is not None and child.running
        }

    def watch(self, stop: Event, until: Callable[[], bool] = lambda: False) -> bool:
        """Supervise until `until` holds (True) or a stop is asked for (False)."""
        while not stop.is_set():
            self.tick()
            if until():
                return True
            stop.wait(TICK)
        return False

    def tick(self) -> None:
        """Notice who died, and start those whose pause is over."""
        now = time.monotonic()
        for child in self._children.values():
            if child.process is not None and not child.running:
                self._bury(child, now)
            if child.process is None and child.due is not None and now >= child.due:
                self._start(child)

    def shut_down(self, order: Sequence[Sequence[str]], hurry: Event) -> None:
        """Stop group after group; a group is asked together, and each one waited for."""
        for group in order:
            children = [self._children[name] for name in group if name in self._children]
            for child in children:
                child.due = None
                if child.process is not None and child.running:
                    child.process.send_signal(child.program.stop_signal)
            for child in children:
                self._await_end(child, hurry)

    def _start(self, child: Child) -> None:
        child.due, child.starts = None, child.starts + 1
        child.started = time.monotonic()
        child.last.clear()
        read, write = os.pipe()
        try:
            child.process = child.program.launch(write)
        except OSError as cause:
            os.close(read)
            self._postpone(child, f"cannot be started: {cause}", 0.0)
            return
        finally:
            os.close(write)
        child.reader = Thread(target=self._read, args=(child, read), daemon=True)
        child.reader.start()
        self._changed()

    def _read(self, child: Child, descriptor: int) -> None:
        with open(descriptor, "rb") as lines:
            for raw in lines:
                child.last.append(raw.decode(errors="replace").rstrip())
                self._reporter.line(child.program.name, raw)

    def _bury(self, child: Child, now: float) -> None:
        assert child.process is not None
        reason = why(child.process.returncode)
        left = processes.sweep(child.process.pid)
        if child.reader is not None:
            child.reader.join(1.0)
        if left:
            reason += f" and left {left} processes, ended too"
        child.process = None
        self._postpone(child, reason, now - child.started)
        self._changed()

    def _postpone(self, child: Child, reason: str, life: float) -> None:
        child.pause = pause_after(child.pause, life)
        child.due = time.monotonic() + child.pause
        self._reporter.news(
            child.program.name,
            "warning",
            f"{child.program.name} {reason}; starting it again in {child.pause:g} s",
            lived=round(life, 1),
            last=list(child.last),
        )

    def _await_end(self, child: Child, hurry: Event) -> None:
        process, program = child.process, child.program
        if process is None:
            return
        until = time.monotonic() + program.patience
        while process.poll() is None and time.monotonic() < until and not hurry.is_set():
            hurry.wait(0.05)
        if process.poll() is None:
            if not hurry.is_set():
                self._reporter.news(
                    program.name,
                    "warning",
                    f"{program.name} did not stop within {program.patience:g} s; ending it",
                )
            process.send_signal(program.kill_signal)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        processes.sweep(process.pid)
        if child.reader is not None:
            child.reader.join(2.0)
        child.process = None
        self._changed()
