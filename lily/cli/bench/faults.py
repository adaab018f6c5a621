"""`lily bench faults`: processes die under load, and nothing that was acknowledged is lost."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import typer

from lily.cli.bench import victims
from lily.cli.bench.estate import Stream
from lily.cli.bench.load import Answer, Api, play
from lily.cli.bench.model import Writes
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report
from lily.store import feed, raw

PATH = "/api/v1/metadata"
ROLES = ("pipeline", "serve", "postgres")
ASSETS = 40  # of each writer
QUIET = 3.0
TWIN_SECONDS = 20.0
GIVE_UP = 180.0
Outcome = TypeVar("Outcome")
BROKEN = (TimeoutError, OSError, RuntimeError, ValueError)


def measure(where: Place, rounds: int, writers: int) -> Report:
    report = Report("faults")
    run = Run(where, writers)
    play(run.play(rounds))
    for what, seconds in run.recoveries.items():
        report.add(f"slowest recovery: {what} ({len(seconds)} times)", max(seconds), "s", 60)
    judge(report, where, run)
    return report


def judge(report: Report, where: Place, run: "Run") -> None:
    """What was acknowledged is there, and each cause has had its effect once."""
    wrong = run.wrong
    report.add("acknowledged writes", run.acknowledged, "writes")
    report.add("acknowledged writes that are missing or older", len(wrong), "writes", 0)
    with where.core("lily_app") as core, core.database.unit(where.known_tenant()) as unit:
        doubled, broken = raw.doubled(unit), feed.check(unit)
    report.add("causes with two facts of a kind", len(doubled), "causes", 0)
    report.add("breaks in the hash chain", 0 if broken is None else 1, "breaks", 0)
    report.notes += wrong[:10] + [f"{kind} twice of {cause}" for cause, kind, _ in doubled[:10]]
    if broken is not None:
        report.notes.append(f"feed position {broken.position}: {broken.reason}")


class Run:
    """Writers at work while processes are killed."""

    def __init__(self, where: Place, writers: int) -> None:
        self._where = where
        self._stream = Stream(uuid4().hex[:8])
        self._writes = [[Writes() for _ in range(ASSETS)] for _ in range(writers)]
        self._over = asyncio.Event()
        self.acknowledged = 0
        self.recoveries: dict[str, list[float]] = {}
        self.wrong: list[str] = []

    async def play(self, rounds: int) -> None:
        async with Api(self._where, 64, patience=30) as api:
            await self.during(self._faults(api, rounds))

    async def during(self, faults: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Write until the faults are over, then judge what is stored."""
        async with Api(self._where, 64, patience=30) as api:
            await self._recovered(api)
            writers = [
                asyncio.create_task(self._write(api, number)) for number in range(len(self._writes))
            ]
            try:
                done = await faults
            finally:
                self._over.set()
                await asyncio.gather(*writers)
            await self._recovered(api)
            await self._judge(api)
        return done

    async def _faults(self, api: Api, rounds: int) -> None:
        for number in range(rounds):
            for role in ROLES:
                typer.echo(f"round {number + 1} of {rounds}: kill -9 {role}", err=True)
                await self._fault(api, f"kill -9 {role}", partial(victims.kill, self._where, role))
        forget = partial(victims.kill_and_forget, self._where)
        await self._fault(api, "checkpoints deleted", forget)
        with victims.second_pipeline(self._where):
            await asyncio.sleep(TWIN_SECONDS)
        await self._fault(api, "a second pipeline", lambda: None)

    async def _fault(self, api: Api, what: str, strike: Callable[[], None]) -> None:
        await asyncio.sleep(QUIET)
        await asyncio.to_thread(strike)
        self.recoveries.setdefault(what, []).append(await self._recovered(api))

    async def _recovered(self, api: Api) -> float:
        """Seconds until a POST that was sent from now on is answered with its asset."""
        began = time.monotonic()
        body = self._stream.one(10**9)
        while time.monotonic() - began < GIVE_UP:
            with suppress(*BROKEN):
                answer = await asyncio.wait_for(api.post(PATH, body), 15)
                if answer.status in (200, 201):
                    return time.monotonic() - began
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async def _write(self, api: Api, writer: int) -> None:
        turn = 0
        while not self._over.is_set():
            place = turn % ASSETS
            turn += 1
            one = self._writes[writer][place]
            edition = one.next()
            body = self._stream.one(writer * ASSETS + place, edition)
            try:
                answer = await api.post(PATH, body)
            except BROKEN:
                one.doubt(edition)
                await asyncio.sleep(0.2)
                continue
            await self._heed(one, edition, answer)

    async def _heed(self, one: Writes, edition: int, answer: Answer) -> None:
        """2xx is a promise, also 202: it is in the log. Anything else is a doubt."""
        if answer.status in (200, 201, 202):
            one.promise(edition, answer.document["guid"])
            self.acknowledged += 1
        else:
            one.doubt(edition)
            await asyncio.sleep(0.2)

    async def _judge(self, api: Api) -> None:
        for one in (each for writes in self._writes for each in writes if each.promised):
            answer = await api.get(f"{PATH}/{one.guid}")
            stored = answer.document.get("description") if answer.status == 200 else None
            if (problem := one.judge(stored)) is not None:
                self.wrong.append(f"{one.guid}: {problem}")
