"""Policies and decisions over HTTP, on a real store, with two processes' worth of memory."""

from collections.abc import Callable
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from httpx import Client, Response

from lily.access.model import Principal, Situation
from lily.errors import Unavailable
from lily.store.guard import STALE, Guard, Question
from lily.types import Tenant
from lily.wiring import Core, Services
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import seen
from tests.flow.lineage import join, tell
from tests.waiting import until

TABLE = "pg/shop.people"
EMAIL = f"{TABLE}#email"
Ask = Callable[..., Response]


@pytest.fixture
def tenant(core: Core, system: Core) -> Tenant:
    made = tenant_with_admin(core)
    seen(system, made, "pg/shop", asset_type="schema")
    seen(system, made, TABLE, asset_type="table", parent_id="pg/shop")
    seen(system, made, EMAIL, asset_type="column", metadata={"data_type": "text"}, tags=["PII"])
    seen(system, made, f"{TABLE}#id", asset_type="column", metadata={"data_type": "integer"})
    return made


@pytest.fixture
def ask(wired: Services, client: Client, tenant: Tenant) -> Ask:
    def call(method: str, path: str, role: str = "admin", **more: Any) -> Response:
        headers = bearer(minted(wired, tenant, role, name=role)) | more.pop("headers", {})
        return client.request(method, f"/api/v1{path}", headers=headers, **more)

    return call


def decision(ask: Ask, user: str, asset: str = EMAIL, **more: Any) -> str:
    body = {"principal": user, "asset": asset, **more}
    answer = ask("POST", "/access/check", json=body)
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["decision"]
    return found


def soon(ask: Ask, user: str, wanted: str, asset: str = EMAIL) -> None:
    until(lambda: decision(ask, user, asset) == wanted, seconds=STALE)


