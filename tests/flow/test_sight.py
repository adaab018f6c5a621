"""What a caller may not see is not there: over every way of reading, counts included."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from httpx import Client, Response

from lily.types import Tenant
from lily.wiring import Core, Services
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import seen
from tests.waiting import until

SECRET, OPEN = "pg/hr.salaries", "pg/shop.orders"
Ask = Callable[..., Response]


@pytest.fixture(scope="module")
def tenant(core: Core, system: Core) -> Tenant:
    made = tenant_with_admin(core)
    for schema in ("pg/hr", "pg/shop"):
        seen(system, made, schema, asset_type="schema")
    for table, tags in ((SECRET, ["payroll"]), (OPEN, [])):
        schema = table.partition(".")[0]
        seen(
            system, made, table, asset_type="table", parent_id=schema, tags=tags,
            asset_id=f"own-{table[3:5]}", description="quarterly ledger",
        )  # fmt: skip
        seen(system, made, f"{table}#amount", asset_type="column", tags=["money"])
    return made


@pytest.fixture(scope="module")
def ask(wired: Services, client: Client, tenant: Tenant) -> Ask:
    def call(role: str, method: str, path: str, **more: Any) -> Response:
        headers = bearer(minted(wired, tenant, role, name=f"a {role}"))
        return client.request(method, f"/api/v1{path}", headers=headers, **more)

    return call


@pytest.fixture(scope="module", autouse=True)
def hidden(ask: Ask) -> None:
    """Viewers and editors may not see anything of `hr`."""
    body = {
        "name": "hr is closed",
        "effect": "deny",
        "subject": [{"role": "viewer"}, {"role": "editor"}],
        "resource": {"under": "pg/hr"},
    }
    assert ask("admin", "POST", "/policies", json=body).status_code == 201
    until(lambda: ask("viewer", "GET", f"/metadata/{quote(SECRET, safe='')}").status_code == 404)


def path(name: str, tail: str = "") -> str:
    return f"/metadata/{quote(name, safe='')}{tail}"


def same_as_nothing(ask: Ask, method: str, name: str, tail: str = "", **more: Any) -> None:
    """A hidden asset answers like one that never was, but for its own name."""
    hidden = ask("editor", method, path(name, tail), **more)
    never = ask("editor", method, path("pg/no.where", tail), **more)
    assert (hidden.status_code, sorted(hidden.headers)) == (
        never.status_code,
        sorted(never.headers),
    )
    for answer in (hidden, never):
        assert answer.status_code == 404, answer.text
    assert hidden.text.replace(quote(name, safe=""), "X").replace(name, "X") == never.text.replace(
        quote("pg/no.where", safe=""), "X"
    ).replace("pg/no.where", "X")


@pytest.mark.parametrize("name", [SECRET, f"{SECRET}#amount", "pg/hr", "own-hr"])
@pytest.mark.parametrize("tail", ["", "/children", "/history", "/sources", "/tags"])
def test_a_hidden_asset_reads_like_one_that_never_was(ask: Ask, name: str, tail: str) -> None:
    same_as_nothing(ask, "GET", name, tail)
    assert ask("admin", "GET", path(name, tail)).status_code == 200


def test_a_hidden_asset_cannot_be_changed(ask: Ask) -> None:
    same_as_nothing(ask, "PATCH", SECRET, json={"description": "mine"})
    same_as_nothing(ask, "PUT", SECRET, json={"description": "mine"})
    assert ask("admin", "GET", path(SECRET)).json()["description"] == "quarterly ledger"


def test_search_counts_and_facets_do_not_know_it(ask: Ask) -> None:
    for query in ({"q": "quarterly ledger"}, {"q": "amount"}, {"tag": "money"}, {"q": "sal"}, {}):
        mine = ask("viewer", "GET", "/metadata/search", params=query).json()
        whole = ask("admin", "GET", "/metadata/search", params=query).json()
        shown = [each for each in whole["items"] if "/hr" not in each["qualified_name"]]
        assert mine["items"] == shown
        assert mine["total"] == len(shown) < whole["total"]
        counted = sum(mine["facets"]["asset_type"].values())
        assert counted == len(shown)
        assert "payroll" not in str(mine)


def test_children_of_what_is_open_are_shown(ask: Ask) -> None:
    found = ask("viewer", "GET", path(OPEN, "/children")).json()["items"]
    assert [each["qualified_name"] for each in found] == [f"{OPEN}#amount"]


def test_the_feed_leaves_out_what_is_hidden_and_goes_on(ask: Ask) -> None:
    mine = ask("viewer", "GET", "/changes", params={"limit": 1000}).json()
    whole = ask("admin", "GET", "/changes", params={"limit": 1000}).json()
    assert "/hr" not in str(mine["items"]) and "/hr" in str(whole["items"])
    assert mine["next"] == whole["next"]
    assert ask("viewer", "GET", "/changes", params={"asset_id": SECRET}).status_code == 404


def test_the_chain_is_verified_whole_whoever_asks(
    ask: Ask, wired: Services, tenant: Tenant
) -> None:
    body = {
        "name": "stewards do not see payroll", "effect": "deny", "subject": {"role": "steward"},
        "resource": {"tag": "payroll"},
    }  # fmt: skip
    made = ask("admin", "POST", "/policies", json=body).json()
    until(lambda: ask("steward", "GET", path(SECRET)).status_code == 404)
    audit = ask("steward", "GET", f"/metadata/audit/{quote(SECRET, safe='')}")
    assert audit.status_code == 404
    assert ask("steward", "GET", "/changes/verify").json()["verified"] is True
    assert ask("steward", "GET", path(f"{SECRET}#amount")).status_code == 404  # inherits the tag
    assert ask("steward", "GET", "/lake/export/assets").status_code == 403
    ask("admin", "DELETE", f"/policies/{made['policy_id']}")
    until(lambda: ask("steward", "GET", path(SECRET)).status_code == 200)


def test_who_is_allowed_only_a_part_sees_only_that_part(ask: Ask) -> None:
    policies = ask("admin", "GET", "/policies").json()["items"]
    reads = next(each for each in policies if each["name"] == "Everybody reads")
    narrow = {
        "name": "Everybody reads the shop", "effect": "allow", "resource": {"under": "pg/shop"}
    }  # fmt: skip
    changed = ask("admin", "PUT", f"/policies/{reads['policy_id']}", json=narrow)
    assert changed.status_code == 200
    until(lambda: ask("viewer", "GET", "/metadata/search").json()["total"] == 3)
    found = ask("viewer", "GET", "/metadata/search").json()
    assert {each["qualified_name"] for each in found["items"]} == {
        "pg/shop", OPEN, f"{OPEN}#amount"
    }  # fmt: skip
    back = {"name": "Everybody reads", "effect": "allow", "resource": "everything"}
    assert ask("steward", "GET", path(SECRET)).status_code == 200  # stewards read everything
    ask("admin", "PUT", f"/policies/{reads['policy_id']}", json=back)
    until(lambda: ask("viewer", "GET", "/metadata/search").json()["total"] > 2)
