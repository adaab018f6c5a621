"""The lake holds what the store holds, once, in tables that anybody can read."""

import io
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from typer.testing import CliRunner

from lily import wiring
from lily.api.app import create_app
from lily.assets.edits import Edit, Who
from lily.assets.model import public
from lily.cli.app import build
from lily.errors import Fenced, Invalid
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.identity.actor import Actor
from lily.lake import read
from lily.lake.cell import position_of
from lily.lake.upkeep import Rules, upkeep
from lily.pipeline.archive import CellArchive
from lily.pipeline.lake import LakeStage
from lily.settings import load
from lily.store import archive as reads
from lily.store import past, tenants, views
from lily.store.edits import Edits
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.store.propagation_tasks import ask_for_all
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core, services
from lily.wiring import core as build_core
from tests.callers import bearer, minted
from tests.conftest import new_tenant
from tests.flow.corridor import Corridor, append
from tests.flow.lineage import join, part
from tests.serving import serving

ANN = Who("ann", "test")


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
    url = server.create_database("lake")
    migrate(url)
    settings = load(home=tmp_path_factory.mktemp("lake"), database=url)
    cores = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    yield cores
    for each in cores:
        each.close()


@pytest.fixture
def place(here: tuple[Core, Core]) -> Iterator[Place]:
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


def test_the_latest_assets_equal_the_store(place: Place) -> None:
    day = random.Random(4)
    edits = Edits(place.core.database, place.core.clock, effective)
    for _ in range(4):
        place.say(*a_day(day))
        place.archive.catch_up(latest=True)
        assert_level(place)
    tables = [a for a in stored(place) if a["lane"] == "core" and not a["is_deleted"]]
    owned = Edit(fields={"asset_owner": "ann"})
    edits.apply(place.tenant, str(tables[0]["guid"]), owned, ANN)
    edits.delete(place.tenant, str(tables[1]["guid"]), ANN)
    edits.purge(place.tenant, str(tables[2]["guid"]), ANN)
    place.archive.catch_up(latest=True)
    assert_level(place)
    tags = place.rows("SELECT guid, tag FROM tags ORDER BY ALL")
    assert tags == sorted((a["guid"], tag) for a in archived(place) for tag in a["tags"])


def test_the_latest_edges_equal_the_store(place: Place) -> None:
    said = [join("db://h/a", f"db://h/b{n}", process="nightly") for n in range(20)]
    append(place.core, place.tenant, *said)
    place.corridor.run()
    place.archive.catch_up(latest=True)
    sql = "SELECT downstream_name, process, is_deleted FROM edges ORDER BY 1"
    wanted = sorted((f"db://h/b{n}", "nightly", False) for n in range(20))
    assert place.rows(sql) == wanted
    append(place.core, place.tenant, part("db://h/a", "db://h/b7"))
    place.corridor.run()
    place.archive.catch_up(latest=True)
    gone = [row for row in place.rows(sql) if row[2]]
    assert gone == [("db://h/b7", "nightly", True)]


def test_what_was_only_seen_again_is_refreshed_too(place: Place) -> None:
    place.say(seen("a"))
    place.archive.catch_up(latest=True)
    place.say(seen("a"))
    place.archive.catch_up(latest=True)
    assert_level(place)


def test_only_slices_that_changed_are_written_again(place: Place) -> None:
    place.say(*(seen(f"t{number}") for number in range(100)))
    place.archive.catch_up(latest=True)
    place.say(seen("t1", description="new"))
    place.archive.catch_up(latest=True)
    table = place.archive.lake.find("assets")
    assert table is not None
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert (summary["added-data-files"], summary["deleted-data-files"]) == ("1", "1")


def test_who_is_hurried_archives_facts_and_leaves_the_latest_for_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lily.pipeline.archive.LATEST_EVERY", 0.0)
    place.say(seen("a"))
    place.archive.catch_up(hurried=True)
    assert place.rows("SELECT count(*) FROM facts") == [(1,)]
    assert archived(place) == []
    monkeypatch.setattr("lily.pipeline.archive.LATEST_PATIENCE", 0.0)  # as if time had gone by
    place.archive.catch_up(hurried=True)
    assert_level(place)


