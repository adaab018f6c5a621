"""What Trino's OPA plug-in asks, literally, and what it is answered."""

import re
from typing import Any

import pytest
from httpx import Client, Response

from lily.errors import Unavailable
from lily.types import Tenant
from lily.wiring import Core, Services
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import seen
from tests.waiting import until

PLACE = "postgres://warehouse:5432/shop"
TABLE = f"{PLACE}.public.people"
COLUMNS = {"id": "integer", "email": "text", "born": "date", "country": "text"}


class Trino:
    """Speaks as the plug-in does."""

    def __init__(self, core: Core, system: Core, wired: Services, client: Client) -> None:
        self.tenant: Tenant = tenant_with_admin(core)
        self._system, self._client = system, client
        self._admin = bearer(minted(wired, self.tenant, "admin"))
        seen(system, self.tenant, TABLE, asset_type="table")
        self.tag("PII", "email")
        body = {
            "name": "trino", "plugin": "trino", "uses": ["engine"],
            "options": {"catalogs": {"pg": PLACE}},
        }  # fmt: skip
        made = client.post("/api/v1/connections", headers=self._admin, json=body)
        assert made.status_code == 201, made.text
        self.address = made.json()["webhook_url"].partition("/engine/")[2]

    def tag(self, tag: str, *tagged: str) -> None:
        for name, kind in COLUMNS.items():
            seen(
                self._system, self.tenant, f"{TABLE}#{name}", asset_type="column",
                metadata={"data_type": kind}, tags=[tag] if name in tagged else [],
            )  # fmt: skip

    def policy(self, **fields: Any) -> None:
        body = {"name": "p", **fields}
        answer = self._client.post("/api/v1/policies", headers=self._admin, json=body)
        assert answer.status_code == 201, answer.text

    def send(
        self, question: str, action: dict[str, Any], user: str = "ana", *groups: str
    ) -> Response:
        identity = {"user": user, "groups": list(groups)}
        stack = {"trinoVersion": "476"}
        context = {"identity": identity, "queryId": "q_1", "softwareStack": stack}
        body = {"input": {"context": context, "action": action}}
        return self._client.post(f"/engine/{self.address}/{question}", json=body)

    def ask(self, question: str, action: dict[str, Any], user: str = "ana", *groups: str) -> Any:
        answer = self.send(question, action, user, *groups)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    def selects(
        self, *columns: str, table: str = "people", catalog: str = "pg", **more: str
    ) -> bool:
        named = {"catalogName": catalog, "schemaName": "public", "tableName": table, **more}
        action = {
            "operation": "SelectFromColumns",
            "resource": {"table": {**named, "columns": list(columns)}},
        }
        return bool(self.ask("allow", action))

    def masks(self, user: str = "ana", *groups: str) -> dict[str, str]:
        types = {"id": "integer", "email": "varchar", "born": "date", "country": "varchar(2)"}
        columns = [
            {"column": {"catalogName": "pg", "schemaName": "public", "tableName": "people",
                        "columnName": name, "columnType": types[name]}}
            for name in types
        ]  # fmt: skip
        action = {"operation": "GetColumnMask", "filterResources": columns}
        found = self.ask("batchColumnMasks", action, user, *groups)
        names = list(types)
        return {names[each["index"]]: each["viewExpression"]["expression"] for each in found}


@pytest.fixture
def trino(core: Core, system: Core, wired: Services, client: Client) -> Trino:
    return Trino(core, system, wired, client)


def test_a_tagged_column_is_masked_until_the_tag_is_gone(trino: Trino) -> None:
    assert trino.masks() == {"email": "CAST(NULL AS VARCHAR)"}
    assert trino.masks("rita", "pii_reader") == {}
    assert trino.selects("id", "email")
    trino.tag("none")
    until(lambda: trino.masks() == {}, seconds=2)
    trino.tag("PII", "email", "born")
    until(lambda: trino.masks().keys() == {"email", "born"}, seconds=2)
    assert trino.masks()["born"] == "CAST(NULL AS DATE)"


