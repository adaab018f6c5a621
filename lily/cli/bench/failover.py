"""`lily bench failover`: the pipeline that leads dies under load, and another one takes over.

With a second one that is warm, with none but the supervisor, and paused instead of killed: then
it comes back, finds that it leads no more, and must not have written anything.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import typer

from lily.cli import processes
from lily.cli.bench import victims
from lily.cli.bench.faults import Run, judge
from lily.cli.bench.load import Api, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.cli.failures import Failure
from lily.store import lease, raw
from lily.store.presence import Process, alive
from lily.wiring import home_url

WARM = "leader killed, another is warm"
PAUSED = "leader paused, another is warm"
COLD = "leader killed, none is warm"
TARGETS = {WARM: 15.0, PAUSED: 15.0, COLD: 30.0}  # seconds
PATIENCE = 120.0


def measure(where: Place, rounds: int, cold: int, paused: int, writers: int) -> Report:
    report = Report("failover")
    run = Failover(where, writers)
    play(run.rounds({WARM: rounds, PAUSED: paused, COLD: cold}))
    for what, target in TARGETS.items():
        if found := run.recoveries.get(what):
            times = f"{what} ({len(found)} times)"
            report.add(f"{times}, until a write is readable: p50", percentile(found, 0.5), "s")
            report.add(f"{times}, until a write is readable: slowest", max(found), "s", target)
    judge(report, where, run)
    limit = "PostgreSQL lets go of what a killed session held"
    noticed = max(raw.dead_session(home_url(where.settings)) for _ in range(5))
    report.limit(limit, noticed, "s", percentile(run.recoveries.get(WARM, ()), 0.5))
    report.notes.append(f"a leader that falls silent is replaced after {lease.TERM:g} s")
    return report


class Failover(Run):
    """Two pipelines, of which one leads: this bench's own, and that of the Lily it measures."""

    def __init__(self, where: Place, writers: int) -> None:
        super().__init__(where, writers)
        self._where = where
        self._twin = ExitStack()
        self._twin_pid: int | None = None
        self._paused: int | None = None

    async def rounds(self, wanted: dict[str, int]) -> None:
        async with Api(self._where, 64, patience=30) as api:
            await self.during(self._play(api, wanted))

    async def _play(self, api: Api, wanted: dict[str, int]) -> None:
        strikes: dict[str, Callable[[], None]] = {WARM: self._kill, PAUSED: self._pause}
        try:
            for what, strike in strikes.items():
                for number in range(wanted[what]):
                    await asyncio.to_thread(self._pair)
                    typer.echo(f"{what}: round {number + 1} of {wanted[what]}", err=True)
                    await self._fault(api, what, strike)
                    await asyncio.to_thread(self._resume)
        finally:
            await asyncio.to_thread(self._alone)
        for number in range(wanted[COLD]):
            await asyncio.to_thread(self._until, lambda found: bool(_in(found, "active")))
            typer.echo(f"{COLD}: round {number + 1} of {wanted[COLD]}", err=True)
            await self._fault(api, COLD, partial(victims.kill, self._where, "pipeline"))

    def _pair(self) -> None:
        """One that leads, and one that is warm."""
        if self._twin_pid is None or not processes.alive(self._twin_pid):
            self._twin.close()
            twin = self._twin.enter_context(victims.second_pipeline(self._where))
            self._twin_pid = twin.pid
        self._until(lambda found: bool(_in(found, "active") and _in(found, "standby")))

    def _alone(self) -> None:
        self._twin.close()
        self._twin_pid = None
        self._until(lambda found: len(found) == 1)

    def _kill(self) -> None:
        victims.kill(self._where, "pipeline")

    def _pause(self) -> None:
        self._paused = victims.find(self._where, "pipeline")
        os.kill(self._paused, signal.SIGSTOP)

    def _resume(self) -> None:
        """It goes on where it was, and ends when it finds that another has taken over."""
        if (pid := self._paused) is None:
            return
        self._paused = None
        os.kill(pid, signal.SIGCONT)
        until = time.monotonic() + PATIENCE
        while processes.alive(pid):
            if time.monotonic() > until:
                raise Failure("A pipeline that was replaced did not end.")
            time.sleep(0.1)

    def _until(self, holds: Callable[[list[Process]], bool]) -> None:
        until = time.monotonic() + PATIENCE
        with self._where.core("lily_app", 1) as core:
            while not holds(alive(core.database, "pipeline")):
                if time.monotonic() > until:
                    raise Failure("The pipelines did not come to be as they should.")
                time.sleep(0.1)


def _in(found: list[Process], state: str) -> list[Process]:
    return [each for each in found if each.detail.get("state") == state]
