"""`lily bench deliver`: to healthy endpoints while others fail, hang and trickle."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import typer

from lily.cli.bench import yard
from lily.cli.bench.load import play
from lily.cli.bench.report import Report
from lily.cli.bench.yard import Endpoints
from lily.settings import Settings, load
from lily.store.embedded import Server, stop
from lily.store.migrate import migrate
from lily.wiring import core as build_core
from lily.workers.deliver import AHEAD

HEALTHY = 20
PLACES = 16  # of a webhook
BAD = {"fail": 7, "hang": 7, "trickle": 6}
PATIENCE = 60.0
RAW = 20_000
BODY = b'{"specversion":"1.0","data":"' + b"x" * 1000 + b'"}'


def measure(notices: int, workers: int, kills: int) -> Report:
    """Against a database and endpoints of its own."""
    with ground() as settings, yard.endpoints() as far:
        if kills:
            return under_fire(settings, far, notices, workers, kills)
        return speed(settings, far, notices, workers)


def speed(settings: Settings, far: Endpoints, notices: int, workers: int) -> Report:
    report = Report("deliver")
    core = build_core(settings, "lily_app", 2)
    tenant = yard.tenant_of(core)
    paths = [f"ok/{n}" for n in range(HEALTHY)]
    paths += [f"{kind}/{n}" for kind, count in BAD.items() for n in range(count)]
    for path in paths:
        id = yard.connect(core, tenant, "webhook", url=f"{far.url}/{path}", secret=yard.SECRET)
        yard.subscribe(core, tenant, id, "AssetChanged")
    facts = max(1, notices // HEALTHY)
    bare = play(_bare(far.url))
    before = far.stats()["different"]
    yard.happen(core, tenant, yard.changes(facts))
    began = time.perf_counter()
    with yard.workers(settings, workers):
        wanted = before + facts * HEALTHY
        found = far.await_different(wanted, PATIENCE)
        elapsed = time.perf_counter() - began
    core.close()
    told = found["different"] - before
    report.add("told to healthy endpoints", told, "notices", facts * HEALTHY, "more")
    rate = told / max(found["seconds"], 1e-9)
    report.add("rate, first to last arrival, matching included", rate, "/s", 1000, "more")
    report.add("from the start of the worker to the last", elapsed, "s")
    report.add("told more than once", found["repeated"], "notices", 0)
    report.limit("bare aiohttp loop to the same endpoints", bare, "/s", rate)
    bad = ", ".join(f"{count} {kind}" for kind, count in BAD.items())
    report.notes.append(f"{HEALTHY} healthy endpoints beside {bad}; {workers} worker(s)")
    return report


def under_fire(
    settings: Settings, far: Endpoints, notices: int, workers: int, kills: int, tickets: int = 100
) -> Report:
    """Workers die by kill -9: everything is told, and what is kept by handle is told once."""
    report = Report("deliver under fire")
    core = build_core(settings, "lily_app", 2)
    tenant = yard.tenant_of(core)
    for number in range(HEALTHY):
        url = f"{far.url}/ok/{number}"
        id = yard.connect(core, tenant, "webhook", url=url, secret=yard.SECRET)
        yard.subscribe(core, tenant, id, "AssetChanged")
    jira = {"email": "a@b.example", "token": "t", "project": "B", "url": f"{far.url}/jira"}
    yard.subscribe(core, tenant, yard.connect(core, tenant, "jira", **jira), "IncidentOpened")
    facts = max(1, notices // HEALTHY)
    yard.happen(core, tenant, yard.incidents(tickets))
    yard.happen(core, tenant, yard.changes(facts))
    wanted = facts * HEALTHY
    with yard.workers(settings, workers) as running:
        for number in range(kills):
            _until(far, wanted * (number + 1) // (kills + 2))
            typer.echo(f"kill -9 {number + 1} of {kills}", err=True)
            running.kill(number)
        found = far.await_different(wanted, PATIENCE)
        end = time.monotonic() + PATIENCE
        while found["issues"] < tickets and time.monotonic() < end:
            time.sleep(0.2)
            found = far.stats()
        time.sleep(2)  # for second ones, were there any
        found = far.stats()
    core.close()
    report.add("told at least once", found["different"], "notices", wanted, "more")
    # A process that dies leaves behind what it claimed; the outcome of some of it was not written.
    most = kills * HEALTHY * PLACES * AHEAD
    told = "told more than once, under the same webhook-id"
    report.add(told, found["repeated"], "notices", most)
    report.add("issues", found["issues"], "issues", tickets, "more")
    report.add("issues made twice", found["doubled_issues"], "issues", 0)
    return report


def _until(far: Endpoints, count: int) -> None:
    end = time.monotonic() + PATIENCE
    while far.stats()["different"] < count and time.monotonic() < end:
        time.sleep(0.05)


async def _bare(url: str) -> float:
    """The same library, the same endpoints, and nothing around it."""
    left = iter(range(RAW))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def lane(path: str) -> None:
            for _ in left:
                async with session.post(path, data=BODY) as answer:
                    await answer.read()

        paths = [f"{url}/bare/{number}" for number in range(HEALTHY)]
        began = time.perf_counter()
        await asyncio.gather(*(lane(path) for path in paths for _ in range(PLACES)))
        return RAW / (time.perf_counter() - began)


@contextmanager
def ground() -> Iterator[Settings]:
    """An empty database in a temporary folder, gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="lily-bench-"))
    server = Server(home / "postgres")
    server.prepare()
    with (home / "postgres.log").open("wb") as output:
        process = server.run(output.fileno())
    try:
        server.wait(process)
        url = server.create_database("lily")
        migrate(url)
        yield load(home=home, database=url)
    finally:
        stop(process)
        shutil.rmtree(home, ignore_errors=True)
