"""A live PostgreSQL schema lands as it is, with differences only, and deletions after the end."""

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from lily import plugins
from lily.assets.model import Asset
from lily.sdk import Source
from lily.sdk.testing import SourceContract
from lily.settings import Settings, load
from lily.store import history, views
from lily.store.embedded import Server
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.apply import read
from tests.flow.corridor import Corridor
from tests.flow.crawling import connect, crawled, waiting

SCHEMA = """
CREATE SCHEMA "my.schema";
CREATE SCHEMA "Ünïcode 日本";
COMMENT ON SCHEMA "my.schema" IS 'dots inside';
CREATE DOMAIN email AS text NOT NULL;
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE people (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name varchar(20) NOT NULL DEFAULT 'nobody',
  mail email, feeling mood, scores numeric(8, 2)[],
  twice text GENERATED ALWAYS AS (lower(name)) STORED,
  UNIQUE (name, mail));
COMMENT ON TABLE people IS 'Everybody.';
COMMENT ON COLUMN people.name IS 'What to call them.';
CREATE TABLE "my.schema"."odd.table#1" (
  "a.b" int, "c#d" int, "100%" int, "%23" int, "with ""some quotes"" in" int, "née" int, " " int,
  person bigint REFERENCES people (id));
CREATE TABLE "my.schema"."odd" ("table#1" int);
CREATE TABLE "Ünïcode 日本"."Tabelle" ("Größe" real);
CREATE TABLE sales (day date NOT NULL, amount int) PARTITION BY RANGE (day);
CREATE TABLE sales_2026 PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE VIEW names AS SELECT id, name FROM people;
CREATE VIEW short_names AS SELECT id, left(name, 3) AS short FROM names;
CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM short_names;
INSERT INTO people (name, mail) SELECT 'p' || n, 'x' FROM generate_series(1, 1234) n;
ANALYZE people;
"""
INFORMATION = """
SELECT table_schema, table_name, column_name, ordinal_position, is_nullable = 'YES', column_default
  FROM information_schema.columns
 WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
"""


@pytest.fixture
def warehouse(server: Server) -> str:
    """A database of its own, with everything that is difficult about names."""
    url = server.create_database(f"ware.house_{uuid4().hex[:6]}")
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(SCHEMA)
    return url


