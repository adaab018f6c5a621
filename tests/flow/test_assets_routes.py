"""The routes around one asset, over HTTP."""

from typing import Any
from urllib.parse import quote

import pytest
from httpx import Client, Response

from lily.events.observations import AssetSeen
from lily.types import Tenant
from lily.wiring import Core, Services
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import apply, gone, read, seen

NAME = "postgres://h:1/a.b.c"
STRANGE = ["postgres://h:1/a.b.c#d", "größe/ß ☃", "a%2Fb/c?d=e&f", "with space + plus"]


class Caller:
    """Somebody of a tenant who asks for assets."""

    def __init__(self, wired: Services, client: Client, tenant: Tenant, role: str) -> None:
        self.tenant = tenant
        self._client = client
        self._headers = bearer(minted(wired, tenant, role, name=role))

    def __call__(self, method: str, name: str = "", tail: str = "", **more: Any) -> Response:
        path = f"/api/v1/metadata/{quote(name, safe='')}{tail}"
        headers = {**self._headers, **more.pop("headers", {})}
        return self._client.request(method, path, headers=headers, **more)


@pytest.fixture
def ask(wired: Services, client: Client, core: Core) -> Caller:
    return Caller(wired, client, tenant_with_admin(core), "admin")


def as_role(wired: Services, client: Client, ask: Caller, role: str) -> Caller:
    return Caller(wired, client, ask.tenant, role)


@pytest.mark.parametrize("name", STRANGE)
def test_an_encoded_name_works_in_every_route(system: Core, ask: Caller, name: str) -> None:
    seen(system, ask.tenant, name)
    assert ask("GET", "by-name", params={"qualified_name": name}).json()["qualified_name"] == name
    assert ask("PATCH", name, json={"description": "d"}).json()["description"] == "d"
    assert ask("PUT", name, json={"description": "e"}).json()["description"] == "e"
    for tail in ("/children", "/history", "/sources"):
        assert ask("GET", name, tail).status_code == 200, tail
    assert ask("GET", "audit", f"/{quote(name, safe='')}").status_code == 200
    assert ask("DELETE", name).json()["is_deleted"] is True
    assert ask("POST", name, "/restore").json()["is_deleted"] is False
    assert ask("POST", name, "/purge").status_code == 204
    assert ask("DELETE", name).status_code == 404


def test_an_edit_answers_the_asset_with_its_version_as_etag(system: Core, ask: Caller) -> None:
    seen(system, ask.tenant, NAME, asset_id="own")
    answer = ask("PATCH", "own", json={"description": "d"}, headers={"If-Match": '"1"'})
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    assert answer.json()["asset_id"] == "own"
    stale = ask("PUT", "own", json={"description": "e"}, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.headers["content-type"]) == (412, "application/problem+json")
    assert "version 2" in stale.json()["detail"]
    assert ask("DELETE", "own", headers={"If-Match": '"1"'}).status_code == 412
    assert ask("DELETE", "own", headers={"If-Match": '"1", "2"'}).status_code == 200
    assert ask("PATCH", "own", json={}, headers={"If-Match": "*"}).headers["etag"] == '"3"'


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b"\xff", 400, None),
        (b"[1]", 422, "body"),
        (b'{"description": 5}', 422, "description"),
        (b'{"metadata": {"a": "\\u0000"}}', 422, "metadata.a"),
        (b'{"tenant_id": "another"}', 403, None),
        (b'{"metadata": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}", 400, None),
        (b'{"metadata": ' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}", 422, None),
        (b'{"metadata": {"n": 1e999}}', 400, None),
        (b'{"description": "\\ud800"}', 400, None),
    ],
)
def test_a_bad_body_is_a_problem_and_changes_nothing(
    core: Core, system: Core, ask: Caller, body: bytes, status: int, field: str | None
) -> None:
    seen(system, ask.tenant, NAME)
    for method in ("PUT", "PATCH"):
        answer = ask(method, NAME, content=body)
        assert answer.status_code == status, answer.text
        if field:
            assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert read(core, ask.tenant, NAME).version == 1


def test_a_huge_number_is_stored_or_refused_but_never_breaks(system: Core, ask: Caller) -> None:
    seen(system, ask.tenant, NAME)
    answer = ask("PATCH", NAME, content=b'{"metadata": {"n": ' + b"9" * 300 + b"}}")
    assert answer.status_code in (200, 422), answer.text


