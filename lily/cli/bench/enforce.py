"""`lily bench enforce`: from a tag to what a real PostgreSQL refuses, and back."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from uuid import UUID, uuid4

import msgspec

from lily import plugins
from lily.assets.edits import Who
from lily.cli.bench import trino, victims
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.errors import NotFound
from lily.identity.actor import Actor
from lily.store import connections, crawls, raw_warehouse, views
from lily.store.connections import Connection
from lily.store.database import HOME
from lily.store.edits import Edits
from lily.store.raw_warehouse import Warehouse
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core

GIVE_UP = 120.0
POLL = 0.005
LINGER = 0.02  # seconds that a tag stays once it is verified, for the readers to try
READERS = 2
WHO = Who("bench", "bench")
DERIVED = ("contacts", "copied")


def measure(where: Place, tags: int, race: int, kills: int, with_trino: bool = False) -> Report:
    report = Report("enforce")
    if with_trino:
        trino.measure(where, tags, report)
        return report
    tenant = where.known_tenant()
    with where.core("lily_app") as core:
        if kills:
            with engine(core, tenant) as bench:
                killed(bench, report, kills, lambda: victims.kill(where, "work"))
        elif race:
            with engine(core, tenant) as bench:
                raced(bench, report, race)
            with engine(core, tenant, hold_until_verified=True) as bench:
                held(bench, report, max(race // 10, 5))
        else:
            with engine(core, tenant) as bench:
                _tags(bench, report, tags)
    return report


class Bench:
    """A warehouse that Lily looks after, and a person who tags."""

    def __init__(self, core: Core, tenant: Tenant, house: Warehouse, id: UUID) -> None:
        self.core, self.tenant, self.house, self.id = core, tenant, house, id
        self._edits = Edits(core.database, core.clock, effective)

    def tag(self, *tags: str) -> None:
        name = self.house.name("people#email")
        self._edits.edit(self.tenant, name, {"tags": list(tags)}, False, WHO)

    def state(self, table: str = "people") -> str | None:
        return raw_warehouse.state(self.core.database, self.tenant, self.id, self.house.name(table))

    def knows(self, name: str) -> bool:
        try:
            with self.core.database.unit(self.tenant) as unit:
                return views.find(unit, self.house.name(name)).asset_type != "placeholder"
        except NotFound:
            return False

    def is_verified(self) -> bool:
        return self.state() == "verified"

    def is_released(self) -> bool:
        return self.state() is None

    def owed(self) -> int:
        return raw_warehouse.owed(self.core.database, self.tenant, self.id)


@contextmanager
def engine(core: Core, tenant: Tenant, **options: bool) -> Iterator[Bench]:
    """A warehouse of its own, crawled and enforced, gone at the end."""
    house = Warehouse(core.database.url_of(HOME))
    id = _connect(core, tenant, house, options)
    bench = Bench(core, tenant, house, id)
    try:
        until(house.is_listened_to)
        until(lambda: bench.knows("people#email") and bench.knows("contacts#mail"))
        with house.reader() as reader:
            until(lambda: reader.read("email") is not None)
        yield bench
    finally:
        with core.database.unit(tenant) as unit:
            gone = connections.locked(unit, id, None)
            connections.delete(unit, gone, Actor("bench", "bench"), core.clock.now())
        with suppress(TimeoutError):
            until(lambda: not house.is_captured())
        house.drop()


def until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + GIVE_UP
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {GIVE_UP} s")
        time.sleep(POLL)


def _connect(core: Core, tenant: Tenant, house: Warehouse, options: dict[str, bool]) -> UUID:
    id, now = uuid4(), core.clock.now()
    given = {
        "url": house.url, "server": "warehouse:5432", "mode": "enforce", "capture": True, **options,
    }  # fmt: skip
    public, secrets = plugins.split(plugins.check("enforcer", "postgres", given))
    sealed = core.seal.seal(secrets or b"{}", connections.about(tenant.number, id))
    made = Connection(
        id, house.database, "postgres", ["source", "enforcer"], public, sealed, "@daily", 0, True,
        1, now, now,
    )  # fmt: skip
    with core.database.unit(tenant) as unit:
        connections.create(unit, made, Actor("bench", "bench"))
        crawls.ask(unit, id, "request", "bench", None, now)
    return id


def _tags(bench: Bench, report: Report, rounds: int) -> None:
    verified, denied, derived, released = [], [], [], []
    house = bench.house
    house.run("DROP TABLE copied; CREATE TABLE copied AS SELECT id, email AS address FROM people")
    until(lambda: bench.knows("copied#address"))
    with house.reader() as reader:
        for round in range(rounds + 1):
            began = time.perf_counter()
            bench.tag("PII")
            until(lambda: reader.read("email") is None)
            refused = time.perf_counter() - began
            until(bench.is_verified)
            known = time.perf_counter() - began
            until(lambda: all(bench.state(each) == "verified" for each in DERIVED))
            followed = time.perf_counter() - began
            began = time.perf_counter()
            bench.tag()
            until(lambda: not any(map(bench.state, ("people", *DERIVED))))
            if round:  # the first of everything
                denied.append(refused)
                verified.append(known)
                derived.append(followed)
                released.append(time.perf_counter() - began)
    report.latency("tag → the engine refuses", denied, p95=1000)
    report.latency("tag → verified", verified, p95=1000)
    report.latency("tag → a view and a copy of it verified too", derived, p95=2000)
    report.latency("untag → everything as it was", released)
    bare = percentile(house.bare(20), 0.5)
    report.limit("the bare REVOKE and GRANT", bare * 1e3, "ms", percentile(verified, 0.5) * 1e3)


class _Hammer(msgspec.Struct):
    """When statements began that were answered in the clear."""

    house: Warehouse
    what: str
    tables: list[str]
    stop: Event
    began: list[tuple[float, str]] = []
    statements: int = 0

    def run(self) -> None:
        with self.house.reader() as reader:
            while not self.stop.is_set():
                for table in list(self.tables):
                    began = time.monotonic()
                    self.statements += 1
                    if reader.read(self.what, table):
                        self.began.append((began, table))


@contextmanager
def hammered(house: Warehouse, what: str, tables: list[str]) -> Iterator[list[_Hammer]]:
    stop = Event()
    hammers = [_Hammer(house, what, tables, stop) for _ in range(READERS)]
    threads = [Thread(target=each.run, daemon=True) for each in hammers]
    for thread in threads:
        thread.start()
    try:
        yield hammers
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


def raced(bench: Bench, report: Report, flips: int) -> None:
    """Nobody reads in the clear between `verified` and the moment that the tag is taken off."""
    closed: list[tuple[float, float]] = []
    with hammered(bench.house, "email", ["people"]) as hammers:
        for _ in range(flips):
            bench.tag("PII")
            until(bench.is_verified)
            start = time.monotonic()
            time.sleep(LINGER)
            closed.append((start, time.monotonic()))
            bench.tag()
            until(bench.is_released)
    clear = [began for each in hammers for began, _ in each.began]
    wrong = [began for began in clear if any(start <= began <= end for start, end in closed)]
    report.add("flips", flips, "")
    report.add("statements", sum(each.statements for each in hammers), "")
    report.add("answered in the clear while the tag was off", len(clear) - len(wrong), "")
    report.add("answered in the clear after verified", len(wrong), "", 0)


def held(bench: Bench, report: Report, tables: int) -> None:
    """New copies of protected data, readable by default: never in the clear."""
    bench.tag("PII")
    with bench.house.reader() as reader:
        until(lambda: reader.read("email") is None)
    names: list[str] = []
    with hammered(bench.house, "address", names) as hammers:
        for number in range(tables):
            names.append(f"taken_{number}")
            bench.house.run(
                f"CREATE TABLE taken_{number} AS SELECT id, email AS address FROM people"
            )
        until(lambda: all(bench.state(name) == "verified" for name in names))
    report.add("copies made while the tag was on", tables, "")
    report.add("statements on them", sum(each.statements for each in hammers), "")
    clear = sum(len(each.began) for each in hammers)
    report.add("answered in the clear, from their first moment on", clear, "", 0)
    with bench.house.reader() as reader:
        readable = sum(reader.read("id", name) is not None for name in names)
    report.add("copies of which the rest is readable", readable, "", tables, "more")


def killed(bench: Bench, report: Report, kills: int, kill: Callable[[], None]) -> None:
    """The worker dies as soon as the engine shows the change: mostly before it is recorded."""
    house, before = bench.house, bench.house.rights()
    wrong = 0
    with house.reader() as reader:
        for number in range(kills):
            tagging = number % 2 == 0
            bench.tag(*(["PII"] if tagging else []))
            until(lambda: (reader.read("email") is None) is tagging)  # noqa: B023
            kill()
            until(bench.is_verified if tagging else bench.is_released)
            until(lambda: (bench.owed() > 0) is tagging)  # noqa: B023
            if tagging:
                wrong += reader.read("email") is not None or reader.read("id") is None
            else:
                wrong += house.rights() != before
        if kills % 2:
            bench.tag()
            until(bench.is_released)
    report.add("kills", kills, "")
    report.add("states in which ledger and engine disagree", wrong, "", 0)
    report.add("rights that were lost or left", len(house.rights() ^ before), "", 0)
