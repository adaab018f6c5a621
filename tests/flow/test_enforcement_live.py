"""Story 4 on a running Lily: a tag bites in a real warehouse, wherever the data went since."""

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import psycopg
import pytest

from lily.cli.bench.report import Report
from lily.store.embedded import Server
from lily.workers import capture, crawl, enforce
from tests.flow.people import Person
from tests.flow.warehouse import Warehouse
from tests.live import Live
from tests.looping import looping

PATIENCE = 60.0
LOOPS = (capture.run, crawl.run, enforce.run)
bench = import_module("lily.cli.bench.enforce")


def until(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"
        time.sleep(0.05)


class Story:
    """A warehouse that Lily reads, listens to and enforces in, and an analyst who logs in."""

    def __init__(self, server: Server, api: Person) -> None:
        self.api = api
        self.house = Warehouse(server)
        self.analyst = psycopg.connect(
            self.house.url, user=self.house.role("analyst"), autocommit=True
        )
        self.house.run(
            "ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO PUBLIC",
            f"GRANT SELECT ON s.people TO {self.house.role('analyst')}",
            f"GRANT SELECT (id) ON s.people TO {self.house.role('team')} WITH GRANT OPTION",
            "CREATE VIEW s.contacts AS SELECT id, email AS mail FROM s.people",
            "CREATE TABLE s.copied (id int, address text)",
        )

    def connect(self, **options: Any) -> str:
        made = {
            "name": "warehouse", "plugin": "postgres", "uses": ["source", "enforcer"],
            "options": {"url": self.house.url, "server": "warehouse:5432", "capture": True,
                        "mode": "enforce", **options},
        }  # fmt: skip
        return str(self.send("POST", "/connections", made)["id"])

    def send(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        answer = self.api.client.request(
            method, f"/api/v1{path}", json=body, params=params, headers=self.api.headers
        )
        assert answer.is_success, answer.text
        return answer.json()

    def tag(self, *tags: str, column: str = "people#email") -> None:
        found = self.send("GET", "/metadata/by-name", qualified_name=self.house.name(column))
        self.send("PATCH", f"/metadata/{found['guid']}", {"tags": list(tags)})

    def is_known(self, table: str) -> bool:
        answer = self.api.client.get(
            "/api/v1/metadata/by-name", headers=self.api.headers,
            params={"qualified_name": self.house.name(table)},
        )  # fmt: skip
        return bool(answer.status_code == 200 and answer.json()["asset_type"] != "placeholder")

    def state(self, table: str = "people") -> str | None:
        items = self.send("GET", "/protections")["items"]
        found = [each["state"] for each in items if each["object"] == self.house.name(table)]
        return found[0] if found else None

    def reads(self, column: str, table: str = "people") -> bool:
        """Whether the analyst gets it, logged in as anybody would be."""
        try:
            self.analyst.execute(f"SELECT {column} FROM s.{table}".encode())
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True

    def kinds(self) -> list[str]:
        found = self.send("GET", "/changes", after=0, limit=1000)["items"]
        return [each["kind"] for each in found if each["kind"].startswith("Protection")]


@pytest.fixture
def story(live: Live, server: Server, api: Person) -> Iterator[Story]:
    made = Story(server, api)
    with looping(live.system, *LOOPS):
        yield made
    made.analyst.close()
    made.house.root.close()


def test_nobody_reads_in_the_clear_after_verified_nor_what_is_kept_back(
    live: Live, api: Person
) -> None:
    """Clients hammer while tags flip, and while new copies are made."""
    report = Report("enforce")
    with looping(live.system, *LOOPS):
        with bench.engine(live.core, api.tenant) as place:
            bench.raced(place, report, 10)
        with bench.engine(live.core, api.tenant, hold_until_verified=True) as place:
            bench.held(place, report, 3)
    assert report.met, report.document()


def listens(story: Story) -> bool:
    found = story.house.root.execute(
        "SELECT FROM pg_stat_activity WHERE application_name = 'lily capture'"
        " AND query LIKE '%lily_capture.event%' AND datname = current_database()"
    )
    return found.fetchone() is not None


def test_a_tag_bites_follows_the_data_heals_and_lets_go(story: Story) -> None:
    house, tables = story.house, ("people", "contacts", "copied")
    id = story.connect()
    until(lambda: listens(story), "capture")
    story.send("POST", f"/connections/{id}/run")
    until(lambda: all(map(story.is_known, tables)), "the first crawl")
    until(lambda: story.is_known("contacts#mail"), "its columns")
    sql = "INSERT INTO s.copied (id, address) SELECT id, lower(email) FROM s.people"
    story.send("POST", "/lineage/sql", {"sql": sql, "connection": id})
    before = {table: house.rights(f"s.{table}") for table in tables}
    assert story.reads("email") and story.reads("mail", "contacts")
    story.tag("PII")
    until(lambda: story.state() == "verified", "verified")
    assert (story.reads("email"), story.reads("id"), story.reads("*")) == (False, True, False)
    until(lambda: story.state("contacts") == "verified", "a view, known by its definition")
    assert (story.reads("mail", "contacts"), story.reads("id", "contacts")) == (False, True)
    until(lambda: story.state("copied") == "verified", "a copy, known by posted SQL")
    assert (story.reads("address", "copied"), story.reads("id", "copied")) == (False, True)
    house.run(
        "CREATE VIEW s.later AS SELECT upper(email) AS loud, country FROM s.people",
        "SET search_path = s; CREATE TABLE taken AS SELECT p.* FROM people p WHERE id > 0",
    )
    until(lambda: not story.reads("loud", "later"), "a view made since")
    until(lambda: not story.reads("email", "taken"), "a table made since")
    assert story.reads("country", "later") and story.reads("country", "taken")
    until(lambda: story.state("taken") == story.state("later") == "verified", "both verified")
    house.run(f"GRANT SELECT ON s.people TO {house.role('analyst')}")
    until(lambda: not story.reads("email"), "healed")
    until(lambda: "ProtectionDrifted" in story.kinds(), "and told")
    story.tag()
    until(lambda: not any(map(story.state, (*tables, "later", "taken"))), "everything released")
    assert {table: house.rights(f"s.{table}") for table in tables} == before
    assert story.reads("email", "taken") and story.reads("loud", "later")