def test_each_kind_of_mask_has_the_type_of_its_column(trino: Trino) -> None:
    trino.tag("secret", "email", "born", "id", "country")
    for kind, column in (("hash", "email"), ("year", "born"), ("partial", "country")):
        resource = {"asset": f"{TABLE}#{column}"}
        trino.policy(effect="mask", mask=kind, resource=resource)
    until(lambda: len(trino.masks()) == 3, seconds=2)
    assert trino.masks() == {
        "email": 'CAST(lower(to_hex(sha256(to_utf8(CAST("email" AS varchar))))) AS VARCHAR)',
        "born": "CAST(date_trunc('year', \"born\") AS DATE)",
        "country": "CAST(substr(CAST(\"country\" AS varchar), 1, 1) || '***' AS VARCHAR(2))",
    }


def test_what_is_denied_cannot_be_selected_or_listed(trino: Trino) -> None:
    trino.policy(effect="deny", resource={"asset": f"{TABLE}#email"}, subject={"group": "outside"})
    listed = {"catalogName": "pg", "schemaName": "public", "tableName": "people"}
    columns = {**listed, "columns": ["id", "email", "country"]}
    action = {"operation": "FilterColumns", "filterResources": [{"table": columns}]}
    until(lambda: trino.ask("batch", action, "joe", "outside") == [0, 2], seconds=2)
    assert trino.ask("batch", action, "ana") == [0, 1, 2]
    select = {"operation": "SelectFromColumns", "resource": {"table": columns}}
    assert trino.ask("allow", select, "joe", "outside") is False
    assert trino.ask("allow", select, "ana") is True
    trino.policy(effect="deny", resource={"under": TABLE}, subject={"user": "eve"})
    tables = {"operation": "FilterTables", "filterResources": [{"table": listed}]}
    until(lambda: trino.ask("batch", tables, "eve") == [], seconds=2)
    assert trino.ask("batch", tables, "ana") == [0]


def test_rows_are_filtered(trino: Trino) -> None:
    named = {"catalogName": "pg", "schemaName": "public", "tableName": "people"}
    action = {"operation": "GetRowFilters", "resource": {"table": named}}
    assert trino.ask("rowFilters", action) == []
    trino.policy(effect="filter", row_filter="country = 'FR'", resource={"under": TABLE})
    wanted = [{"expression": "country = 'FR'"}]
    until(lambda: trino.ask("rowFilters", action) == wanted, seconds=2)


def test_what_is_not_known_in_a_governed_catalog_is_held_back(trino: Trino) -> None:
    assert not trino.selects("id", table="just_made")
    assert not trino.selects("id", "just_added")
    assert trino.selects("anything", table="nation", catalog="tpch")
    assert trino.selects("table_name", table="tables", schemaName="information_schema")


@pytest.mark.parametrize(
    ("operation", "resource", "allowed"),
    [
        ("ExecuteQuery", None, True),
        ("AccessCatalog", {"catalog": {"name": "pg"}}, True),
        ("ShowSchemas", {"catalog": {"name": "pg"}}, True),
        ("ExecuteFunction", {"function": {"catalogName": "pg", "schemaName": "system",
                                          "functionName": "query"}}, False),
        ("ExecuteFunction", {"function": {"catalogName": "system", "schemaName": "builtin",
                                          "functionName": "abs"}}, True),
        ("ImpersonateUser", {"user": {"user": "root"}}, False),
        ("ViewQueryOwnedBy", {"user": {"user": "ana"}}, True),
        ("ViewQueryOwnedBy", {"user": {"user": "ben"}}, False),
        ("ReadSystemInformation", None, False),
        ("SomethingNew", {"table": {"catalogName": "pg", "schemaName": "public",
                                    "tableName": "people"}}, False),
        ("CreateViewWithSelectFromColumns",
         {"table": {"catalogName": "pg", "schemaName": "public", "tableName": "people",
                    "columns": ["email"]}}, False),
        ("CreateViewWithSelectFromColumns",
         {"table": {"catalogName": "pg", "schemaName": "public", "tableName": "people",
                    "columns": ["id"]}}, True),
        ("InsertIntoTable", {"table": {"catalogName": "pg", "schemaName": "public",
                                       "tableName": "people"}}, True),
    ],
)  # fmt: skip
def test_every_other_operation_has_its_answer(
    trino: Trino, operation: str, resource: dict[str, Any] | None, allowed: bool
) -> None:
    action = {"operation": operation, **({"resource": resource} if resource else {})}
    assert trino.ask("allow", action) is allowed


