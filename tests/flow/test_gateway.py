"""The SQL gateway on real engines: what may be seen is seen, and nothing else by any trick."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from httpx import Client, Response
from pglast.parser import ParseError
from pglast.visitors import referenced_relations
from structlog.testing import capture_logs

from lily.access.gateway import Refused, Rewriter, Source, rewrite
from lily.api.app import create_app
from lily.sdk.enforcers import Rule, Rules
from lily.store.embedded import Server
from lily.types import Tenant
from lily.wiring import Core, Services, services, source_folders
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import seen
from tests.flow.attacks import STATEMENTS
from tests.flow.warehouse import Warehouse
from tests.serving import serving

Ask = Callable[..., Response]
TYPES = {"id": "integer", "email": "text", "country": "text"}


class Place:
    """A tenant whose warehouse has a masked column, and somebody who asks."""

    def __init__(
        self, core: Core, system: Core, server: Server, client: Client, wired: Services
    ) -> None:
        self.tenant: Tenant = tenant_with_admin(core)
        self.house = Warehouse(server)
        self.house.run(
            "CREATE TABLE s.orders (id int, person int)",
            "INSERT INTO s.orders VALUES (7, 1)",
            "CREATE FUNCTION s.leak() RETURNS text LANGUAGE sql SECURITY DEFINER"
            " AS 'SELECT string_agg(email, '','') FROM s.people'",
        )
        self._client, self._wired = client, wired
        self.see(self.house.name(), TYPES, system)
        self.see(self.house.name("orders"), {"id": "integer", "person": "integer"}, system)
        self.connection = self.made("postgres", {"url": self.house.url, "server": "warehouse:5432"})

    def see(self, table: str, columns: dict[str, str], system: Core) -> None:
        seen(system, self.tenant, table, asset_type="table")
        for number, (name, kind) in enumerate(columns.items()):
            seen(
                system, self.tenant, f"{table}#{name}", asset_name=name, asset_type="column",
                metadata={"data_type": kind, "ordinal": number},
                tags=["PII"] if name == "email" else [],
            )  # fmt: skip

    def made(self, plugin: str, options: dict[str, Any]) -> str:
        body = {"name": plugin, "plugin": plugin, "uses": ["gateway"], "options": options}
        answer = self.send("/connections", body, "admin")
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def send(self, path: str, body: dict[str, Any], role: str = "viewer") -> Response:
        headers = bearer(minted(self._wired, self.tenant, role, name=f"a {role}"))
        return self._client.post(f"/api/v1{path}", headers=headers, json=body)

    def ask(self, sql: str, path: str = "/sql", **more: Any) -> Response:
        body = {"connection": self.connection, "default_schema": "s", "sql": sql, **more}
        return self.send(path, body)


@pytest.fixture(scope="module")
def place(core: Core, system: Core, server: Server) -> Iterator[Place]:
    wired = services(core)
    with serving(create_app(wired)) as client:
        made = Place(core, system, server, client, wired)
        yield made
        made.house.root.close()


def test_there_are_enough_attacks() -> None:
    assert len(STATEMENTS) > 150 and len(set(STATEMENTS)) == len(STATEMENTS)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_no_statement_shows_what_is_masked(place: Place, sql: str) -> None:
    answer = place.ask(sql)
    assert answer.status_code in (200, 422), answer.text
    for secret in ("a@x.io", "b@x.io", "A@X.IO", "oi.x@a", "a@x", "a#x.io", "starts with a"):
        assert secret not in answer.text.replace(sql, ""), answer.text
    if answer.status_code == 200 and "WHERE email" in sql and "IS NOT" not in sql:
        assert answer.json()["rows"] in ([], [[0]]), answer.text


REFUSED: list[tuple[str, str]] = [
    ("EXPLAIN SELECT 1", "only SELECT"),
    ("DO $$ BEGIN END $$", "only SELECT"),
    ("PREPARE x AS SELECT 1", "only SELECT"),
    ("CALL f()", "only SELECT"),
    ("SET x = 1", "only SELECT"),
    ("SHOW ALL", "only SELECT"),
    ("DECLARE c CURSOR FOR SELECT 1", "only SELECT"),
    ("COPY people TO STDOUT", "only SELECT"),
    ("INSERT INTO orders VALUES (1, 2)", "only SELECT"),
    ("UPDATE orders SET id = 1", "only SELECT"),
    ("DELETE FROM orders", "only SELECT"),
    ("MERGE INTO orders USING people ON true WHEN MATCHED THEN DELETE", "only SELECT"),
    ("CREATE TABLE x (a int)", "only SELECT"),
    ("WITH d AS (DELETE FROM orders RETURNING *) SELECT * FROM d", "DELETE is not allowed"),
    ("VALUES ((SELECT email FROM people))", "only SELECT"),
    ("SELECT * FROM (VALUES ((SELECT email FROM people))) v", "VALUES is not allowed"),
    ("SELECT id INTO x FROM orders", "not allowed"),
    ("SELECT id FROM orders FOR UPDATE", "not allowed"),
    ("SELECT dblink('x', 'y')", "the function dblink"),
    ("SELECT query_to_xml('SELECT 1', true, true, '')", "the function query_to_xml"),
    ("SELECT pg_read_file('x')", "the function pg_read_file"),
    ("SELECT lo_import('x')", "the function lo_import"),
    ("SELECT s.leak()", "a function of a schema"),
    ("SELECT * FROM leak()", "a function in place of a table"),
    ("SELECT * FROM ROWS FROM (leak()) AS t", ""),
    ("SELECT * FROM people TABLESAMPLE SYSTEM (50)", "not allowed"),
    ("SELECT * FROM ONLY people", "not allowed"),
    ("SELECT 1; SELECT 2", "exactly one statement"),
    ("SELECT * FROM nowhere", "there is no table"),
    ("SELECT * FROM other.s.people", "names another database"),
    ("SELECT * FROM 'f.csv'", ""),
    ("SELECT FROM WHERE", "cannot be read"),
]


@pytest.mark.parametrize(("sql", "reason"), REFUSED)
def test_what_cannot_be_shown_to_be_safe_is_refused_with_the_reason(
    place: Place, sql: str, reason: str
) -> None:
    answer = place.ask(sql, "/sql/rewrite")
    assert answer.status_code == 422, answer.text
    assert reason in answer.text


@pytest.mark.parametrize("sql", STATEMENTS)
def test_postgresql_s_own_parser_sees_the_same_tables(place: Place, sql: str) -> None:
    answer = place.ask(sql, "/sql/rewrite")
    if answer.status_code == 422:
        return
    with suppress(ParseError):  # it would not run it at all
        seen = {name if "." in name else f"s.{name}" for name in referenced_relations(sql)}
        assert seen == set(answer.json()["tables"])
    again = referenced_relations(answer.json()["sql"])
    assert {name for name in again if "." in name} == set(answer.json()["tables"])


def test_a_statement_that_takes_too_long_is_ended(place: Place) -> None:
    joined = ", ".join(f"people p{n}" for n in range(30))
    answer = place.ask(f"SELECT count(*) FROM {joined}", seconds=0.2)
    assert answer.status_code == 422
    assert "took longer than 0.2 seconds" in answer.text


def test_what_was_read_before_is_rewritten_by_what_holds_now() -> None:
    rules = [Rules({}), Rules({"email": Rule("mask", "null")})]
    made, sql = Rewriter(most=3), "SELECT email FROM people"
    for held in (*rules, *reversed(rules)):
        source = Source({"email": "text"}, held)
        found = made.rewrite(f" {sql} ;\n", "postgres", "s", lambda *_, s=source: s)
        assert found == rewrite(sql, "postgres", "s", lambda *_, s=source: s)
    for number in range(5):
        made.rewrite(f"SELECT {number} FROM people", "postgres", "s", lambda *_: source)
    with pytest.raises(Refused):
        made.rewrite(sql, "postgres", "s", lambda *_: None)


def test_neither_values_nor_statements_reach_the_log(
    place: Place, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with capture_logs() as told:
        for sql in (
            "SELECT id FROM people WHERE email = 'canary@x.io'",
            "SELECT CAST('canary@x.io' AS int) FROM people",
            "SELECT CAST(country AS int) FROM people",
            "SELECT canary FROM people",
            "SELECT pg_read_file('canary@x.io')",
            "SELECT 'canary@x.io",
        ):
            place.ask(sql)
    out, err = capfd.readouterr()
    logged = f"{told} {out} {err} {caplog.text}"
    for secret in ("canary", "a@x.io", "b@x.io"):
        assert secret not in logged
    assert secret not in place._client.get("/metrics").text


def test_ordinary_questions_are_answered(place: Place) -> None:
    found = place.ask("SELECT * FROM people ORDER BY id").json()
    assert found["columns"] == ["id", "email", "country"]
    assert found["rows"] == [[1, None, "FR"], [2, None, "DE"]]
    assert found["tables"] == ["s.people"]
    joined = place.ask("SELECT o.id, p.country FROM orders o JOIN people p ON p.id = o.person")
    assert joined.json()["rows"] == [[7, "FR"]]
    cut = place.ask("SELECT id FROM people", rows=1).json()
    assert (len(cut["rows"]), cut["truncated"]) == (1, True)


def test_the_answer_comes_as_arrow_too(place: Place) -> None:
    answer = place.ask("SELECT id, country FROM people ORDER BY id", format="arrow")
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pydict() == {"id": [1, 2], "country": ["FR", "DE"]}


def test_the_rewritten_statement_is_shown_and_not_run(place: Place) -> None:
    shown = place.ask("SELECT email FROM people", "/sql/rewrite").json()
    assert 'CAST(NULL AS TEXT) AS "email"' in shown["sql"]
    assert place.ask("DROP TABLE people", "/sql/rewrite").status_code == 422


def test_rows_are_filtered_and_a_denied_table_is_not_there(place: Place) -> None:
    policy = {
        "name": "only France", "effect": "filter", "row_filter": "country = 'FR'",
        "resource": {"under": place.house.name()},
    }  # fmt: skip
    assert place.send("/policies", policy, "admin").status_code == 201
    assert place.ask("SELECT id FROM people").json()["rows"] == [[1]]
    denied = {
        "name": "no orders",
        "effect": "deny",
        "resource": {"asset": place.house.name("orders")},
    }
    assert place.send("/policies", denied, "admin").status_code == 201
    refused = place.ask("SELECT * FROM orders")
    missing = place.ask("SELECT * FROM nowhere")
    assert refused.status_code == missing.status_code == 422
    assert refused.json()["detail"] == missing.json()["detail"].replace("nowhere", "orders")


def test_an_engine_s_error_says_nothing_of_the_data(place: Place) -> None:
    answer = place.ask("SELECT CAST(country AS int) FROM people")
    assert answer.status_code == 422
    assert "FR" not in answer.text and "DE" not in answer.text


def test_duckdb_is_masked_and_cannot_read_files(
    place: Place, core: Core, system: Core, tmp_path: Path
) -> None:
    folder = source_folders(core.settings, place.tenant)[0]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "shop.duckdb"
    with duckdb.connect(str(path)) as conn:
        conn.execute("CREATE TABLE people AS SELECT 1 AS id, 'a@x.io' AS email, 'FR' AS country")
    place.see(
        "duckdb://shop/main.people",
        {"id": "INTEGER", "email": "VARCHAR", "country": "VARCHAR"},
        system,
    )
    id = place.made("duckdb", {"path": str(path)})

    def ask(sql: str) -> Response:
        return place.send("/sql", {"connection": id, "sql": sql})

    assert ask("SELECT * FROM people").json()["rows"] == [[1, None, "FR"]]
    many = ", ".join(f"people p{n}" for n in range(3))
    capped = {"connection": id, "sql": f"SELECT 1 FROM {many}", "rows": 1}
    assert place.send("/sql", capped).json()["truncated"] is False
    for sql in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "ATTACH '/tmp/x.db' AS x",
        "INSTALL httpfs",
        "PRAGMA database_list",
        "SELECT * FROM duckdb_tables()",
        "FROM people SELECT email",
        "SELECT COLUMNS(*) FROM people",
    ):
        answer = ask(sql)
        assert answer.status_code in (200, 422) and "a@x.io" not in answer.text, sql


def test_a_type_that_a_crawler_made_up_does_not_become_sql() -> None:
    source = Source(
        {"email": "text) AS x, email AS leak FROM s.people --"},
        Rules({"email": Rule("mask", "null")}),
    )
    made = rewrite("SELECT * FROM people", "postgres", "s", lambda *_: source)
    assert "leak" not in made.sql


def test_a_statement_that_never_ends_opening_is_refused() -> None:
    with pytest.raises(Refused):
        rewrite("SELECT " + "(" * 3000 + "1" + ")" * 3000, "postgres", "s", lambda *_: None)


def test_an_engine_inside_is_asked_only_where_allowed(place: Place) -> None:
    body = {
        "name": "inside", "plugin": "postgres", "uses": ["gateway"],
        "options": {"url": "postgresql://me@127.0.0.1:1/x"},
    }  # fmt: skip
    made = place.send("/connections", body, "admin").json()
    answer = place.send("/sql", {"connection": made["id"], "sql": "SELECT 1"})
    assert answer.status_code == 422 and "LILY_EGRESS_ALLOW" in answer.text


def test_another_tenant_s_connection_is_not_there(place: Place, core: Core) -> None:
    stranger = tenant_with_admin(core)
    headers = bearer(minted(place._wired, stranger, "viewer"))
    body = {"connection": place.connection, "sql": "SELECT 1"}
    assert place._client.post("/api/v1/sql", headers=headers, json=body).status_code == 404
