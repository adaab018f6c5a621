"""`lily bench lineage`: edges loaded, and walks over them in the store and over HTTP."""

import gc
import random
import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID, uuid4

import typer

from lily import wiring
from lily.assets.change import Message
from lily.assets.claims import when
from lily.assets.names import guid_of
from lily.cli.bench.load import Api, Tally, closed_loop, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.cli.bench.search import viewer
from lily.cli.bench.usage import Meter
from lily.events.lineage import EdgeSeen
from lily.events.observations import AssetSeen
from lily.lineage.edges import EdgeMessage
from lily.store import feed, raw, raw_lineage, raw_propagation
from lily.store.ingest import Batch, Incoming, Ingest
from lily.store.presence import presence
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core, home_url

CHUNK = 5_000
DEPTH = 5
SPREAD = 2  # each table feeds so many others: 62 within five steps
ROOTS = 2_000
POLL = 0.5
PATIENCE = 1_200.0
LAKE_PATIENCE = 900.0
PATH = "/api/v1/metadata/lineage"


def measure(where: Place, edges: int, connections: int, seconds: float, check: bool) -> Report:
    report = Report("lineage")
    tenant, prefix = where.known_tenant(), f"bench://{uuid4().hex[:8]}"
    tables = edges // SPREAD
    _load(where, report, tenant, prefix, tables)
    _settle(where, report, tenant)
    _await_lake(where, report, tenant)
    raw.analyze(home_url(where.settings))
    roots = _roots(tenant, prefix, tables)
    with where.core("lily_app", 1) as core:
        found, sizes = raw_lineage.walks(core.database, tenant, roots, DEPTH, seconds / 4)
    report.latency(f"depth {DEPTH} in the store", found, p95=20)
    report.notes.append(f"{sum(sizes) / max(1, len(sizes)):.0f} nodes in a walk, on average")
    bare, _ = raw_lineage.bare(home_url(where.settings), tenant, roots, DEPTH, seconds / 4)
    limit, measured = percentile(bare, 0.95), percentile(found, 0.95)
    report.limit("a bare recursive query, p95", limit * 1e3, "ms", measured * 1e3)
    tally = play(_ask(viewer(where), report, roots, connections, seconds / 2))
    report.add(f"depth {DEPTH} over HTTP, with tags", tally.rate, "/s", 300, "more")
    report.latency("GET of a graph", tally.seconds)
    report.notes += [f"{why}: {count} times" for why, count in tally.failures.items()]
    if check:
        _check(where, report, tenant)
    return report


def _settle(where: Place, report: Report, tenant: Tenant) -> None:
    """Wait until the tags have arrived everywhere: else they would be measured with the walks."""
    typer.echo("Tags travel along the edges …", err=True)
    began = time.perf_counter()
    with where.core("lily_app", 1) as core:
        while not raw_propagation.is_quiet(core.database, tenant):
            if time.perf_counter() - began > PATIENCE:
                raise TimeoutError(f"tags still travel after {PATIENCE:.0f} s")
            time.sleep(POLL)
        with core.database.unit(tenant) as unit:
            arrived = raw_propagation.count(unit)
    report.add("tags that arrived behind the load", arrived, "rows")
    report.add("until they had", time.perf_counter() - began, "s")


def _await_lake(where: Place, report: Report, tenant: Tenant) -> None:
    """All of it goes into the lake once: that is not the price of a walk either."""
    from lily.lake.cell import position_of

    typer.echo("The lake catches up …", err=True)
    began = time.perf_counter()
    with where.core("lily_system", 1) as core:
        lake = wiring.lake(core, tenant.cell)
        with core.database.whole(tenant) as unit:
            head = feed.head(unit)

        def has_all(name: str) -> bool:
            table = lake.find(name)
            return table is not None and position_of(table).get(str(tenant.number), 0) >= head

        while not all(map(has_all, ("facts", "assets_history", "assets", "tags", "edges"))):
            if time.perf_counter() - began > LAKE_PATIENCE:
                report.notes.append(
                    "the lake did not have all of it, and may have written meanwhile"
                )
                break
            time.sleep(POLL)
    report.add("until the lake had all of it", time.perf_counter() - began, "s")