def test_purging_needs_its_own_right(
    core: Core, system: Core, wired: Services, client: Client, ask: Caller
) -> None:
    seen(system, ask.tenant, NAME)
    steward = as_role(wired, client, ask, "steward")
    assert steward("DELETE", NAME, params={"purge": "true"}).status_code == 403
    assert steward("POST", NAME, "/purge").status_code == 403
    assert steward("DELETE", NAME).status_code == 200
    assert ask("DELETE", NAME, params={"purge": "true"}).status_code == 204
    trail = ask("GET", "audit", f"/{quote(NAME, safe='')}").json()["items"]
    assert [fact["kind"] for fact in trail] == ["AssetCreated", "AssetDeleted", "AssetPurged"]
    viewer = as_role(wired, client, ask, "viewer")
    for method, tail in (("PUT", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/restore")):
        assert viewer(method, NAME, tail, json={}).status_code == 403, method
    assert viewer("GET", "audit", "/x").status_code == 403


def test_what_is_foreign_answers_like_what_does_not_exist(
    core: Core, system: Core, wired: Services, client: Client, ask: Caller
) -> None:
    seen(system, ask.tenant, NAME, asset_id="own")
    guid = str(read(core, ask.tenant, NAME).guid)
    other = Caller(wired, client, tenant_with_admin(core), "admin")
    routes = [("PUT", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/restore"), ("POST", "/purge"),
              ("GET", "/children"), ("GET", "/history"), ("GET", "/sources")]  # fmt: skip
    for method, tail in routes:
        for given in (NAME, "own", guid):
            answer = other(method, given, tail, json={} if method[0] == "P" else None)
            missing = other(method, "nope", tail, json={} if method[0] == "P" else None)
            assert answer.status_code == missing.status_code == 404, (method, tail)
            assert answer.json()["detail"] == f"There is no asset {given}."
    assert other("GET", "audit", f"/{guid}").status_code == 404


def test_fields_follow_their_direct_parent(core: Core, system: Core, ask: Caller) -> None:
    seen(system, ask.tenant, NAME)
    seen(system, ask.tenant, f"{NAME}#id", asset_type="column")
    assert len(ask("GET", NAME, "/children").json()["items"]) == 1
    ask("DELETE", NAME)
    assert ask("GET", "by-name", params={"qualified_name": f"{NAME}#id"}).json()["is_deleted"]
    assert ask("GET", NAME, "/children").json()["items"] == []
    hidden = ask("GET", NAME, "/children", params={"deleted": "true"}).json()["items"]
    assert [each["is_deleted"] for each in hidden] == [True]
    ask("POST", NAME, "/restore")
    assert not read(core, ask.tenant, f"{NAME}#id").deleted_by
    ask("POST", NAME, "/purge")
    assert read(core, ask.tenant, f"{NAME}#id").deleted_by


def test_children_are_paged_without_loss(system: Core, ask: Caller) -> None:
    seen(system, ask.tenant, NAME)
    columns = [AssetSeen(qualified_name=f"{NAME}#c{n}", asset_type="column") for n in range(2500)]
    views = [AssetSeen(qualified_name=f"v{n}", asset_type="view", parent_id=NAME) for n in range(7)]
    apply(system, ask.tenant, columns)
    apply(system, ask.tenant, views)
    found: list[str] = []
    after = ""
    while after is not None:
        page = ask("GET", NAME, "/children", params={"limit": 1000, "after": after}).json()
        found += [each["qualified_name"] for each in page["items"]]
        after = page["next"]
    assert len(found) == len(set(found)) == 2507
    only = ask("GET", NAME, "/children", params={"kinds": "view,chart", "limit": 1000}).json()
    assert {each["asset_type"] for each in only["items"]} == {"view"}
    assert ask("GET", NAME, "/children", params={"limit": 1001}).status_code == 422
    assert ask("GET", NAME, "/children", params={"after": "nonsense"}).status_code == 422


def test_history_tells_each_version_with_its_difference(system: Core, ask: Caller) -> None:
    cause = seen(system, ask.tenant, NAME, asset_name="c", description="one", tags=["raw"])
    ask("PATCH", NAME, json={"description": "two", "tags": ["gold"]})
    ask("DELETE", NAME)
    answer = ask("GET", NAME, "/history").json()
    assert [v["version"] for v in answer["items"]] == [3, 2, 1]
    assert [v["kind"] for v in answer["items"]] == ["AssetDeleted", "AssetChanged", "AssetCreated"]
    assert answer["items"][1]["changes"] == [
        {"field": "description", "before": "one", "after": "two"},
        {"field": "tags", "before": ["raw"], "after": ["gold", "raw"]},
    ]
    assert answer["items"][1]["by"] == "admin"
    assert answer["items"][2]["cause"] == cause
    assert {"field": "description", "before": None, "after": "one"} in answer["items"][2]["changes"]
    pages, after = [], ""
    while after is not None:
        page = ask("GET", NAME, "/history", params={"limit": 1, "after": after}).json()
        pages += page["items"]
        after = page["next"]
    assert pages == answer["items"]


def test_a_field_that_was_told_with_its_siblings_has_a_first_version(
    system: Core, ask: Caller
) -> None:
    seen(system, ask.tenant, f"{NAME}#id", asset_type="column")
    [first] = ask("GET", f"{NAME}#id", "/history").json()["items"]
    assert (first["version"], first["kind"]) == (1, "AssetCreated")


def test_sources_show_who_says_what_and_what_is_shadowed(system: Core, ask: Caller) -> None:
    seen(system, ask.tenant, NAME, description="crawled", asset_name="c")
    seen(system, ask.tenant, NAME, source="dbt", description="modelled")
    gone(system, ask.tenant, NAME, source="dbt")
    ask("PATCH", NAME, json={"description": "mine"})
    answer = ask("GET", NAME, "/sources").json()
    said = {each["source"]: each for each in answer["items"]}
    assert said["crawler"]["fields"]["description"] == "crawled"
    assert (said["dbt"]["gone"], said["crawler"]["gone"]) == (True, False)
    assert answer["shadowed"] == ["description"]
    assert answer["edits"][0]["by"] == "admin"


def test_the_audit_trail_has_positions_and_hashes(system: Core, ask: Caller) -> None:
    seen(system, ask.tenant, NAME)
    seen(system, ask.tenant, "other")
    ask("PATCH", NAME, json={"description": "d"})
    trail = ask("GET", "audit", f"/{quote(NAME, safe='')}").json()["items"]
    assert [fact["kind"] for fact in trail] == ["AssetCreated", "AssetChanged"]
    assert all(len(fact["hash"]) == 64 and fact["position"] for fact in trail)


def test_schemas_are_public_and_name_their_version(client: Client) -> None:
    listed = client.get("/schemas/").json()["items"]
    assert {"AssetSeen", "AssetGone", "Envelope", "AssetChanged"} <= {e["name"] for e in listed}
    for each in listed:
        schema = client.get(each["url"]).json()
        assert schema["$id"] == each["$id"]
    assert client.get("/schemas").status_code == 200
    assert client.get("/schemas/Nonsense.json").status_code == 404