def execute(url: str, sql: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(sql.encode())


def base_of(url: str) -> str:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    return f"postgres://localhost:5432/{str(name).replace('.', '%2E')}"


def assets_of(core: Core, tenant: Tenant) -> dict[str, Asset]:
    with core.database.unit(tenant) as unit:
        rows = unit.conn.execute(
            f"{views.SHOWN} WHERE a.tenant = %s AND a.deleted_by IS NULL", [tenant.number]
        ).fetchall()
    found = [views.shown(row) for row in rows]
    return {asset.qualified_name: asset for asset in found}


def escaped(identifier: str) -> str:
    return identifier.replace("%23", "%2523").replace(".", "%2E").replace("#", "%23")


def name_of(base: str, schema: str, table: str, column: str | None = None) -> str:
    relation = f"{base}.{escaped(schema)}.{escaped(table)}"
    if column is None:
        return relation
    return f"{relation}#{column.replace('%23', '%2523').replace('#', '%23')}"


def test_what_is_stored_equals_information_schema(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, warehouse: str
) -> None:
    connection = connect(core, tenant, "warehouse", "postgres", url=warehouse)
    run = crawled(core, system, tenant, connection)
    assert (run.state, run.error) == ("succeeded", "")
    corridor.run()
    stored, base = assets_of(core, tenant), base_of(warehouse)
    with psycopg.connect(warehouse) as conn:
        columns = conn.execute(INFORMATION).fetchall()
        tables = conn.execute(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        types = conn.execute(
            "SELECT table_schema, table_name, column_name, data_type, character_maximum_length"
            " FROM information_schema.columns WHERE table_schema = 'public'"
        ).fetchall()
    # Materialised views are not in the standard's information schema.
    counted = name_of(base, "public", "counted")
    assert stored[counted].asset_type == "materialized_view"
    wanted = {
        name_of(base, schema, table, column): (ordinal, nullable, default)
        for schema, table, column, ordinal, nullable, default in columns
    }
    found = {
        name: (
            asset.metadata["ordinal"],
            asset.metadata["nullable"],
            asset.metadata.get("default"),
        )
        for name, asset in stored.items()
        if asset.asset_type == "column" and not name.startswith(counted)
    }
    assert found == wanted
    relations = {
        name_of(base, schema, table): "view" if kind == "VIEW" else "table"
        for schema, table, kind in tables
    }
    assert relations == {
        name: asset.asset_type
        for name, asset in stored.items()
        if asset.asset_type in ("table", "view")
    }
    for schema, table, column, kind, length in types:
        said = stored[name_of(base, schema, table, column)].metadata["data_type"]
        if kind not in ("ARRAY", "USER-DEFINED", "text"):
            assert said == (f"{kind}({length})" if length else kind)
    schemas = {name for name, asset in stored.items() if asset.asset_type == "schema"}
    assert schemas == {f"{base}.{s}" for s in ("public", "my%2Eschema", "Ünïcode 日本")}


def test_comments_keys_views_partitions_and_estimates_are_told(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, warehouse: str
) -> None:
    crawled(core, system, tenant, connect(core, tenant, "w", "postgres", url=warehouse))
    corridor.run()
    stored, base = assets_of(core, tenant), base_of(warehouse)
    people = stored[f"{base}.public.people"]
    assert people.description == "Everybody."
    assert people.metadata["primary_key"] == ["id"]
    assert people.metadata["unique_keys"] == [["name", "mail"]]
    assert people.metadata["row_estimate"] == 1200
    assert stored[f"{base}.public.people#name"].description == "What to call them."
    assert stored[f"{base}.public.people#twice"].metadata["generated"] == "lower((name)::text)"
    assert stored[f"{base}.public.people#scores"].metadata["data_type"] == "numeric(8,2)[]"
    odd = stored[name_of(base, "my.schema", "odd.table#1")]
    assert odd.asset_name == "odd.table#1"
    assert odd.metadata["foreign_keys"] == [
        {
            "name": "odd.table#1_person_fkey",
            "columns": ["person"],
            "to": f"{base}.public.people",
            "to_columns": ["id"],
        }
    ]
    short = stored[f"{base}.public.short_names"]
    assert short.metadata["depends_on"] == [f"{base}.public.names"]
    assert "left" in short.metadata["view_definition"].lower()
    part = stored[f"{base}.public.sales_2026"]
    assert part.metadata["partition_of"] == f"{base}.public.sales"
    assert "2026-01-01" in part.metadata["partition_bound"]
    assert stored[f"{base}.public.sales"].metadata["partitioned"] == "RANGE (day)"
    assert part.parent == stored[f"{base}.public"].guid


def edges_of(core: Core, tenant: Tenant) -> set[tuple[str, str, str]]:
    with core.database.unit(tenant) as unit:
        rows = unit.conn.execute(
            "SELECT u.qualified_name, d.qualified_name, e.type FROM live_edge e"
            " JOIN asset u ON u.guid = e.upstream JOIN asset d ON d.guid = e.downstream"
            " WHERE e.tenant = %s",
            [tenant.number],
        ).fetchall()
    return {(up, down, kind) for up, down, kind in rows}


def test_views_and_foreign_keys_become_edges_and_go_with_what_they_joined(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, warehouse: str
) -> None:
    connection = connect(core, tenant, "w", "postgres", url=warehouse)
    first = crawled(core, system, tenant, connection)
    corridor.run()
    base = base_of(warehouse)
    people, names = f"{base}.public.people", f"{base}.public.names"
    found = edges_of(core, tenant)
    assert (people, name_of(base, "my.schema", "odd.table#1"), "references") in found
    assert (people, names, "derived-from") in found
    assert (f"{people}#name", f"{names}#name", "derived-from") in found
    assert (names, f"{base}.public.short_names", "derived-from") in found
    assert first.counts["edges"] > 3
    assert crawled(core, system, tenant, connection).counts["edges"] == 0
    execute(warehouse, "DROP VIEW short_names CASCADE; CREATE VIEW short_names AS SELECT 1 AS one")
    run = crawled(core, system, tenant, connection)
    assert run.counts["edges"] > 0
    corridor.run()
    left = edges_of(core, tenant)
    assert not {edge for edge in left if edge[1].startswith(f"{base}.public.short_names")}
    assert (people, names, "derived-from") in left


def test_a_dropped_column_is_deleted_and_its_history_is_there(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, warehouse: str
) -> None:
    connection = connect(core, tenant, "w", "postgres", url=warehouse)
    crawled(core, system, tenant, connection)
    corridor.run()
    execute(warehouse, "ALTER TABLE people DROP COLUMN feeling, ALTER scores TYPE text")
    run = crawled(core, system, tenant, connection)
    base = f"{base_of(warehouse)}.public.people"
    assert {name: run.counts[name] for name in ("new", "changed", "gone")} == {
        "new": 0,
        "changed": 1,
        "gone": 1,
    }
    corridor.run()
    gone = read(core, tenant, f"{base}#feeling")
    assert gone.deleted_by == "source"
    with core.database.unit(tenant) as unit:
        page, _ = history.versions(unit, gone, history.END, 10)
    assert _plain(page)[0]["kind"] == "AssetDeleted"


def test_an_unchanged_database_sends_nothing_and_makes_no_fact(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, warehouse: str
) -> None:
    connection = connect(core, tenant, "w", "postgres", url=warehouse)
    first = crawled(core, system, tenant, connection)
    assert first.counts["new"] == first.counts["read"] == len(waiting(system, tenant))
    corridor.run()
    again = crawled(core, system, tenant, connection)
    assert again.counts["unchanged"] == again.counts["read"] == first.counts["read"]
    assert waiting(system, tenant) == []


def test_a_subtree_can_be_crawled_alone(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, warehouse: str
) -> None:
    connection = connect(core, tenant, "w", "postgres", url=warehouse)
    crawled(core, system, tenant, connection)
    corridor.run()
    execute(
        warehouse, "DROP TABLE sales; CREATE TABLE people_old (id int); DROP VIEW names CASCADE"
    )
    base = f"{base_of(warehouse)}.public"
    run = crawled(core, system, tenant, connection, f"{base}.sales")
    assert (run.counts["read"], run.counts["gone"]) == (0, 3)
    assert waiting(system, tenant) == [f"{base}.sales", f"{base}.sales#amount", f"{base}.sales#day"]
    run = crawled(core, system, tenant, connection, f"{base}.people")
    assert (run.counts["new"], run.counts["gone"]) == (0, 0)
    run = crawled(core, system, tenant, connection, base)
    assert run.counts["new"] == 2
    assert run.counts["gone"] == 11  # the partition, two views and what depended on them


def test_include_and_exclude_choose_relations(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, warehouse: str
) -> None:
    chosen: dict[str, Any] = {"include": ["public.*"], "exclude": ["public.*names", "*sales*"]}
    connection = connect(core, tenant, "w", "postgres", url=warehouse, **chosen)
    crawled(core, system, tenant, connection)
    base = base_of(warehouse)
    names = [name for name in waiting(system, tenant) if "#" not in name]
    assert names == [base, *(f"{base}.public{each}" for each in ("", ".counted", ".people"))]


def test_lilys_own_database_is_refused(core: Core, system: Core, tenant: Tenant, home: str) -> None:
    connection = connect(core, tenant, "self", "postgres", url=home)
    run = crawled(core, system, tenant, connection)
    assert run.state == "failed" and "Lily's own" in run.error


def test_a_server_inside_is_read_only_where_allowed_and_the_password_stays_hidden(
    core: Core, system: Core, tenant: Tenant, settings: Settings
) -> None:
    url = "postgresql://me:swordfish-7@127.0.0.1:1/x"
    connection = connect(core, tenant, "away", "postgres", url=url)
    refused = crawled(core, system, tenant, connection)
    assert refused.state == "failed" and "LILY_EGRESS_ALLOW" in refused.error
    allowed = load(home=settings.home, database=settings.database, egress_allow=["127.0.0.0/8"])
    run = crawled(
        core, Core(allowed, system.clock, system.seal, system.database), tenant, connection
    )
    assert (run.state, run.attempt) == ("queued", 1)  # it does not answer, and is tried again
    assert "cannot be read" in run.error and "swordfish" not in refused.error + run.error


def test_a_socket_of_this_machine_is_read_only_where_allowed(
    core: Core, system: Core, tenant: Tenant, settings: Settings
) -> None:
    closed = load(home=settings.home, database=settings.database)
    for name, url in (("folder", "postgresql:///x?host=/run/x"), ("default", "postgresql:///x")):
        connection = connect(core, tenant, name, "postgres", url=url)
        run = crawled(
            core, Core(closed, system.clock, system.seal, system.database), tenant, connection
        )
        assert run.state == "failed" and "socket of this machine" in run.error


def _plain(page: list[Any]) -> list[dict[str, Any]]:
    import msgspec

    plain: list[dict[str, Any]] = msgspec.to_builtins(page)
    return plain


class TestPostgresKeepsTheContract(SourceContract):
    @pytest.fixture(autouse=True)
    def reading(self, warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = warehouse
        monkeypatch.setattr("lily.connectors.postgres_catalog.BATCH", 2)  # many cursors

    def make(self) -> Source:
        source: Source = plugins.build("source", "postgres", {"url": self.url})
        return source
