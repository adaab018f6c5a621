"""A tenant's move is killed at every step, and takes its part of the lake along."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from lily.lake import read
from lily.pipeline.archive import CellArchive
from lily.store import feed
from lily.store.embedded import Server
from lily.store.propagation import Propagator, Stretch, standing
from lily.store.propagation_feed import FactTail
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.moving import Place, goes_on_after, shared, two_tenants
from tests.scale.kafka_lily import until


@pytest.fixture(scope="module")
def cores(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Core, Core]]:
    with shared(server, tmp_path_factory.mktemp("moving"), "file:") as both:
        yield both


@pytest.fixture
def place(server: Server, cores: tuple[Core, Core]) -> Iterator[Place]:
    with two_tenants(server, *cores) as made:
        yield made


@pytest.mark.parametrize("moment", ["drain", "copy", "carry", "switch", "welcome", "clear", "end"])
def test_killed_in_the_middle_it_goes_on(place: Place, tmp_path: Path, moment: str) -> None:
    goes_on_after(place, tmp_path, moment)


def test_propagation_follows_a_tenant_there_and_back(place: Place) -> None:
    tail = FactTail(place.system.database)
    propagator = Propagator(place.system.database, place.system.clock, Event())
    places = tail.places()

    def head() -> int:
        with place.core.database.unit(place.now) as unit:
            return feed.head(unit)

    def handled() -> int:
        for each in tail.read(places, 0.2):
            if each.tenant == place.tenant.number:
                stretch = Stretch(place.now, each.start, each.end, each.facts)
                propagator.handle(stretch)  # raises Fenced if it begins elsewhere
            places.setdefault(each.cell, {})[each.tenant] = each.end
        with place.core.database.unit(place.now) as unit:
            return standing(unit.conn, place.tenant.number)

    def follows(name: str) -> None:
        place.say(place.now, name, tags=["PII"])
        here = head()
        until(lambda: handled() >= here)

    try:
        follows("db/before")
        place.move("dedicated", place.away())
        follows("db/there")
        place.move("pooled")
        follows("db/back")
    finally:
        tail.close()
        propagator.close()


def test_the_lake_goes_along(place: Place) -> None:
    def rows(tenant: Tenant, table: str) -> set[tuple[Any, ...]]:
        archive = CellArchive(place.system, tenant.cell)
        archive.catch_up(latest=True)
        try:
            ask = f"SELECT qualified_name FROM {table}"
            if table == "observations":
                ask = 'SELECT lane, "offset", key FROM observations'
            return set(read.query(archive.lake, ask, tenant.number, {}).rows)
        finally:
            archive.close()

    tables = ("observations", "facts", "assets", "assets_history")
    before = {table: rows(place.tenant, table) for table in tables}
    assert len(before["observations"]) == 5 and len(before["assets"]) == 3
    place.say(place.tenant, "db/late")  # archived by nobody yet
    moved = place.move("dedicated", place.away())
    for table in tables:
        assert before[table] <= rows(moved, table), table
        assert rows(place.tenant, table) == set(), table
    assert len(rows(moved, "observations")) == 6
    there = {table: rows(moved, table) for table in tables}
    back = place.move("pooled")
    for table in tables:
        assert there[table] <= rows(back, table), table
    assert len(rows(place.other, "assets")) == 1