def test_the_latest_waits_until_what_travels_along_lineage_has_arrived(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lily.pipeline.archive.LATEST_EVERY", 0.0)
    place.say(seen("a"))
    with place.system.database.whole(place.tenant) as unit:
        ask_for_all(unit.conn, place.tenant, "test", 1, place.core.clock.now())
    place.archive.catch_up()
    assert place.rows("SELECT count(*) FROM facts") == [(1,)]
    assert archived(place) == []
    with place.system.database.whole(place.tenant) as unit:
        unit.conn.execute("UPDATE propagation_task SET state = 'done'")
    place.archive.catch_up()
    assert_level(place)


def test_history_has_every_version_whole(place: Place) -> None:
    day = random.Random(7)
    known: dict[tuple[str, int], dict[str, Any]] = {}
    for turn in range(6):
        place.say(*a_day(day))
        for asset in stored(place):
            known.setdefault((str(asset["guid"]), asset["version"]), asset)
        if turn % 2:
            place.archive.catch_up()
    rows = place.rows(
        "SELECT guid, version, asset_type, description, tags, metadata, is_deleted"
        " FROM assets_history ORDER BY ALL"
    )
    versions = [(guid, version) for guid, version, *_ in rows]
    assert len(set(versions)) == len(versions), "a version twice"
    newest = {str(asset["guid"]): asset["version"] for asset in stored(place)}
    assert sorted(versions) == sorted(
        (guid, version) for guid, last in newest.items() for version in range(1, last + 1)
    )
    for guid, version, kind, description, tags, metadata, gone in rows:
        if (guid, version) in known:
            asset = known[guid, version]
            assert (kind, description, tags) == (
                asset["asset_type"], asset["description"], asset["tags"],
            )  # fmt: skip
            assert msgspec.json.decode(metadata) == asset["metadata"]
            assert gone == asset["is_deleted"] or asset["lane"] == "fields"


def test_a_field_that_changed_before_it_was_archived_has_its_first_version(place: Place) -> None:
    place.say(seen("t"), seen("t#a", description="one"), seen("t#b"))
    place.archive.catch_up()
    place.say(seen("t#c", description="one"))
    place.say(seen("t#c", description="two"), seen("t#a", description="two"))
    place.say(seen("t#d"))
    place.archive.catch_up()
    rows = place.rows(
        "SELECT qualified_name, version, description FROM assets_history"
        " WHERE lane = 'fields' ORDER BY ALL"
    )
    assert rows == [
        ("t#a", 1, "one"), ("t#a", 2, "two"), ("t#b", 1, None),
        ("t#c", 1, "one"), ("t#c", 2, "two"), ("t#d", 1, None),
    ]  # fmt: skip


def test_small_steps_tell_the_same_history(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "WEIGHT", 3)
    day = random.Random(8)
    for _ in range(4):
        place.say(*a_day(day))
    place.archive.catch_up(latest=True)
    assert_complete(place)


def test_a_field_with_a_date_of_its_own_has_one_first_version(place: Place) -> None:
    born = place.core.clock.now().replace(year=2020)
    place.say(seen("t#a", created_at=born), seen("t#b", created_at=born))
    place.archive.catch_up()
    place.say(seen("t#a", created_at=born, description="x"), seen("t#c", created_at=born))
    place.say(seen("t#c", created_at=born, description="x"))
    place.archive.catch_up()
    rows = place.rows("SELECT qualified_name, version FROM assets_history ORDER BY ALL")
    assert rows == [("t#a", 1), ("t#a", 2), ("t#b", 1), ("t#c", 1), ("t#c", 2)]


def test_history_survives_a_purge_and_a_new_beginning(place: Place) -> None:
    edits = Edits(place.core.database, place.core.clock, effective)
    place.say(seen("t", description="one"))
    place.say(seen("t", description="two"))
    edits.purge(place.tenant, "t", ANN)
    place.say(seen("t", description="again"))
    place.archive.catch_up()
    rows = place.rows("SELECT version, kind, description FROM assets_history ORDER BY position")
    assert rows == [
        (1, "AssetCreated", "one"), (2, "AssetChanged", "two"), (3, "AssetPurged", "two"),
        (1, "AssetCreated", "again"),
    ]  # fmt: skip


def test_facts_and_observations_are_those_of_feed_and_log(place: Place) -> None:
    place.say(*a_day(random.Random(1)))
    place.say(*a_day(random.Random(2)))
    place.archive.catch_up()
    with place.system.database.cell("home", [place.tenant.number]) as conn:
        number = [place.tenant.number]
        facts = conn.execute(
            "SELECT position, kind, payload FROM fact WHERE tenant = %s ORDER BY 1", number
        ).fetchall()
        log = conn.execute(
            'SELECT lane, "offset", value FROM log WHERE tenant = %s ORDER BY 1, 2', number
        ).fetchall()
    assert place.rows("SELECT position, kind, payload FROM facts ORDER BY 1") == facts
    assert place.rows('SELECT lane, "offset", value FROM observations ORDER BY 1, 2') == log


def test_only_what_is_applied_is_archived(place: Place) -> None:
    append(place.core, place.tenant, seen("waits"))
    place.archive.catch_up()
    assert place.rows("SELECT * FROM observations") == []
    place.corridor.run()
    place.archive.catch_up()
    assert place.rows("SELECT key FROM observations") == [("waits",)]


def test_while_large_batches_are_waited_for_the_lake_waits_but_not_for_ever(place: Place) -> None:
    stage = LakeStage(place.system, Event(), pressed=lambda: True)
    place.archive.catch_up()
    place.say(seen("hurry"))
    reached = []
    for number in range(4):
        stage.tick(None, number)  # type: ignore[arg-type]
        reached.append(len(place.rows("SELECT key FROM observations")))
    stage.close()
    assert reached == [0, 0, 0, 1]


def test_a_second_archivist_goes_on_where_the_tables_say(place: Place) -> None:
    place.say(*a_day(random.Random(1)))
    place.archive.catch_up(latest=True)
    before = {name: counted(place, name) for name in ("facts", "assets_history", "observations")}
    other = CellArchive(place.system, "home")
    other.catch_up(latest=True)
    other.close()
    assert before == {name: counted(place, name) for name in before}


DIES = """
import os, signal, sys
from lily.pipeline.archive import CellArchive
from lily.pipeline.lake import LakeStage
from lily.wiring import reopen
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

settings, table, moment = sys.argv[1:]
core = reopen(settings, "lily_system")
kind = SqlCatalog if core.settings.lake_catalog == "database" else RestCatalog
commit = kind.commit_table

def dying(self, which, *given):
    if which.name()[-1] != table:
        return commit(self, which, *given)
    if moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    commit(self, which, *given)
    os.kill(os.getpid(), signal.SIGKILL)

kind.commit_table = dying
CellArchive(core, "home").catch_up(latest=True)
"""


def test_killed_around_its_commits_it_loses_and_doubles_nothing(
    place: Place, tmp_path: Path
) -> None:
    place.say(seen("t0"), seen("t0#a"))
    place.archive.catch_up(latest=True)  # so that the killed one has tables to go on from
    wiring.save(place.system.settings, tmp_path / "settings.json")
    day = random.Random(11)
    for table in TABLES:
        for moment in ("before", "after"):
            place.say(*a_day(day))
            command = [sys.executable, "-c", DIES, str(tmp_path / "settings.json"), table, moment]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert done.returncode == -signal.SIGKILL, done.stderr
    other = CellArchive(place.system, "home")
    other.catch_up(latest=True)
    other.close()
    assert_complete(place)
    assert_level(place)


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


def test_of_two_archivists_at_once_one_loses_and_nothing_is_doubled(place: Place) -> None:
    place.say(seen("a"))
    other = CellArchive(place.system, "home")
    place.archive.catch_up(latest=True)
    other.catch_up(latest=True)
    place.say(*a_day(random.Random(5)))
    place.archive.catch_up(latest=True)
    with pytest.raises(Fenced):
        other.catch_up(latest=True)
    other.catch_up(latest=True)  # it has looked again
    other.close()
    assert_complete(place)


def test_a_dedicated_tenant_has_a_lake_of_its_own(place: Place, server: Server) -> None:
    url = server.create_database("lake_apart")
    database, clock, seal = place.core.database, place.core.clock, place.core.seal
    admin, who = tenants.Admin("root", "unused"), Actor("tester", "test")
    alone = tenants.create_dedicated(database, clock, seal, "alone", url, admin, who)
    append(place.core, alone, seen("canary"))
    place.corridor.run(alone.cell)
    place.say(seen("shared"))
    apart = CellArchive(place.system, alone.cell)
    apart.catch_up(latest=True)
    place.archive.catch_up(latest=True)
    names = "SELECT qualified_name FROM assets"
    assert read.query(apart.lake, names).rows == [("canary",)]
    assert ("canary",) not in read.query(place.archive.lake, names).rows
    apart.close()
    folder = place.core.settings.home / "lake"
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert {path.parts[0] for path in files} == {"home", alone.cell}


def counted(place: Place, table: str) -> int:
    rows = place.rows(f"SELECT count(*) FROM {table}")
    return int(rows[0][0])


def test_an_earlier_snapshot_can_still_be_read(place: Place) -> None:
    place.say(seen("t", description="then"))
    place.archive.catch_up(latest=True)
    then = read.state(place.archive.lake, "assets")
    assert then is not None
    place.say(seen("t", description="now"))
    place.archive.catch_up(latest=True)
    sql = "SELECT description FROM assets"
    assert place.rows(sql) == [("now",)]
    assert place.rows(sql, assets=then.snapshot_id) == [("then",)]


def test_pyiceberg_and_duckdb_read_the_same_rows(place: Place) -> None:
    place.say(*a_day(random.Random(3)))
    place.archive.catch_up(latest=True)
    catalog = load_catalog(
        "lake", type="sql", uri=reads.catalog_url(place.core.database, "home"),
        warehouse=wiring.warehouse(place.core.settings, "home"), init_catalog_tables="false",
    )  # fmt: skip
    table = catalog.load_table("lily.assets_history")
    rows = table.scan(row_filter=f"tenant = {place.tenant.number}").to_arrow()
    catalog.close()
    with duckdb.connect() as link:
        link.register("versions", rows)
        found = link.execute("SELECT guid, version, tags FROM versions ORDER BY ALL").fetchall()
    assert found == place.rows("SELECT guid, version, tags FROM assets_history ORDER BY ALL")
    assert len(found) == rows.num_rows > 0


JARS = sorted((Path(__file__).parents[2] / "jars").glob("*.jar"))
SPARK = """
import json, sys
from pyspark.sql import SparkSession

jars, jdbc, user, warehouse, scratch, snapshot = sys.argv[1:]
catalog = "spark.sql.catalog.lake"
options = {
    "spark.jars": jars, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.local.dir": scratch,
    catalog: "org.apache.iceberg.spark.SparkCatalog", f"{catalog}.type": "jdbc",
    f"{catalog}.uri": jdbc, f"{catalog}.jdbc.user": user, f"{catalog}.warehouse": warehouse,
    f"{catalog}.jdbc.schema-version": "V1", f"{catalog}.cache-enabled": "false",
}
spark = SparkSession.builder.master("local[1]").config(map=options).getOrCreate()
sql = "SELECT guid, version, description, tags FROM lake.lily.assets_history"
sql += " ORDER BY 1, 2, tenant, position"
versions = [tuple(row) for row in spark.sql(sql).collect()]
then = spark.sql(f"SELECT count(*) FROM lake.lily.assets VERSION AS OF {snapshot}").first()[0]
now = spark.sql("SELECT count(*) FROM lake.lily.assets").first()[0]
print(json.dumps({"versions": versions, "then": then, "now": now}))
spark.stop()
"""


@pytest.mark.skipif(not JARS, reason="no jars; `make jars` fetches them")
def test_spark_reads_the_same_tables_with_the_jars(
    place: Place, server: Server, tmp_path: Path
) -> None:
    place.say(*a_day(random.Random(3)))
    place.archive.catch_up(latest=True)
    then = read.state(place.archive.lake, "assets")
    assert then is not None
    place.say(*(seen(f"more.{number}") for number in range(5)))
    place.archive.catch_up(latest=True)
    jdbc = (
        "jdbc:postgresql://localhost/lake?currentSchema=lake&sslmode=disable"
        "&socketFactory=org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg"
        f"&socketFactoryArg={server.socket}/.s.PGSQL.5432"
    )
    warehouse = wiring.warehouse(place.core.settings, "home")
    given = [jdbc, "postgres", warehouse, str(tmp_path / "spark"), str(then.snapshot_id)]
    command = [sys.executable, "-c", SPARK, ",".join(map(str, JARS)), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-4000:]
    found = msgspec.json.decode(done.stdout.splitlines()[-1])
    sql = "SELECT guid, version, description, tags FROM assets_history"
    sql += " ORDER BY 1, 2, tenant, position"
    ours = read.query(place.archive.lake, sql).rows  # Spark saw every tenant
    assert [tuple(row) for row in found["versions"]] == ours
    assert (found["then"], found["now"]) == (then.rows, then.rows + 5)


MERGES = """
import sys
from pathlib import Path
from lily.pipeline.archive import CellArchive
from lily.pipeline.lake import LakeStage
from lily.pipeline.lake import with_jars
from lily.wiring import reopen

settings, scratch, jars = sys.argv[1:]
core = reopen(settings, "lily_system")
spark, writers = with_jars(core, Path(scratch), [Path(jar) for jar in jars.split(",")])
archive = CellArchive(core, "home", writer=writers["home"])
for line in sys.stdin:
    archive.catch_up(latest=True)
    print("level", flush=True)
archive.close()
spark.stop()
core.close()
"""


@pytest.mark.skipif(not JARS, reason="no jars; `make jars` fetches them")
def test_spark_merges_what_differs_into_the_same_tables(
    place: Place, spark_master: str, tmp_path: Path
) -> None:
    day = random.Random(8)
    place.say(*a_day(day))
    settings = place.system.settings.model_copy(update={"spark": spark_master})
    wiring.save(settings, tmp_path / "settings.json")
    given = [str(tmp_path / "settings.json"), str(tmp_path / "spark"), ",".join(map(str, JARS))]
    with (tmp_path / "errors").open("w") as errors, subprocess.Popen(
        [sys.executable, "-c", MERGES, *given], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=errors,
    ) as spark:  # fmt: skip
        assert spark.stdin is not None and spark.stdout is not None
        try:
            for turn in range(3):
                spark.stdin.write("go\n")
                spark.stdin.flush()
                said = spark.stdout.readline()
                assert said == "level\n", (tmp_path / "errors").read_text()[-4000:]
                assert_level(place)
                if turn == 0:
                    edits = Edits(place.core.database, place.core.clock, effective)
                    edits.purge(place.tenant, a_name(place), ANN)
                place.say(*a_day(day))
        finally:
            spark.stdin.close()
            spark.wait(60)
    place.archive.catch_up(latest=True)  # and without Spark it goes on from there
    assert_level(place)


def a_name(place: Place) -> str:
    name: str = place.rows("SELECT qualified_name FROM assets WHERE lane = 'core' ORDER BY 1")[0][0]
    return name


def test_a_query_can_change_nothing_and_reach_no_files(place: Place) -> None:
    place.say(seen("t"))
    place.archive.catch_up()
    for sql in (
        "COPY facts TO '/tmp/lily-stolen.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SET enable_external_access = true",
        "SELECT * FROM nothing",
    ):
        with pytest.raises(Invalid):
            place.rows(sql)


def test_upkeep_joins_files_and_keeps_every_row_and_the_position(place: Place) -> None:
    for number in range(10):
        place.say(seen(f"t{number}"))
        place.archive.catch_up()
    before = place.rows("SELECT guid, version FROM assets_history ORDER BY ALL")
    table = place.archive.lake.find("assets_history")
    assert table is not None
    position, files = position_of(table), len(list(table.scan().plan_files()))
    now = place.core.clock.now()
    done = {each.table: each for each in place.archive.upkeep()}
    assert done["assets_history"].files_joined >= 8
    table.refresh()
    assert len(list(table.scan().plan_files())) < files
    assert position_of(table) == position
    assert place.rows("SELECT guid, version FROM assets_history ORDER BY ALL") == before
    hours = timedelta(hours=2)
    thrifty = Rules(snapshot_days=1e-9, grace=timedelta(0))
    done = {each.table: each for each in upkeep(place.archive.lake, now + hours, thrifty)}
    assert done["assets_history"].snapshots_expired > 0
    assert done["assets_history"].files_removed > 0
    assert place.rows("SELECT guid, version FROM assets_history ORDER BY ALL") == before
    place.say(seen("t1", description="later"))
    place.archive.catch_up(latest=True)
    assert place.rows("SELECT count(*) FROM assets_history") == [(len(before) + 1,)]
    assert_level(place)


def test_old_observations_retire_by_day(place: Place) -> None:
    place.say(seen("t"))
    place.archive.catch_up()
    later = place.core.clock.now().replace(year=2100)
    [done, *_] = upkeep(place.archive.lake, later, Rules(observation_days=30, snapshot_days=99999))
    assert done.table == "observations"
    assert done.rows_retired > 0
    assert place.rows("SELECT * FROM observations") == []
    place.say(seen("u"))
    place.archive.catch_up()
    assert place.rows("SELECT key FROM observations") == [("u",)]


def test_an_export_has_the_rows_of_the_tenant_only(place: Place) -> None:
    stranger = new_tenant(place.core)
    place.say(seen("mine", tags=["PII"]))
    place.say(seen("canary", tags=["PII"]), tenant=stranger)
    place.archive.catch_up(latest=True)
    built = services(place.core)
    with serving(create_app(built)) as client:
        head = bearer(minted(built, place.tenant, "steward"))
        shown = client.get("/api/v1/lake", headers=head).json()
        counted = {each["table"]: each["rows"] for each in shown["items"]}
        assert counted == dict.fromkeys(TABLES, 1) | {"edges": 0}
        assert all(each["lag_seconds"] == 0 for each in shown["items"])
        for table in TABLES:
            for kind, rows in FORMATS.items():
                answer = client.get(f"/api/v1/lake/export/{table}?format={kind}", headers=head)
                assert answer.status_code == 200, answer.text
                assert b"canary" not in answer.content
                found = rows(answer.content)
                assert {row["tenant"] for row in found} == {place.tenant.number}
                assert len(found) == 1
        assert client.get("/api/v1/lake/export/people", headers=head).status_code == 404
        viewer = bearer(minted(built, place.tenant, "viewer"))
        assert client.get("/api/v1/lake", headers=viewer).status_code == 403


def test_the_command_line_lists_queries_and_maintains(place: Place) -> None:
    place.say(seen("shop.people"))
    place.archive.catch_up(latest=True)
    settings = place.core.settings
    where = ["--home", str(settings.home), "--database", settings.database, "--json"]
    who = ["--tenant", place.tenant.name]

    def lily(*line: str) -> Any:
        done = CliRunner().invoke(build(), ["lake", *line, *where])
        assert done.exit_code == 0, done.output
        return msgspec.json.decode(done.stdout)

    assert {each["table"]: each["rows"] for each in lily("tables", *who)} == dict.fromkeys(
        TABLES, 1
    ) | {"tags": 0, "edges": 0}
    sql = "SELECT qualified_name FROM assets"
    assert lily("query", sql, *who) == [{"qualified_name": "shop.people"}]
    assert {each["table"] for each in lily("maintain", *who)} == {*TABLES, "edges"}


TABLES = ("observations", "facts", "assets_history", "assets", "tags")


def _lines(data: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in data.splitlines()]


def _arrow(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.ipc.open_stream(data).read_all().to_pylist()
    return found


def _parquet(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).to_pylist()
    return found


FORMATS = {"ndjson": _lines, "arrow": _arrow, "parquet": _parquet}