def policy(ask: Ask, **fields: Any) -> dict[str, Any]:
    body = {"name": "p", "effect": "deny", "resource": {"tag": "PII"}, **fields}
    answer = ask("POST", "/policies", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_a_new_tenant_masks_what_is_personal_and_lets_the_rest_be_read(ask: Ask) -> None:
    assert decision(ask, "ana") == "mask"
    assert decision(ask, "ana", f"{TABLE}#id") == "allow"
    assert decision(ask, "ana", "nowhere") == "deny"
    assert decision(ask, "ana", f"{TABLE}#id", action="WRITE") == "deny"
    names = [each["name"] for each in ask("GET", "/policies").json()["items"]]
    assert sorted(names) == [
        "Editors write", "Everybody reads", "GDPR is masked", "PII is masked", "Stewards delete",
        "Stewards read",
    ]  # fmt: skip


def test_a_member_of_an_exempt_group_sees_it_until_the_membership_ends(ask: Ask) -> None:
    assert decision(ask, "rita") == "mask"
    strange = ask("POST", "/groups", json={"name": "größe/ ☃"})
    assert strange.headers["location"].isascii()
    assert ask("GET", strange.headers["location"].removeprefix("/api/v1")).status_code == 200
    made = ask("POST", "/groups", json={"name": "pii_reader", "members": ["rita"]})
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    soon(ask, "rita", "allow")
    named = {"user": "zoe", "groups": ["pii_reader"]}
    assert (
        ask("POST", "/access/check", json={"principal": named, "asset": EMAIL}).json()["decision"]
        == "allow"
    )
    assert ask("PATCH", "/groups/pii_reader", json={"members": []}).status_code == 200
    soon(ask, "rita", "mask")
    assert ask("POST", "/groups", json={"name": "pii_reader"}).status_code == 409
    assert ask("POST", "/roles", json={"name": "admin"}).status_code == 422


def test_a_policy_holds_in_every_process_within_two_seconds(
    ask: Ask, core: Core, tenant: Tenant
) -> None:
    other = Guard(core.database)
    asked = [Question(Principal("ana"), "READ", other.locate(tenant, [EMAIL])[0])]

    def elsewhere() -> str:
        return other.check(tenant, asked, Situation(core.clock.now()))[0].effect

    assert (decision(ask, "ana"), elsewhere()) == ("mask", "mask")
    made = policy(ask, subject={"user": "ana"})
    until(lambda: elsewhere() == "deny", seconds=STALE)
    soon(ask, "ana", "deny")
    assert ask("DELETE", f"/policies/{made['policy_id']}").status_code == 204
    until(lambda: elsewhere() == "mask", seconds=STALE)


def test_a_tag_that_comes_or_goes_changes_the_decision(
    ask: Ask, system: Core, tenant: Tenant
) -> None:
    assert decision(ask, "ana", f"{TABLE}#id") == "allow"
    seen(system, tenant, TABLE, asset_type="table", parent_id="pg/shop", tags=["GDPR"])
    soon(ask, "ana", "mask", f"{TABLE}#id")  # inherited from its table
    seen(system, tenant, TABLE, asset_type="table", parent_id="pg/shop")
    soon(ask, "ana", "allow", f"{TABLE}#id")


def test_a_policy_under_a_container_reaches_everything_below_it(ask: Ask) -> None:
    policy(ask, subject={"user": "bob"}, resource={"under": "pg/shop"})
    soon(ask, "bob", "deny")
    soon(ask, "bob", "deny", TABLE)
    assert decision(ask, "ana", TABLE) == "allow"


def test_nothing_is_allowed_when_the_policies_cannot_be_confirmed(
    core: Core, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = Guard(core.database)
    asked = [Question(Principal("ana"), "READ", guard.locate(tenant, [TABLE])[0])]
    situation = Situation(core.clock.now())
    assert guard.check(tenant, asked, situation)[0].effect == "allow"

    def away(_: Tenant) -> Any:
        raise Unavailable("gone")

    monkeypatch.setattr(core.database, "whole", away)
    later = monotonic() + STALE + 0.1
    monkeypatch.setattr("lily.store.guard.monotonic", lambda: later)
    with pytest.raises(Unavailable, match="nothing is allowed"):
        guard.check(tenant, asked, situation)


def test_a_built_in_policy_can_be_changed_and_deleted(ask: Ask) -> None:
    items = ask("GET", "/policies").json()["items"]
    pii = next(each for each in items if each["name"] == "PII is masked")
    reads = next(each for each in items if each["name"] == "Everybody reads")
    body = {"name": "PII is hashed", "effect": "mask", "resource": {"tag": "PII"}, "mask": "hash"}
    changed = ask("PUT", f"/policies/{pii['policy_id']}", json=body, headers={"If-Match": '"1"'})
    assert (changed.status_code, changed.json()["revision"]) == (200, 2)
    stale = ask("PUT", f"/policies/{pii['policy_id']}", json=body, headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    assert ask("DELETE", f"/policies/{reads['policy_id']}").status_code == 204
    assert ask("GET", f"/policies/{reads['policy_id']}").status_code == 404
    soon(ask, "ana", "deny", TABLE)
    assert len(ask("GET", "/policies").json()["items"]) == 5


def test_the_document_s_own_row_is_a_permission(ask: Ask) -> None:
    everybody = next(
        each
        for each in ask("GET", "/policies").json()["items"]
        if each["name"] == "Everybody reads"
    )
    ask("DELETE", f"/policies/{everybody['policy_id']}")
    row = {"asset_id": TABLE, "user_id": "ana", "access_type": "READ", "conditions": {}}
    made = ask("POST", "/metadata/access-control", json=row)
    assert made.status_code == 201, made.text
    soon(ask, "ben", "deny", TABLE)
    soon(ask, "ana", "allow", TABLE)
    shown = ask("GET", f"/metadata/access-control/{TABLE.replace('/', '%2F')}").json()
    mine = next(each for each in shown["items"] if each["policy_id"] == made.json()["policy_id"])
    assert (mine["subject"], mine["access_type"]) == ([{"user": "ana"}], "READ")
    assert ask("DELETE", f"/policies/{mine['policy_id']}").status_code == 204
    soon(ask, "ana", "deny", TABLE)
    strange = {**row, "conditions": {"moon": "full"}}
    assert ask("POST", "/metadata/access-control", json=strange).status_code == 201
    soon(ask, "ana", "deny", TABLE)


X = {"kind": "constant", "value": "x"}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"effect": "mask"}, "mask"),
    ({"effect": "mask", "mask": "partial", "resource": {"asset": f"{TABLE}#id"}}, "mask"),
    ({"effect": "mask", "mask": X, "resource": {"asset": f"{TABLE}#id"}}, "mask"),
    ({"effect": "deny", "mask": "null"}, "mask"),
    ({"effect": "filter"}, "row_filter"),
    ({"effect": "filter", "row_filter": "country ="}, "row_filter"),
    ({"effect": "filter", "row_filter": "1 = (SELECT 1)"}, "row_filter"),
    ({"effect": "filter", "row_filter": "true; DROP TABLE people"}, "row_filter"),
    ({"effect": "filter", "row_filter": "pg_read_file('x') = 'y'"}, "row_filter"),
    ({"effect": "allow", "row_filter": "a = 1"}, "row_filter"),
    ({"resource": {"asset": "nowhere"}}, "resource.asset"),
    ({"resource": {"under": "nowhere"}}, "resource.under"),
    ({"resource": {}}, "resource"),
    ({"subject": {"user": "a", "role": "b"}}, "subject"),
    ({"subject": []}, "subject"),
    ({"conditions": {"time_of_day": {"from": "nine"}}}, "conditions"),
    ({"effect": "hide"}, "effect"),
    ({"access_type": "LOOK"}, "access_type"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "field"), BAD)
