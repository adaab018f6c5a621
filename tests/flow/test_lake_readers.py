"""Tables of the lake that anybody can read, and nobody else's rows."""

import io
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
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
from lily.cli.app import build
from lily.errors import Invalid
from lily.lake import read
from lily.lake.cell import position_of
from lily.lake.upkeep import Rules, upkeep
from lily.store import archive as reads
from lily.store.edits import Edits
from lily.store.embedded import Server
from lily.tags.effective import effective
from lily.wiring import services
from tests.callers import bearer, minted
from tests.conftest import new_tenant
from tests.flow import lake
from tests.flow.lake import (
    ANN,
    TABLES,
    Place,
    a_day,
    assert_level,
    seen,
)
from tests.serving import serving

here, place = lake.here, lake.place


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
        f"jdbc:postgresql://localhost/{place.core.settings.home.name}?currentSchema=lake"
        "&sslmode=disable"
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


def _lines(data: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in data.splitlines()]


def _arrow(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.ipc.open_stream(data).read_all().to_pylist()
    return found


def _parquet(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).to_pylist()
    return found


FORMATS = {"ndjson": _lines, "arrow": _arrow, "parquet": _parquet}
