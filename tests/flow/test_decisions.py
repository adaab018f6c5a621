"""The same rows, answered by the API, PostgreSQL, Trino's protocol and the gateway."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from threading import Event
from typing import Any
from uuid import UUID

import psycopg
import pytest
from httpx import Client, Response

from lily.api.app import create_app
from lily.clock import FrozenClock
from lily.events.observations import AssetSeen
from lily.store import connections, feed, propagation
from lily.store.database import Unit
from lily.store.embedded import Server
from lily.types import Tenant
from lily.wiring import Core, Services, services
from lily.workers import validity
from lily.workers.keeper import Keeper
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import apply
from tests.flow.decisions import FRENCH, GROUPS, PEOPLE, ROLES, STRICTER, TABLE, Row
from tests.flow.warehouse import Warehouse
from tests.serving import serving
from tests.waiting import until

TYPES = {"id": "integer", "email": "text", "born": "date", "country": "text"}
VALUES: dict[str, list[tuple[str, Any]]] = {  # by country
    "email": [("FR", "a@x.io"), ("DE", "b@x.io")],
    "born": [("FR", date(1990, 5, 17)), ("DE", date(1985, 11, 2))],
    "country": [("FR", "FR"), ("DE", "DE")],
}
# What Trino has and PostgreSQL has not, so that its answers can be evaluated here.
TRINO = (
    "CREATE FUNCTION public.to_utf8(text) RETURNS bytea LANGUAGE sql"
    " AS 'SELECT convert_to($1, ''UTF8'')'",
    "CREATE FUNCTION public.to_hex(bytea) RETURNS text LANGUAGE sql"
    " AS 'SELECT upper(encode($1, ''hex''))'",
)
DENIED = "deny"
Outcome = str | list[Any]  # denied, or the values that somebody gets


class Place:
    """Every row of the table, set up once in one warehouse."""

    def __init__(
        self, core: Core, system: Core, server: Server, client: Client, wired: Services
    ) -> None:
        self.core, self.system, self._client, self._wired = core, system, client, wired
        self.tenant: Tenant = tenant_with_admin(core)
        self.house = Warehouse(server)
        self._admin = bearer(minted(wired, self.tenant, "admin"))
        self._callers = {
            name: bearer(minted(wired, self.tenant, "viewer", name=self.person(name)))
            for name in PEOPLE
        }
        self._people()
        apply(system, self.tenant, [each for n in range(len(TABLE)) for each in self._seen(n)])
        for number, row in enumerate(TABLE):
            self._set_up(number, row)
        validity.work(system, Event())
        later = core.clock.now() + timedelta(hours=1)
        validity.work(replace(system, clock=FrozenClock(later)), Event())
        self.postgres = self._connect("postgres", ["gateway", "enforcer"], {
            "url": self.house.url, "server": "warehouse:5432", "mode": "enforce",
        })["id"]  # fmt: skip
        place = self.house.name().removesuffix(".s.people")
        trino = self._connect("trino", ["engine"], {"catalogs": {"pg": place}})
        self._trino = "/engine/" + trino["webhook_url"].partition("/engine/")[2]
        self._enforce()
        until(lambda: self.check(0, TABLE[0]) != DENIED)

    def person(self, name: str) -> str:
        return f"{name}_{self.house.tail}"

    def send(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Response:
        return self._client.post(path, headers=headers or self._admin, json=body)

    def made(self, path: str, body: Any) -> dict[str, Any]:
        answer = self.send(f"/api/v1{path}", body)
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()
        return found

    def _people(self) -> None:
        for name in PEOPLE:
            self.house.run(f"CREATE ROLE {self.person(name)} LOGIN")
        self.house.run(*TRINO)
        for kind, circles in (("groups", GROUPS), ("roles", ROLES)):
            for name, members in circles.items():
                self.made(f"/{kind}", {"name": name, "members": list(map(self.person, members))})
        policies = self._client.get("/api/v1/policies", headers=self._admin).json()["items"]
        reads = next(each for each in policies if each["name"] == "Everybody reads")
        path = f"/api/v1/policies/{reads['policy_id']}"
        assert self._client.delete(path, headers=self._admin).status_code == 204

    def _set_up(self, number: int, row: Row) -> None:
        schema, people = f"r{number}", ", ".join(map(self.person, PEOPLE))
        self.house.run(
            f"CREATE SCHEMA {schema}",
            f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC",
            f"CREATE TABLE {schema}.people (id int, email text, born date, country text)",
            f"ALTER TABLE {schema}.people OWNER TO {self.house.role('owner')}",
            f"INSERT INTO {schema}.people VALUES (1, 'a@x.io', '1990-05-17', 'FR'),"
            " (2, 'b@x.io', '1985-11-02', 'DE')",
            f"GRANT SELECT ON {schema}.people TO {people}",
        )
        names = {"schema": self.schema(number), "table": self.table(number)}
        names["column"] = f"{names['table']}#email"
        tagged = f"{names['table']}#{row.column}"
        for name, tags in (
            (tagged, row.tags), (names["table"], row.table_tags), (names["schema"], row.schema_tags)
        ):  # fmt: skip
            self._tag(name, [self.tag(number, tag) for tag in tags], row.until)
        for each in (*({"effect": "allow", "resource": "under schema"} | a for a in row.allow),
                     *row.policies):  # fmt: skip
            self._policy(number, each, names)

    def _seen(self, number: int) -> Iterator[AssetSeen]:
        schema, table = self.schema(number), self.table(number)
        yield AssetSeen(qualified_name=schema, asset_type="schema")
        yield AssetSeen(qualified_name=table, asset_type="table", parent_id=schema)
        for place, (column, kind) in enumerate(TYPES.items()):
            yield AssetSeen(
                qualified_name=f"{table}#{column}", asset_name=column, asset_type="column",
                metadata={"data_type": kind, "ordinal": place},
            )  # fmt: skip

    def _tag(self, name: str, tags: list[str], hours: int) -> None:
        when: dict[str, str] = {}
        if hours:
            # One that is to have ended ends soon: the clock of whoever ends it is put forward.
            end = self.core.clock.now() + (
                timedelta(hours=hours) if hours > 0 else timedelta(minutes=30)
            )
            when = {"valid_until": end.isoformat()}
        path = name.replace("/", "%2F").replace("#", "%23").replace(":", "%3A")
        for tag in tags:
            self.made(f"/metadata/{path}/tags", {"tag": tag, **when})

    def _policy(self, number: int, said: dict[str, Any], names: dict[str, str]) -> None:
        given = dict(said)
        resource = given.pop("resource")
        kind, _, what = resource.rpartition(" ")
        if resource.startswith("tag:"):
            given["resource"] = {"tag": self.tag(number, resource[4:])}
        else:
            given["resource"] = {kind or "asset": names[what]}
        if "subject" in given:
            several = given["subject"]
            several = several if isinstance(several, list) else [several]
            given["subject"] = [
                {"user": self.person(each["user"])} if "user" in each else each for each in several
            ]
        self.made("/policies", {"name": f"row {number}", **given})

    def _connect(self, plugin: str, uses: list[str], options: dict[str, Any]) -> dict[str, Any]:
        body = {"name": plugin, "plugin": plugin, "uses": uses, "options": options}
        return self.made("/connections", body)

    def _enforce(self) -> None:
        with self.core.database.unit(self.tenant) as unit:
            connection = connections.get(unit, UUID(self.postgres))
        with self.system.database.cell(self.tenant.cell, [self.tenant.number]) as conn:
            end = feed.head(Unit(conn, self.tenant))
            conn.execute(
                "INSERT INTO consumer (name, tenant, position) VALUES (%s, %s, %s)"
                " ON CONFLICT (name, tenant) DO UPDATE SET position = excluded.position",
                [propagation.CONSUMER, self.tenant.number, end],
            )
        keeper = Keeper(self.system, self.tenant, connection)
        while keeper.step():
            if keeper.position >= end:
                break
        keeper.close()

    def tag(self, number: int, tag: str) -> str:
        return f"{tag}{number}"

    def schema(self, number: int) -> str:
        return self.house.name().replace(".s.people", f".r{number}")

    def table(self, number: int) -> str:
        return f"{self.schema(number)}.people"

    # Who answers

    def check(self, number: int, row: Row) -> Outcome:
        """Somebody who reads a column reads its table, too."""
        names = [self.table(number), *(f"{self.table(number)}#{each}" for each in TYPES)]
        body = {"principal": self.person(row.who), "assets": names, "context": row.context}
        items = self.made("/access/check", body)["items"]
        by_name = {each["asset"]: each for each in items}
        column = by_name[f"{self.table(number)}#{row.column}"]
        if DENIED in (by_name[self.table(number)]["decision"], column["decision"]):
            return DENIED
        kind = column["mask"]["kind"] if column["decision"] == "mask" else "clear"
        conditions = {each for item in items for each in item.get("filters", ())}
        which = "all" if not conditions else "some" if conditions == {FRENCH} else "none"
        return values(row.column, kind, which)

    def in_postgres(self, number: int, row: Row) -> Outcome:
        root = self.house.root
        try:
            with root.transaction(force_rollback=True):
                root.execute(f"SET LOCAL ROLE {self.person(row.who)}")
                found = root.execute(f"SELECT {row.column} FROM r{number}.people").fetchall()
        except psycopg.errors.InsufficientPrivilege:
            return DENIED
        return shown(found)

    def rows_in_postgres(self, number: int, row: Row) -> int | None:
        root = self.house.root
        try:
            with root.transaction(force_rollback=True):
                root.execute(f"SET LOCAL ROLE {self.person(row.who)}")
                return len(root.execute(f"SELECT id FROM r{number}.people").fetchall())
        except psycopg.errors.InsufficientPrivilege:
            return None

    def in_trino(self, number: int, row: Row) -> Outcome:
        """What the plug-in would be answered, evaluated on the same table."""
        table = {"catalogName": "pg", "schemaName": f"r{number}", "tableName": "people"}
        types = {"email": "varchar", "born": "date", "country": "varchar"}
        column = {**table, "columnName": row.column, "columnType": types[row.column]}

        def ask(question: str, operation: str, **more: Any) -> Any:
            context = {"identity": {"user": self.person(row.who), "groups": []}}
            action = {"operation": operation, **more}
            asked = {"input": {"context": context, "action": action}}
            answer = self.send(f"{self._trino}/{question}", asked)
            assert answer.status_code == 200, answer.text
            return answer.json()["result"]

        selected = {"table": {**table, "columns": [row.column]}}
        if not ask("allow", "SelectFromColumns", resource=selected):
            return DENIED
        masks = ask("batchColumnMasks", "GetColumnMask", filterResources=[{"column": column}])
        filters = ask("rowFilters", "GetRowFilters", resource={"table": table})
        value = masks[0]["viewExpression"]["expression"] if masks else row.column
        where = " AND ".join(f"({each['expression']})" for each in filters) or "true"
        statement = f"SELECT {value} FROM r{number}.people WHERE {where}"
        return shown(self.house.root.execute(statement).fetchall())

    def in_gateway(self, number: int, row: Row) -> Outcome:
        body = {
            "connection": self.postgres, "default_schema": f"r{number}",
            "sql": f"SELECT {row.column} FROM people",
        }  # fmt: skip
        answer = self.send("/api/v1/sql", body, self._callers[row.who])
        if answer.status_code == 422:
            return DENIED
        assert answer.status_code == 200, answer.text
        return shown(answer.json()["rows"])


def shown(rows: list[Any]) -> list[Any]:
    return sorted((None if row[0] is None else str(row[0]) for row in rows), key=str)


def values(column: str, kind: str, which: str) -> list[Any]:
    """What is left of a column, by the meaning of each mask."""
    countries = {"all": ("FR", "DE"), "some": ("FR",), "none": ()}[which]
    found = [value for country, value in VALUES[column] if country in countries]
    return shown([(_masked(kind, value),) for value in found])


def _masked(kind: str, value: Any) -> Any:
    return {
        "clear": value,
        "null": None,
        "constant": "***",
        "custom": "custom",
        "partial": f"{str(value)[0]}***",
        "hash": hashlib.sha256(str(value).encode()).hexdigest(),
        "year": value.replace(month=1, day=1) if isinstance(value, date) else value,
    }[kind]


@pytest.fixture(scope="module")
def place(core: Core, system: Core, server: Server) -> Iterator[Place]:
    wired = services(core)
    with serving(create_app(wired)) as client:
        made = Place(core, system, server, client, wired)
        yield made
        made.house.root.close()


def test_the_table_is_long_enough_and_every_engine_as_strict_as_it_says() -> None:
    assert len(TABLE) >= 60
    assert len({row.about for row in TABLE}) == len(TABLE)
    for row in TABLE:
        for engine in ("postgres", "trino", "gateway"):
            stricter = STRICTER.index(row.expected(engine)) >= STRICTER.index(row.want)
            assert stricter, (row.about, engine)


@pytest.mark.parametrize("number", range(len(TABLE)), ids=lambda n: TABLE[n].about)
def test_everybody_answers_alike_or_stricter_as_the_table_says(place: Place, number: int) -> None:
    row = TABLE[number]

    def expected(engine: str) -> Outcome:
        kind = row.expected(engine)
        return DENIED if kind == DENIED else values(row.column, kind, row.rows)

    assert place.check(number, row) == expected("check")
    assert place.in_trino(number, row) == expected("trino")
    assert place.in_gateway(number, row) == expected("gateway")
    assert place.in_postgres(number, row) == expected("postgres")
    if row.want != DENIED and row.expected("postgres") == DENIED and row.rows != "all":
        assert place.rows_in_postgres(number, row) == {"some": 1, "none": 0}[row.rows]
