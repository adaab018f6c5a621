"""What capture notes of tables that queries make, and what the crawler reads out of it."""

from collections.abc import Iterator

import psycopg
import pytest

from lily.connectors.postgres import Postgres
from lily.sdk import EdgeSeen, Regranted
from lily.store.embedded import Server
from tests.flow.warehouse import Warehouse


@pytest.fixture
def house(server: Server) -> Iterator[Warehouse]:
    made = Warehouse(server)
    yield made
    made.root.close()


def source(house: Warehouse) -> Postgres:
    options = {"url": house.url, "server": "warehouse:5432", "capture": True}
    return Postgres(Postgres.Options.model_validate(options))


def edges(house: Warehouse, table: str) -> set[tuple[str, str]]:
    """What the crawler says that a table's columns are derived from."""
    start = f"postgres://warehouse:5432/{house.database}."
    return {
        (each.from_name.removeprefix(start), each.to_name.removeprefix(start))
        for each in source(house).within(house.name(table)).read(None)
        if isinstance(each, EdgeSeen) and each.relationship_type == "derived-from"
    }


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE s.taken AS SELECT id, email AS mail FROM s.people",
        "SELECT id, email AS mail INTO s.taken FROM s.people",
        "SET search_path = s; CREATE TABLE taken (id, mail) AS SELECT id, email FROM people",
        "SELECT 1; CREATE TABLE s.taken AS WITH x AS (SELECT * FROM s.people)"
        " SELECT id, email AS mail FROM x; SELECT 2",
        "CREATE TABLE s.other AS SELECT id, email AS mail FROM s.people;"
        " ALTER TABLE s.other RENAME TO taken",
    ],
)
def test_a_table_made_by_a_query_has_lineage(house: Warehouse, statement: str) -> None:
    source(house).install()
    house.run(statement)
    assert edges(house, "taken") == {
        ("s.people#id", "s.taken#id"), ("s.people#email", "s.taken#mail"),
    }  # fmt: skip


def test_names_without_a_schema_mean_what_they_meant_to_whoever_ran_it(house: Warehouse) -> None:
    source(house).install()
    house.run(
        "CREATE TABLE public.people (email text)",
        "SET search_path = public, s",
        "CREATE TABLE taken AS SELECT email FROM people",
        "RESET search_path",
    )
    [(path,)] = house.root.execute("SELECT current_setting('search_path')").fetchall()
    assert path == '"$user", public'
    start = f"postgres://warehouse:5432/{house.database}"
    found = [each for each in source(house).within(f"{start}.public.taken").read(None)
             if isinstance(each, EdgeSeen)]  # fmt: skip
    assert [each.from_name for each in found] == [f"{start}.public.people#email"]


def test_a_transaction_keeps_its_search_path(house: Warehouse) -> None:
    source(house).install()
    with house.root.transaction():
        house.run("SET LOCAL search_path = s", "CREATE TABLE here (id int)")
        [(path,)] = house.root.execute("SELECT current_setting('search_path')").fetchall()
        assert path == "s"
    house.run("SET search_path = s", "CREATE TABLE there AS SELECT * FROM here")
    [(path,)] = house.root.execute("SELECT current_setting('search_path')").fetchall()
    assert path == "s"


def test_without_capture_nothing_is_guessed(house: Warehouse) -> None:
    house.run("CREATE TABLE s.taken AS SELECT id, email AS mail FROM s.people")
    assert edges(house, "taken") == set()


def test_changed_rights_are_told_but_not_our_own(house: Warehouse) -> None:
    crawler = source(house)
    crawler.install()
    grant = f"GRANT SELECT ON s.people TO {house.role('analyst')}"
    with psycopg.connect(house.url, application_name="lily enforcer") as ours:
        ours.execute(grant.encode())
    house.run("CREATE TABLE s.mark (id int)")
    told = crawler.changes(None)
    assert next(told) == house.name("mark")
    told.close()  # type: ignore[attr-defined]
    house.run(grant)
    told = crawler.changes(None)
    assert next(told) == Regranted(f"postgres://warehouse:5432/{house.database}")
    told.close()  # type: ignore[attr-defined]
