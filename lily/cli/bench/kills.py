"""`lily bench estate --kills`: the same file twice, once in peace and once under kill -9.

Both loads must end in the same state with the same facts, each of them once; and what was posted
meanwhile must be there.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import typer

from lily.cli.bench import shape, victims
from lily.cli.bench.faults import BROKEN, Run
from lily.cli.bench.load import Api, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report
from lily.cli.bench.usage import below
from lily.cli.bulk import ENDED, ROUTE
from lily.cli.client import Client, connect
from lily.cli.failures import Failure
from lily.store import feed, raw

POLL = 0.1
PATIENCE = 30.0
WRITERS = 1

Victim = Literal["job", "whole job", "pipeline"]
State = list[tuple[str, int, str]]
Told = list[tuple[str, int, int, int]]


def measure(where: Place, assets: int, seed: int, kills: int) -> Report:
    report = Report("estate kills")
    victims_in_turn: list[Victim] = [*_turns(kills)]
    with tempfile.TemporaryDirectory(dir=where.settings.home) as folder:
        path = Path(folder) / "estate.ndjson"
        with path.open("wb") as file:
            shape.write(file, assets, seed)
        calm, rough = _tenant(where, "calm"), _tenant(where, "rough")
        typer.echo(f"Loading {assets} assets in peace …", err=True)
        report.add("undisturbed", play(_load(calm, path, ())), "s")
        run = Run(where, WRITERS)
        spent = play(run.during(_load(rough, path, _plan(victims_in_turn, assets))))
        report.add(f"with {len(victims_in_turn)} kills", spent, "s")
    _compare(report, calm, rough, assets)
    report.add("acknowledged POSTs meanwhile", run.acknowledged, "writes")
    report.add("acknowledged POSTs that are missing or older", len(run.wrong), "writes", 0)
    report.notes += [f"killed in turn: {', '.join(victims_in_turn)}", *run.wrong[:10]]
    return report


def _turns(kills: int) -> list[Victim]:
    """The job and the pipeline in turn; the job once alone, once with all that it started."""
    jobs: list[Victim] = list(islice(cycle(("job", "whole job")), kills))
    return [victim for job in jobs for victim in (job, "pipeline")]


def _plan(turns: Sequence[Victim], assets: int) -> list[tuple[int, Victim]]:
    """Evenly over the load: a kill when so many lines are read."""
    return [(assets * number // (len(turns) + 1), victim) for number, victim in enumerate(turns, 1)]


def _tenant(where: Place, name: str) -> Place:
    """The same Lily as somebody else."""
    made = connect(where.settings.home, where.url).post(
        "/api/v1/tenants", {"name": f"{name}-{uuid4().hex[:8]}"}
    )
    admin = made["admin"]
    return replace(
        where, tenant=made["name"], username=admin["username"], password=admin["password"]
    )


async def _load(where: Place, path: Path, plan: Sequence[tuple[int, Victim]]) -> float:
    """Send the file and follow its job to the end, striking where the plan says so; seconds."""
    began = time.perf_counter()
    answer = await asyncio.to_thread(_send, where, path)
    left = list(plan)
    job: dict[str, Any] = {}
    async with Api(where, 2, patience=PATIENCE) as api:
        while job.get("state") not in ENDED:
            with suppress(*BROKEN):
                found = await api.get(answer["status_url"])
                job = found.document if found.status == 200 else job
            if left and job and job["counts"]["read"] >= left[0][0]:
                line, victim = left.pop(0)
                typer.echo(f"kill -9 {victim} behind line {line}", err=True)
                await asyncio.to_thread(_strike, where, victim)
            await asyncio.sleep(POLL)
    if left or job["state"] != "succeeded":
        reason = job.get("reason") or f"too quick for {len(left)} of the kills; load more assets"
        raise Failure(f"The job {job['state']}: {reason}")
    return time.perf_counter() - began


def _send(where: Place, path: Path) -> dict[str, Any]:
    client = Client(where.url, timeout=600)
    login = {"username": where.username, "password": where.password, "tenant": where.tenant}
    client.token = client.post("/api/v1/auth/login", login)["access_token"]
    with path.open("rb") as file:
        status, answer = client.upload(ROUTE, file, path.stat().st_size, name=path.name)
    if status != 202:
        raise Failure(f"The file was refused with {status}: {answer}")
    found: dict[str, Any] = answer
    return found


def _strike(where: Place, victim: Victim) -> None:
    """A job alone leaves its JVM and executors behind for a moment; whole, it leaves nothing."""
    if victim == "pipeline":
        victims.kill(where, "pipeline")
        return
    job = below(victims.find(where, "bulk"))
    for pid in job if victim == "whole job" else job[:1]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _compare(report: Report, calm: Place, rough: Place, assets: int) -> None:
    wanted, facts, _ = _found(calm)
    stored, told, broken = _found(rough)
    report.add("assets stored", sum(count for _, count, _ in stored), "assets", assets, "more")
    differing = sorted(kind for kind, _, _ in {*wanted} ^ {*stored})
    report.add("kinds that differ from the undisturbed load", len({*differing}), "kinds", 0)
    report.add("kinds of fact that differ", len({*facts} ^ {*told}), "kinds", 0)
    twice = sum(count - causes for _, count, causes, _ in told)
    report.add("facts that were told twice", twice, "facts", 0)
    report.add("breaks in the hash chain", 0 if broken is None else 1, "breaks", 0)
    report.notes.append(f"hash of each kind: { {kind: digest for kind, _, digest in stored} }")
    report.notes.append(f"facts, causes, fields counted: {told}")
    if differing:
        report.notes.append(f"undisturbed: {wanted}, disturbed: {stored}")


def _found(where: Place) -> tuple[State, Told, object]:
    tenant = where.known_tenant()
    with where.core("lily_app", 1) as core, core.database.unit(tenant) as unit:
        return raw.state(unit), raw.told(unit, "%/%"), feed.check(unit)