def test_a_policy_that_cannot_be_carried_out_is_refused(
    ask: Ask, fields: dict[str, Any], field: str
) -> None:
    body = {"name": "p", "effect": "deny", "resource": {"tag": "PII"}, **fields}
    answer = ask("POST", "/policies", json=body)
    assert answer.status_code == 422, answer.text
    assert any(each["field"].startswith(field) for each in answer.json()["errors"]), answer.text


def test_a_batch_answers_in_order_and_has_a_limit(ask: Ask) -> None:
    names = [EMAIL, TABLE, "nowhere", f"{TABLE}#id"]
    found = ask("POST", "/access/check", json={"principal": "ana", "assets": names}).json()
    assert [each["decision"] for each in found["items"]] == ["mask", "allow", "deny", "allow"]
    several = [{"principal": "ana", "asset": name} for name in names]
    for body in (several, {"checks": several}):
        assert ask("POST", "/access/check", json=body).json() == found
    assert ask("POST", "/access/check", json={"assets": ["x"] * 1001}).status_code == 413
    assert ask("POST", "/access/check", json={"assets": ["x"], "asset": "y"}).status_code == 422
    assert ask("POST", "/access/check", json={"asset": 7}).status_code == 422
    assert ask("POST", "/access/check", content=b"{").status_code == 400
    assert (
        ask("POST", "/access/check", json={"asset": TABLE, "context": {"network": "x"}}).status_code
        == 422
    )


def test_only_a_steward_asks_for_somebody_else(ask: Ask) -> None:
    body = {"principal": "ana", "asset": TABLE}
    assert ask("POST", "/access/check", "viewer", json=body).status_code == 403
    assert ask("POST", "/access/check", "steward", json=body).status_code == 200
    own = ask("POST", "/access/check", "viewer", json={"asset": TABLE})
    assert own.json()["decision"] == "allow"
    write = ask("POST", "/access/check", "editor", json={"asset": TABLE, "action": "WRITE"})
    assert write.json()["decision"] == "allow"


def test_an_explanation_names_every_policy_and_why_it_counts(ask: Ask) -> None:
    policy(ask, name="ben", subject={"user": "ben"})
    policy(ask, name="office hours", conditions={"purpose": ["audit"]}, effect="allow")
    asked = {"asset": EMAIL, "principal": "ana"}
    until(lambda: len(ask("GET", "/access/explain", params=asked).json().get("policies", ())) == 5)
    said = ask("GET", "/access/explain", params=asked).json()
    outcomes = {each["name"]: each["outcome"] for each in said["policies"]}
    assert outcomes == {
        "Everybody reads": "applies",
        "Stewards read": "another subject",
        "PII is masked": "applies",
        "ben": "another subject",
        "office hours": "condition does not hold",
    }
    assert (said["decision"], said["tags"]) == ("mask", ["PII"])