def _check(where: Place, report: Report, tenant: Tenant) -> None:
    """The same from nothing, on Spark: level by level over all edges."""
    from lily.pipeline.nightly import compared

    typer.echo("Computing all of it from nothing …", err=True)
    began = time.perf_counter()
    with where.core("lily_system") as core:
        found = compared(core, tenant)
    report.add("rows that differ from a computation from scratch", len(found), "rows", 0)
    report.add("that computation", time.perf_counter() - began, "s")


def _name(prefix: str, number: int) -> str:
    return f"{prefix}/table{number}"


def _roots(tenant: Tenant, prefix: str, tables: int) -> list[UUID]:
    chance = random.Random(1)
    numbers = [chance.randrange(tables) for _ in range(ROOTS)]
    return [guid_of(tenant.id, _name(prefix, number)) for number in numbers]


def _load(where: Place, report: Report, tenant: Tenant, prefix: str, tables: int) -> None:
    """Tables first, then the edges between them, as the pipeline merges them."""
    with where.core("lily_system") as system, presence(system, "bulk") as me:
        me.say(state="active")  # as every load of files says, and others step back for
        ingest = Ingest(effective, lambda _: tenant, lambda _: {})
        began = system.clock.now()

        def table(number: int) -> list[Incoming]:
            return [_table(tenant, _name(prefix, number), number, began)]

        def feeds(number: int) -> list[Incoming]:
            ends = [(SPREAD * number + n + 1) % tables for n in range(SPREAD)]
            start = _name(prefix, number)
            return [_edge(tenant, start, _name(prefix, end), number, began) for end in ends]

        _chunks(system, ingest, tenant, tables, CHUNK, table, "Tables")
        seconds = _chunks(system, ingest, tenant, tables, CHUNK // SPREAD, feeds, "Edges")
    report.add("edges loaded", tables * SPREAD / seconds, "/s", 10_000, "more")


def _chunks(
    system: Core, ingest: Ingest, tenant: Tenant, count: int, size: int,
    make: Callable[[int], list[Incoming]], label: str,
) -> float:  # fmt: skip
    """Merge all of them in batches; returns the seconds that merging took."""
    spent = 0.0
    with typer.progressbar(length=count, label=label, file=typer.get_text_stream("stderr")) as bar:
        for start in range(0, count, size):
            numbers = range(start, min(start + size, count))
            incoming = [each for number in numbers for each in make(number)]
            gc.disable()  # as a load of files does
            began = time.perf_counter()
            with system.database.cell(tenant.cell) as conn:
                ingest.apply(conn, Batch(uuid4(), [], incoming, []), system.clock.now())
            spent += time.perf_counter() - began
            gc.enable()
            bar.update(len(numbers))
    return spent


def _table(tenant: Tenant, name: str, number: int, at: datetime) -> Incoming:
    tags = ["PII", "gold"] if number % 10 == 0 else []
    seen = AssetSeen(qualified_name=name, asset_name=name, asset_type="table", tags=tags)
    message = Message(seen, "bench", "bench", str(uuid4()), when(at, number))
    return Incoming(tenant.number, "core", number, message)


def _edge(tenant: Tenant, start: str, end: str, number: int, at: datetime) -> Incoming:
    seen = EdgeSeen(from_name=start, to_name=end, process="bench")
    message = EdgeMessage(seen, "bench", "bench", str(uuid4()), when(at, number))
    return Incoming(tenant.number, "core", number, message)


async def _ask(
    where: Place, report: Report, roots: list[UUID], connections: int, seconds: float
) -> Tally:
    async with Api(where, connections) as api:
        tally = Tally()

        async def once(number: int) -> None:
            root = roots[number * 7919 % len(roots)]
            answer = await api.get(f"{PATH}/{root}?depth={DEPTH}")
            if answer.status == 200:
                tally.seconds.append(answer.seconds)
                tally.items += 1
            else:
                tally.fail(f"GET answered {answer.status}")

        await closed_loop(connections, min(3, seconds), once)
        tally = Tally()
        meter = Meter(where)
        tally.began, tally.ended = await closed_loop(connections, seconds, once)
        meter.tell(report, "GET", tally.items)
        return tally
