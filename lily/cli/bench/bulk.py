"""`lily bench estate`: a whole estate from one file, from the first byte to the last row."""

import asyncio
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import typer

from lily.cli.bench import shape
from lily.cli.bench.estate import Stream
from lily.cli.bench.load import Api, open_loop, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.cli.bench.usage import Meter
from lily.cli.bulk import ENDED, ROUTE
from lily.cli.client import connect
from lily.cli.failures import Failure
from lily.store import raw
from lily.wiring import home_url

PATH = "/api/v1/metadata"
POLL = 0.1
QUIET_SECONDS = 20.0
RATE = 1.0  # POSTs a second of the core lane, before and during
FIRST = 1_000
DURING = 1_000.0  # ms
CHUNK = 5_000


@dataclass
class Watch:
    """What happened when, and how long POSTs took meanwhile."""

    began: float = 0.0
    sent: float = 0.0
    ended: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    posts: list[float] = field(default_factory=list)
    failures: Counter[int] = field(default_factory=Counter)
    job: dict[str, Any] = field(default_factory=dict)


def measure(where: Place, assets: int, seed: int, compare: bool) -> Report:
    report = Report("estate")
    with tempfile.TemporaryDirectory(dir=where.settings.home) as folder:
        path = Path(folder) / "estate.ndjson"
        kinds = made(report, path, assets, seed)
        quiet = play(_posts(where, QUIET_SECONDS))
        report.add("first small file, Spark started for it", first(where, Path(folder)), "s")
        meter = Meter(where)
        watch = play(load(where, path))
        meter.tell(report, "asset", assets)
        size = path.stat().st_size
    if watch.job.get("state") != "succeeded":
        raise Failure(f"The job {watch.job.get('state')}: {watch.job.get('reason')}")
    _tell(report, watch, quiet, assets, size)
    _check(where, report, kinds)
    if compare:
        _compare(where, report, assets / (watch.ended - watch.began))
    return report


def made(report: Report, path: Path, assets: int, seed: int) -> Counter[str]:
    typer.echo(f"Making {assets} assets …", err=True)
    began = time.perf_counter()
    with path.open("wb") as file:
        kinds = shape.write(file, assets, seed)
    report.notes.append(
        f"{assets} assets, {path.stat().st_size / assets:.0f} bytes each, made in"
        f" {time.perf_counter() - began:.0f} s: {dict(kinds)}"
    )
    return kinds


def first(where: Place, folder: Path) -> float:
    """A file for which Spark has to start; it stays for a minute, so the next one finds it warm."""
    path = folder / "first.ndjson"
    with path.open("wb") as file:
        shape.write(file, FIRST, seed=10**6)
    watch = play(load(where, path))
    return watch.ended - watch.began


async def load(where: Place, path: Path) -> Watch:
    """Send the file, follow the job, and POST single assets all the while."""
    watch = Watch(began=time.perf_counter())
    client = connect(where.settings.home, where.url, timeout=600)

    def send() -> Any:
        with path.open("rb") as file:
            status, answer = client.upload(ROUTE, file, path.stat().st_size, name=path.name)
        if status != 202:
            raise Failure(f"The file was refused with {status}: {answer}")
        return answer

    load = asyncio.create_task(_posts(where, 3_600.0, watch))
    try:
        answer = await asyncio.to_thread(send)
        watch.sent = time.perf_counter()
        async with Api(where, 2) as api:
            while watch.job.get("state") not in ENDED:
                watch.job = (await api.get(answer["status_url"])).document
                watch.stages.setdefault(watch.job["stage"], time.perf_counter())
                await asyncio.sleep(POLL)
        watch.ended = time.perf_counter()
    finally:
        load.cancel()
    return watch


async def _posts(where: Place, seconds: float, into: Watch | None = None) -> Watch:
    watch = into or Watch()
    stream = Stream(uuid4().hex[:8])
    async with Api(where, 64) as api:

        async def once(number: int) -> None:
            answer = await api.post(PATH, stream.one(number))
            if answer.status in (200, 201):
                watch.posts.append(answer.seconds)
            else:
                watch.failures[answer.status] += 1

        await open_loop(RATE, seconds, once)
    return watch


def _tell(report: Report, watch: Watch, quiet: Watch, assets: int, size: int) -> None:
    spent = watch.ended - watch.began
    report.add("first byte → last row readable", assets / spent, "assets/s", 15_000, "more")
    report.add("all of it", spent, "s")
    report.add("upload", size / 1e6 / (watch.sent - watch.began), "MB/s")
    marks = [*watch.stages.items(), ("", watch.ended)]
    for (stage, at), (_, end) in pairwise(marks):
        if end - at > POLL * 2:
            report.add(f"stage {stage}", end - at, "s")
    report.latency("core POST, quiet", quiet.posts)
    bound = max(3 * percentile(quiet.posts, 0.95) * 1e3, DURING)
    report.latency("core POST, while it loads", watch.posts, p95=bound)
    for status, count in watch.failures.items():
        report.notes.append(f"POST while it loads answered {status}: {count} times")


def _check(where: Place, report: Report, kinds: Counter[str]) -> None:
    """Every asset is there, of every kind; and what one costs on disk."""
    tenant = where.known_tenant()
    with where.core("lily_app", 1) as core, core.database.unit(tenant) as unit:
        stored = raw.kinds(unit)
    missing = {kind: count - stored.get(kind, 0) for kind, count in kinds.items()}
    short = sum(max(0, each) for each in missing.values())
    report.add("assets missing", short, "assets", 0)
    total = sum(stored.values())
    report.add("disk per asset", raw.disk(home_url(where.settings)) / max(total, 1), "bytes")


def _compare(where: Place, report: Report, rate: float) -> None:
    """The same rows again, by COPY and insert alone, into an empty database beside it."""
    url, tenant = home_url(where.settings), where.known_tenant()
    typer.echo("Measuring the raw limit …", err=True)
    with raw.scratch(url) as scrap:
        limit = raw.copy_rows(url, scrap, tenant.number, CHUNK)
    report.limit("COPY + merge of the same rows, same indexes", limit, "rows/s", rate)
    report.add("share of the raw limit", rate / limit, "", 0.5, "more")
