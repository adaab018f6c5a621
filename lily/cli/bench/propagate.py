"""`lily bench propagate`: a tag, and everything that lies behind it in lineage."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Event, Thread
from uuid import UUID, uuid4

import typer

from lily.assets.change import Message
from lily.assets.claims import when
from lily.assets.edits import Who
from lily.assets.names import guid_of
from lily.cli.bench import victims
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.events.lineage import EdgeSeen
from lily.events.observations import AssetSeen
from lily.lineage.edges import EdgeMessage
from lily.store import raw_propagation as rows
from lily.store.edits import Edits
from lily.store.ingest import Batch, Incoming, Ingest
from lily.store.presence import alive
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core

CHUNK = 5_000
POLL = 0.02
GIVE_UP = 300.0
BUSY = 0.25  # seconds between two small changes while a large one runs
WHO = Who("bench", "bench")
Edge = tuple[str, str]


def measure(where: Place, wide: int, large: int, hops: int, rounds: int, kills: int) -> Report:
    report = Report("propagate")
    tenant = where.known_tenant()
    with where.core("lily_app") as core, where.core("lily_system") as system:
        bench = _Bench(core, system, tenant)
        if kills:
            _killed(where, bench, report, kills)
            return report
        _wide(bench, report, wide, rounds)
        _hops(bench, report, hops, rounds)
        if large:
            _large(bench, report, large)
    return report


class _Bench:
    """Graphs laid into the store, tagged by a person, and watched."""

    def __init__(self, core: Core, system: Core, tenant: Tenant) -> None:
        self.core, self.system, self.tenant = core, system, tenant
        self.edits = Edits(core.database, core.clock, effective)
        self._ingest = Ingest(effective, lambda _: tenant, lambda _: {})
        self.prefix = f"bench://{uuid4().hex[:8]}"

    def name(self, short: str) -> str:
        return f"{self.prefix}/{short}"

    def guid(self, short: str) -> UUID:
        return guid_of(self.tenant.id, self.name(short))

    def lay(self, edges: Sequence[Edge]) -> None:
        """Make assets and edges exist, and wait until nobody has anything to do about it."""
        names = list(dict.fromkeys(end for edge in edges for end in edge))
        self._merge([self._asset(name) for name in names])
        self._merge([self._edge(*edge) for edge in edges])
        self.until(lambda: rows.is_quiet(self.core.database, self.tenant))

    def tag(self, short: str, *tags: str) -> None:
        self.edits.edit(self.tenant, self.name(short), {"tags": list(tags)}, False, WHO)

    def seconds(self, short: str, tags: Sequence[str], expected: int) -> float:
        """From the answer to the person until so many others have it, or none any more."""
        root = self.guid(short)
        self.tag(short, *tags)
        began = time.perf_counter()
        self.until(lambda: rows.arrived(self.core.database, self.tenant, root) == expected)
        return time.perf_counter() - began

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + GIVE_UP
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {GIVE_UP} s")
            time.sleep(POLL)

    def _merge(self, incoming: Sequence[Incoming]) -> None:
        for start in range(0, len(incoming), CHUNK):
            part = list(incoming[start : start + CHUNK])
            with self.system.database.cell(self.tenant.cell) as conn:
                self._ingest.apply(conn, Batch(uuid4(), [], part, []), self.system.clock.now())

    def _asset(self, short: str) -> Incoming:
        seen = AssetSeen(qualified_name=self.name(short), asset_type="table")
        message = Message(seen, "bench", "bench", str(uuid4()), when(self.core.clock.now(), 1))
        return Incoming(self.tenant.number, "core", 1, message)

    def _edge(self, up: str, down: str) -> Incoming:
        seen = EdgeSeen(from_name=self.name(up), to_name=self.name(down), relationship_type="feeds")
        message = EdgeMessage(seen, "bench", "bench", str(uuid4()), when(self.core.clock.now(), 1))
        return Incoming(self.tenant.number, "core", 1, message)


def fan(root: str, size: int, width: int) -> Iterator[Edge]:
    """`size` assets behind a root: branches of `width`, each in two steps."""
    for number in range(size):
        branch, leaf = divmod(number, width)
        if leaf == 0:
            yield root, f"{root}-{branch}"
        else:
            yield f"{root}-{branch}", f"{root}-{branch}-{leaf}"


def _wide(bench: _Bench, report: Report, size: int, rounds: int) -> None:
    edges = list(fan("wide", size, 100))
    bench.lay(edges)
    bench.seconds("wide", ["PII"], size)  # the first of everything
    bench.seconds("wide", [], 0)
    added, removed = [], []
    for _ in range(rounds):
        added.append(bench.seconds("wide", ["PII"], size))
        removed.append(bench.seconds("wide", [], 0))
    report.latency(f"tag → {size:,} downstream assets", added, p95=2000)
    report.latency(f"untag → gone from {size:,}", removed, p95=2000)
    guids = [bench.guid(down) for _, down in edges]
    bare = rows.bare_update(bench.core.database, bench.tenant, guids, 5)
    median = percentile(added, 0.5)
    report.limit(f"a bare UPDATE of {size:,} rows", bare * 1e3, "ms", median * 1e3)


def _hops(bench: _Bench, report: Report, hops: int, rounds: int) -> None:
    bench.lay([(f"hop{n}", f"hop{n + 1}") for n in range(hops)])
    spent = []
    for _ in range(rounds):
        spent.append(bench.seconds("hop0", ["PII"], hops))
        spent.append(bench.seconds("hop0", [], 0))
    report.latency(f"tag → {hops} hops away", spent, p95=2000)


def _large(bench: _Bench, report: Report, size: int) -> None:
    """One large reach, and small changes that go on beside it."""
    bench.lay(list(fan("small", 20, 20)))
    typer.echo(f"Laying {size:,} assets behind one …", err=True)
    bench.lay(list(fan("large", size, 1000)))
    for tags, expected, what in (
        (["PII"], size, f"tag → {size:,} downstream assets"),
        ([], 0, f"untag → gone from {size:,}"),
    ):
        over, small = Event(), _Small(bench)
        thread = Thread(target=small.run, args=(over,))
        thread.start()
        try:
            spent = bench.seconds("large", tags, expected)
        finally:
            over.set()
            thread.join()
        report.add(what, spent, "s", 30)
        report.latency("small changes meanwhile", small.seconds, p95=2000)
        bench.until(lambda: rows.is_quiet(bench.core.database, bench.tenant))


class _Small:
    """Tags a few assets again and again."""

    def __init__(self, bench: _Bench) -> None:
        self._bench = bench
        self.seconds: list[float] = []

    def run(self, over: Event) -> None:
        turn = 0
        while not over.wait(BUSY):
            turn += 1
            tags, expected = (["GDPR"], 20) if turn % 2 else ([], 0)
            self.seconds.append(self._bench.seconds("small", tags, expected))


# Kills --------------------------------------------------------------------------------------------


def _killed(where: Place, bench: _Bench, report: Report, kills: int) -> None:
    """The pipeline dies at random points of random changes; then the state is compared."""
    dice = random.Random(1)
    # Two fans that share leaves, one of them large enough to be a task.
    edges = list(fan("left", 9_000, 300)) + list(fan("right", 900, 30))
    edges += [(f"right-{n}", f"left-{n}-7") for n in range(30)]
    bench.lay(edges)
    with bench.core.database.unit(bench.tenant) as unit:
        begin = rows.head(unit)
    tagged: dict[str, set[str]] = {}
    for number in range(kills):
        for _ in range(dice.randrange(1, 4)):
            short = dice.choice(["left", "right", "left-3", "right-2", "right-5"])
            tagged[short] = set(dice.sample(["PII", "GDPR"], dice.randrange(3)))
            bench.tag(short, *sorted(tagged[short]))
        time.sleep(dice.uniform(0.0, 2.5))
        typer.echo(f"kill -9 of the pipeline, {number + 1} of {kills}", err=True)
        killed = victims.find(where, "pipeline")
        os.kill(killed, signal.SIGKILL)
        bench.until(partial(_has_followed, bench.system, killed))
    bench.until(lambda: rows.is_quiet(bench.core.database, bench.tenant))
    expected = reference(bench, edges, tagged)
    with bench.core.database.unit(bench.tenant) as unit:
        mine = {bench.guid(name) for edge in edges for name in edge}
        found = {row for row in rows.everything(unit) if row[0] in mine}
        twice = rows.told_twice(unit, begin)
    report.add("kills", kills, "times")
    report.add("tags that arrived", len(found), "rows")
    report.add("rows that differ from a computation from scratch", len(found ^ expected), "rows", 0)
    report.add("versions told twice", len(twice), "facts", 0)


def _has_followed(core: Core, killed: int) -> bool:
    """Whether another pipeline is at work."""
    found = alive(core.database, "pipeline")
    return any(each.detail.get("warm") and each.pid != killed for each in found)


def reference(
    bench: _Bench, edges: Sequence[Edge], tagged: dict[str, set[str]]
) -> set[tuple[UUID, str, UUID, int]]:
    """Asset, tag, nearest root and depth, from nothing."""
    behind: dict[str, list[str]] = {}
    for up, down in edges:
        behind.setdefault(up, []).append(down)
    found = set()
    for tag in ("PII", "GDPR"):
        level = {name: bench.guid(name) for name, tags in tagged.items() if tag in tags}
        seen, depth = set(level), 0
        while level:
            depth += 1
            following: dict[str, UUID] = {}
            for name, root in level.items():
                for down in behind.get(name, ()):
                    if down not in seen:
                        following[down] = min(following.get(down, root), root)
            found |= {(bench.guid(name), tag, root, depth) for name, root in following.items()}
            seen |= set(following)
            level = following
    return found