def test_another_tenant_s_policies_and_assets_are_nowhere(
    ask: Ask, wired: Services, client: Client, core: Core
) -> None:
    made = policy(ask)
    stranger = bearer(minted(wired, tenant_with_admin(core), "admin"))
    for path in (f"/policies/{made['policy_id']}", f"/policies/{uuid4()}"):
        assert client.get(f"/api/v1{path}", headers=stranger).status_code == 404
    body = {"principal": "ana", "asset": EMAIL}
    answer = client.post("/api/v1/access/check", headers=stranger, json=body).json()
    assert (answer["decision"], answer["reason"]) == ("deny", "there is no such asset")


def test_scraper_policies_are_kept_and_deleted(ask: Ask) -> None:
    body = {"scraper_group": "crm", "allowed_columns": ["id", "*#name"]}
    made = ask("POST", "/scraper-policies", json=body).json()
    assert made["allowed_columns"] == body["allowed_columns"]
    path = f"/scraper-policies/{made['policy_id']}"
    assert ask("GET", path).json() == made
    assert ask("GET", "/scraper-policies").json()["items"] == [made]
    assert (ask("DELETE", path).status_code, ask("GET", path).status_code) == (204, 404)


def test_what_is_seen_and_may_not_be_changed_says_so(
    ask: Ask, system: Core, tenant: Tenant
) -> None:
    seen(system, tenant, "pg/shop.open", asset_type="table", parent_id="pg/shop")
    seen(system, tenant, "pg/shop.copy", asset_type="table", parent_id="pg/shop")
    tell(system, tenant, join(TABLE, "pg/shop.open"))
    tell(system, tenant, join("pg/shop.open", "pg/shop.copy"))
    path, open_path = f"/metadata/{TABLE.replace('/', '%2F')}", "/metadata/pg%2Fshop.open"
    edit = {"json": {"description": "x"}}
    assert ask("PATCH", path, "editor", **edit).status_code == 200
    for action in ("WRITE", "DELETE"):
        policy(ask, name="kept", access_type=action, resource={"under": TABLE})
    until(lambda: ask("PATCH", path, "editor", **edit).status_code == 403, seconds=STALE)
    refused = ask("PATCH", path, "editor", **edit)
    assert "policy 'kept' denies it" in refused.json()["detail"]
    for method, at, more in (
        ("PUT", path, edit),
        ("POST", f"{path}/tags", {"json": {"tag": "x"}}),
        ("PUT", f"{path}/tags", {"json": ["x"]}),
        ("POST", f"{path}/terms", {"json": {"term": "x"}}),
        ("DELETE", path, {}),
        ("POST", f"{path}/restore", {}),
        ("POST", f"{path}/purge", {}),
    ):
        assert ask(method, at, **more).status_code == 403, (method, at)
    many = {"query": {"asset_type": ["table"]}, "add_tags": ["many"]}
    assert ask("POST", "/metadata/search/tags", "steward", json=many).status_code == 200
    tags = {name: ask("GET", f"{at}/tags").json()["effective"] for name, at in
            (("kept", path), ("open", open_path))}  # fmt: skip
    assert tags == {"kept": [], "open": ["many"]}
    between = {"from": TABLE, "to": "pg/shop.open"}
    policy(ask, name="no lineage", access_type="WRITE", resource={"asset": "pg/shop.open"})
    until(lambda: ask("PATCH", open_path, "editor", **edit).status_code == 403, seconds=STALE)
    assert ask("DELETE", "/metadata/lineage", "editor", params=between).status_code == 403
    edge = {"from_asset_id": "pg/shop.copy", "to_asset_id": "pg/shop.open"}
    assert ask("POST", "/metadata/lineage", "editor", json=edge).status_code == 403
    between = {"from": "pg/shop.open", "to": "pg/shop.copy"}
    assert ask("DELETE", "/metadata/lineage", "editor", params=between).status_code == 200


def test_what_is_not_seen_is_not_there_whoever_may_change_it(ask: Ask) -> None:
    path = f"/metadata/{TABLE.replace('/', '%2F')}"
    policy(ask, subject={"role": "editor"}, resource={"under": TABLE})
    until(lambda: ask("GET", path, "editor").status_code == 404, seconds=STALE)
    hidden = ask("PATCH", path, "editor", json={"description": "x"})
    missing = ask("PATCH", "/metadata/nowhere", "editor", json={"description": "x"})
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert ask("PATCH", path, "steward", json={"description": "x"}).status_code == 200
