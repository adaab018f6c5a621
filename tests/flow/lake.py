"""A lake under test: places, what goes in, and how it is compared with the store."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from lily.assets.edits import Who
from lily.assets.model import public
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.lake import read
from lily.pipeline.archive import CellArchive
from lily.settings import load
from lily.store import views
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.types import Tenant
from lily.wiring import Core
from lily.wiring import core as build_core
from tests.conftest import new_tenant
from tests.flow.corridor import Corridor, append

ANN = Who("ann", "test")
TABLES = ("observations", "facts", "assets_history", "assets", "tags")


class Place(msgspec.Struct):
    """A Lily without Spark: store, log, ingest job and lake of its own."""

    core: Core
    system: Core
    corridor: Corridor
    archive: CellArchive
    tenant: Tenant

    def say(self, *seen: Observation, tenant: Tenant | None = None) -> None:
        append(self.core, tenant or self.tenant, *seen)
        self.corridor.run()

    def rows(self, sql: str, **at: int) -> list[tuple[Any, ...]]:
        return read.query(self.archive.lake, sql, self.tenant.number, at).rows


@pytest.fixture(scope="module")
def here(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Core, Core]]:
    """A database of its own, for the tests of a module."""
    home = tmp_path_factory.mktemp("lake")
    url = server.create_database(home.name)
    migrate(url)
    settings = load(home=home, database=url)
    cores = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    yield cores
    for each in cores:
        each.close()


@pytest.fixture
def place(here: tuple[Core, Core]) -> Iterator[Place]:
    """A tenant of its own, for one test."""
    core, system = here
    corridor, archive = Corridor(system), CellArchive(system, "home")
    yield Place(core, system, corridor, archive, new_tenant(core))
    corridor.close()
    archive.close()


def seen(name: str, **fields: Any) -> AssetSeen:
    return AssetSeen(qualified_name=name, **fields)


def a_day(random: random.Random) -> list[Observation]:
    """Tables with columns that come, change, get tags and go."""
    found: list[Observation] = []
    for _ in range(40):
        name = f"shop.t{random.randrange(6)}"
        if random.random() < 0.7:
            name += f"#c{random.randrange(5)}"
        if random.random() < 0.15:
            found.append(AssetGone(qualified_name=name))
        else:
            tags = random.choice([[], [], ["PII"], ["raw", "PII"]])
            metadata = {"rows": random.randrange(3), "b": {"z": 1, "a": [1, None]}}
            found.append(seen(name, description=random.choice("abc"), tags=tags, metadata=metadata))
    return found


def stored(place: Place) -> list[dict[str, Any]]:
    """What the API shows of every asset of the tenant."""
    with place.core.database.unit(place.tenant) as unit:
        rows = unit.conn.execute(f"{views.SHOWN} WHERE a.tenant = %s", [place.tenant.number])
        shown = [public(views.shown(row), place.tenant.id) for row in rows]
    return sorted(shown, key=lambda asset: str(asset["guid"]))


def archived(place: Place) -> list[dict[str, Any]]:
    """The same from the lake."""
    answer = read.query(
        place.archive.lake, "SELECT * FROM assets ORDER BY guid", place.tenant.number
    )
    found = []
    for row in answer.rows:
        asset = dict(zip(answer.columns, row, strict=True))
        found.append({**asset, "metadata": msgspec.json.decode(asset["metadata"])})
    return found


def assert_level(place: Place) -> None:
    wanted, found = stored(place), archived(place)
    assert len(found) == len(wanted)
    for asset, copy in zip(wanted, found, strict=True):
        asset["guid"] = str(asset["guid"])
        asset["parent_id"] = asset["parent_id"] and str(asset["parent_id"])
        assert {name: copy[name] for name in asset if name != "tenant_id"} == {
            name: value for name, value in asset.items() if name != "tenant_id"
        }


def assert_complete(place: Place) -> None:
    """Every observation, fact and version, and each of them once."""
    number = [place.tenant.number]
    with place.system.database.cell("home", number) as conn:
        facts = conn.execute("SELECT position FROM fact WHERE tenant = %s", number).fetchall()
        log = conn.execute('SELECT lane, "offset" FROM log WHERE tenant = %s', number).fetchall()
        last = conn.execute("SELECT guid::text, version FROM asset WHERE tenant = %s", number)
        newest = last.fetchall()
    assert place.rows("SELECT position FROM facts ORDER BY 1") == sorted(facts)
    assert place.rows('SELECT lane, "offset" FROM observations ORDER BY 1, 2') == sorted(log)
    wanted = sorted((guid, n) for guid, version in newest for n in range(1, version + 1))
    assert place.rows("SELECT guid, version FROM assets_history ORDER BY ALL") == wanted


def counted(place: Place, table: str) -> int:
    rows = place.rows(f"SELECT count(*) FROM {table}")
    return int(rows[0][0])