def matching(rules: list[dict[str, Any]], user: str, *groups: str) -> dict[str, Any]:
    """The rule that Trino would take: the first whose patterns all match."""

    def fits(rule: dict[str, Any], name: str, value: str) -> bool:
        return name not in rule or re.fullmatch(rule[name], value) is not None

    place = {"catalog": "pg", "schema": "public", "table": "people", "user": user}
    for rule in rules:
        if all(fits(rule, name, value) for name, value in place.items()) and (
            "group" not in rule or any(fits(rule, "group", group) for group in groups)
        ):
            return rule
    raise AssertionError("no rule matches")


def test_the_file_of_rules_says_the_same_first_match_first(trino: Trino) -> None:
    def fetched() -> list[dict[str, Any]]:
        answer = trino._client.get(f"/engine/{trino.address}/rules")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["tables"]
        return found

    masked = matching(fetched(), "ana")
    assert [each["name"] for each in masked["columns"]] == ["email"]
    assert "columns" not in matching(fetched(), "rita", "pii_reader")
    assert fetched()[-2:] == [
        {"catalog": "pg", "privileges": []},
        {"privileges": ["SELECT", "INSERT", "DELETE", "UPDATE", "OWNERSHIP", "GRANT_SELECT"]},
    ]
    trino.policy(effect="deny", resource={"asset": f"{TABLE}#born"}, subject={"group": "a.b"})
    trino.policy(effect="deny", resource={"asset": f"{TABLE}#id"}, subject={"group": "c"})
    trino.policy(effect="filter", row_filter="country = 'FR'", resource={"under": TABLE},
                 subject={"user": "eve"})  # fmt: skip
    until(lambda: "filter" in matching(fetched(), "eve"), seconds=3)
    rules = fetched()
    assert "filter" not in matching(rules, "ana")
    hidden = [each["name"] for each in matching(rules, "joe", "a.b")["columns"]
              if each.get("allow") is False]  # fmt: skip
    assert hidden == ["born", "id"]  # of both groups, since a rule knows only one
    assert matching(rules, "joe", "axb") == matching(rules, "joe")
    both = matching(rules, "eve", "c")
    assert both["filter"] == "(country = 'FR')" and len(both["columns"]) == 3
    trino.policy(effect="deny", resource={"asset": TABLE}, subject={"user": "max"})
    until(lambda: matching(fetched(), "max")["privileges"] == [], seconds=3)


def test_a_wrong_address_or_question_is_not_there(trino: Trino) -> None:
    action = {"operation": "ExecuteQuery"}
    good = trino.address
    for address in ("trino/1-guess", "trino/x", f"postgres/{good.partition('/')[2]}"):
        trino.address = address
        assert trino.send("allow", action).status_code == 404
    trino.address = good
    assert trino.send("nothing", action).status_code == 404
    assert trino.send("allow", action, "").status_code == 422


def test_nothing_is_answered_when_the_state_is_unknown(
    trino: Trino, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Tenant) -> Any:
        raise Unavailable("gone")

    monkeypatch.setattr(core.database, "whole", away)
    for patience in ("FRESH", "STALE"):
        monkeypatch.setattr(f"lily.store.guard.{patience}", 0.0)
    assert trino.send("allow", {"operation": "ExecuteQuery"}).status_code == 503
