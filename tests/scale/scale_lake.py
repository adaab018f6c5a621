"""The lake on an S3 server, with its catalog in PostgreSQL and with an Iceberg REST catalog."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from lily.identity.actor import Actor
from lily.lake import read
from lily.lake.cell import CellLake
from lily.lake.upkeep import Rules, upkeep
from lily.pipeline.archive import CellArchive
from lily.settings import load
from lily.store import tenants
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.wiring import Core, jars
from lily.wiring import core as build_core
from tests.flow import test_lake as flow
from tests.flow import test_lake_readers as readers
from tests.flow.corridor import append
from tests.flow.lake import Place, assert_level, seen
from tests.scale.kafka_lily import fetch_jars
from tests.scale.storage import BUCKET, bundle, nessie, s3

place = flow.place
test_the_latest_assets_equal_the_store = flow.test_the_latest_assets_equal_the_store
test_the_latest_edges_equal_the_store = flow.test_the_latest_edges_equal_the_store
test_history_has_every_version_whole = flow.test_history_has_every_version_whole
test_history_survives_a_purge = flow.test_history_survives_a_purge_and_a_new_beginning
test_facts_and_observations = flow.test_facts_and_observations_are_those_of_feed_and_log
test_killed_around_its_commits = flow.test_killed_around_its_commits_it_loses_and_doubles_nothing
test_of_two_archivists = flow.test_of_two_archivists_at_once_one_loses_and_nothing_is_doubled
test_an_export = readers.test_an_export_has_the_rows_of_the_tenant_only


# Nessie shows the newest snapshot of a table only; the earlier ones are in commits of its own.
ours = pytest.mark.parametrize("here", ["database"], indirect=True)
test_an_earlier_snapshot = ours(readers.test_an_earlier_snapshot_can_still_be_read)
test_upkeep = ours(readers.test_upkeep_joins_files_and_keeps_every_row_and_the_position)


@ours
def test_upkeep_where_a_catalog_keeps_files_removes_what_expired_alone(place: Place) -> None:
    """As with a REST catalog that shows all snapshots: nothing is swept, only what they had."""
    lake = place.archive.lake
    lake.is_ours = False
    for number in range(10):
        place.say(seen(f"t{number}"))
        place.archive.catch_up()
    sql = "SELECT guid, version FROM assets_history ORDER BY ALL"
    before = place.rows(sql)
    place.archive.upkeep()
    later = place.core.clock.now() + timedelta(hours=2)
    thrifty = Rules(snapshot_days=1e-9, grace=timedelta(0))
    done = {each.table: each for each in upkeep(lake, later, thrifty)}
    assert done["assets_history"].snapshots_expired > 0
    assert done["assets_history"].files_removed > 0
    assert place.rows(sql) == before
    place.say(seen("t1", description="later"))
    place.archive.catch_up(latest=True)
    assert_level(place)


@pytest.mark.parametrize("here", ["rest"], indirect=True)
def test_upkeep_leaves_snapshots_and_files_to_nessie(place: Place) -> None:
    for number in range(10):
        place.say(seen(f"t{number}"))
        place.archive.catch_up()
    sql = "SELECT guid, version FROM assets_history ORDER BY ALL"
    before = place.rows(sql)
    done = {each.table: each for each in place.archive.upkeep()}
    assert done["assets_history"].files_joined >= 8
    assert done["assets_history"].files_removed == done["assets_history"].snapshots_expired == 0
    assert place.rows(sql) == before
    place.say(seen("t1", description="later"))
    place.archive.catch_up(latest=True)
    assert_level(place)


@pytest.mark.parametrize("here", ["rest"], indirect=True)
def test_spark_merges_what_differs(
    place: Place,
    spark_master: str,
    tmp_path: Path,
    missing: Callable[[str], NoReturn],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch_jars(missing)
    monkeypatch.setattr(readers, "JARS", [*jars(load()), bundle(missing)])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    readers.test_spark_merges_what_differs_into_the_same_tables(place, spark_master, tmp_path)


@pytest.fixture(scope="module")
def storage(
    tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], NoReturn]
) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, s3(tmp_path_factory.mktemp("s3"), missing) as url:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield url


@pytest.fixture(scope="module", params=["database", "rest"])
def here(
    request: pytest.FixtureRequest,
    server: Server,
    storage: str,
    missing: Callable[[str], NoReturn],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Core, Core]]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "database":
        yield from _cores(server, folder, storage, "database")
    else:
        with nessie(folder, storage, missing) as catalog:
            yield from _cores(server, folder, storage, catalog)


def _cores(
    server: Server, folder: object, storage: str, catalog: str
) -> Iterator[tuple[Core, Core]]:
    name = "lake_s3" if catalog == "database" else "lake_rest"
    url = server.create_database(name)
    migrate(url)
    settings = load(
        home=folder, database=url, lake=f"s3://{BUCKET}/{name}", lake_s3_endpoint=storage,
        lake_s3_region="us-east-1", lake_catalog=catalog,
    )  # fmt: skip
    cores = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    yield cores
    for each in cores:
        each.close()


def test_a_dedicated_tenant_has_files_and_tables_apart(place: Place, server: Server) -> None:
    apart = f"apart_{place.tenant.number}"
    database, clock, seal = place.core.database, place.core.clock, place.core.seal
    admin, who = tenants.Admin("root", "unused"), Actor("tester", "test")
    url = server.create_database(f"{apart}_{place.core.settings.lake[-4:]}")
    alone = tenants.create_dedicated(database, clock, seal, apart, url, admin, who)
    append(place.core, alone, seen("apart.canary"))
    place.corridor.run(alone.cell)
    place.say(seen("shared"))
    archive = CellArchive(place.system, alone.cell)
    archive.catch_up(latest=True)
    place.archive.catch_up(latest=True)
    names = "SELECT qualified_name FROM assets"
    assert read.query(archive.lake, names).rows == [("apart.canary",)]
    assert ("apart.canary",) not in read.query(place.archive.lake, names).rows
    assert _folder(archive.lake) != _folder(place.archive.lake)
    archive.close()


def _folder(lake: CellLake) -> str:
    """Of a cell's tables: its own, or that of its namespace where the catalog decides."""
    table = lake.find("assets")
    assert table is not None
    files = [task.file.file_path for task in table.scan().plan_files()]
    assert files and all(file.startswith(f"{table.location()}/") for file in files)
    return table.location().rpartition("/")[0]
