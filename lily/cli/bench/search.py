"""`lily bench search`: pages of a search over a large estate, as a viewer."""

import random
from dataclasses import replace
from itertools import product
from urllib.parse import urlencode
from uuid import uuid4

import typer

from lily.assets.query import parse
from lily.cli.bench import estate
from lily.cli.bench.fill import fill
from lily.cli.bench.load import Api, closed_loop, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.cli.bench.usage import Meter
from lily.cli.client import connect
from lily.store import raw
from lily.wiring import home_url

PATH = "/api/v1/metadata/search"
Query = tuple[tuple[str, str], ...]


def measure(where: Place, assets: int, connections: int, seconds: float) -> Report:
    report = Report("search")
    _fill(where, assets)
    kinds = queries()
    found, failures = play(_load(viewer(where), report, kinds, connections, seconds))
    everything = [second for times in found.values() for second in times]
    report.latency("all searches", everything, p95=50)
    for kind, times in found.items():
        report.latency(kind, times)
    report.notes.append(f"{len(everything)} searches, {connections} at a time")
    report.notes += [f"status {status}: {count} times" for status, count in failures.items()]
    bare = raw.matches(home_url(where.settings), where.known_tenant().number, _bare(kinds))
    limit, measured = percentile(bare, 0.95), percentile(everything, 0.95)
    report.limit("the bare index query, p95", limit * 1e3, "ms", measured * 1e3)
    return report


def queries() -> dict[str, list[Query]]:
    """By kind; the words come from the estate, the order from a fixed seed."""
    chance = random.Random(1)
    pairs = list(product(estate.STAGES, estate.SUBJECTS))
    fields = list(product(estate.SUBJECTS, ("email", "phone", "amount", "status", "iban")))
    kinds: dict[str, list[Query]] = {
        "two words": [(("q", f"{one} {two}"),) for one, two in pairs + fields],
        "prefix": [(("q", word[:length]),) for word in estate.SUBJECTS for length in (3, 4, 5)],
        "tag": [(("tag", tag), ("asset_type", "table")) for tag in estate.TAGS],
        "metadata key": [
            (("metadata.team", team), ("metadata.tier", tier))
            for team, tier in product(estate.TEAMS, "1234")
        ],
        "prefix, tag and key": [
            (("q", word[:4]), ("tag", tag), ("metadata.refresh", "daily"))
            for word, tag in product(estate.SUBJECTS, estate.TAGS)
        ],
    }
    for each in kinds.values():
        chance.shuffle(each)
    return kinds


async def _load(
    where: Place,
    report: Report,
    kinds: dict[str, list[Query]],
    connections: int,
    seconds: float,
) -> tuple[dict[str, list[float]], dict[int, int]]:
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    failures: dict[int, int] = {}
    names = list(kinds)
    async with Api(where, connections) as api:

        async def once(number: int) -> None:
            kind = names[number % len(names)]
            query = kinds[kind][number // len(names) % len(kinds[kind])]
            answer = await api.get(f"{PATH}?{urlencode(query)}")
            if answer.status == 200:
                found[kind].append(answer.seconds)
            else:
                failures[answer.status] = failures.get(answer.status, 0) + 1

        await closed_loop(connections, min(5, seconds), once)
        for times in found.values():
            times.clear()
        meter = Meter(where)
        await closed_loop(connections, seconds, once)
        meter.tell(report, "search", sum(map(len, found.values())))
    return found, failures


def _fill(where: Place, assets: int) -> None:
    if not assets:
        return
    tenant = where.known_tenant()
    with (
        where.core("lily_system") as system,
        typer.progressbar(
            length=assets, label="Filling", file=typer.get_text_stream("stderr")
        ) as bar,
    ):
        fill(system, tenant, range(assets), lambda done: bar.update(done - bar.pos))
    raw.analyze(home_url(where.settings))


def viewer(where: Place) -> Place:
    """Somebody who may only look."""
    username, password = f"viewer-{uuid4().hex[:8]}", uuid4().hex
    admin = connect(where.settings.home, where.url)
    admin.post("/api/v1/users", {"username": username, "password": password, "role": "viewer"})
    return replace(where, username=username, password=password)


def _bare(kinds: dict[str, list[Query]]) -> list[str]:
    """The index queries behind a sample of each kind."""
    asked = [query for given in kinds.values() for query in given[:40]]
    return [wanted for query in asked if (wanted := parse(query).wanted) is not None]
