"""Search over HTTP: who may, what it answers, what it refuses."""

from typing import Any

import pytest
from httpx import Client, Response

from lily.types import Tenant
from lily.wiring import Core, Services
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import seen

PATH = "/api/v1/metadata/search"


@pytest.fixture(scope="module")
def people(core: Core, system: Core) -> Tenant:
    """A tenant with two assets."""
    tenant = tenant_with_admin(core)
    seen(
        system, tenant, "pg://h/shop.people", asset_name="people", asset_type="table",
        tags=["PII"], metadata={"team": "a b", "tier": 2},
    )  # fmt: skip
    seen(system, tenant, "pg://h/shop.orders", asset_name="orders", asset_type="table")
    return tenant


class Ask:
    def __init__(self, wired: Services, client: Client) -> None:
        self._wired, self._client = wired, client

    def __call__(self, tenant: Tenant, role: str = "viewer", **query: Any) -> Response:
        headers = bearer(minted(self._wired, tenant, role))
        return self._client.get(PATH, params=query, headers=headers)


@pytest.fixture
def ask(wired: Services, client: Client) -> Ask:
    return Ask(wired, client)


def test_a_viewer_finds_assets_as_everybody_sees_them(ask: Ask, people: Tenant) -> None:
    answer = ask(people, q="peop", tag="pii", **{"metadata.team": "A b"})
    assert answer.status_code == 200
    found = answer.json()
    assert [item["qualified_name"] for item in found["items"]] == ["pg://h/shop.people"]
    assert found["items"][0]["tenant_id"] == str(people.id)
    assert (found["total"], found["total_is_exact"], found["next"]) == (1, True, None)
    assert found["facets"]["asset_type"] == {"table": 1}


def test_pages_follow_each_other(ask: Ask, people: Tenant) -> None:
    first = ask(people, q="shop", limit=1).json()
    second = ask(people, q="shop", limit=1, after=first["next"]).json()
    names = [item["asset_name"] for page in (first, second) for item in page["items"]]
    assert names == ["orders", "people"]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "0"), ("after", "x"), ("deleted", "x"), ("updated_since", "x"), ("colour", "x")],
)
def test_a_bad_parameter_is_a_problem_that_names_it(
    ask: Ask, people: Tenant, name: str, value: str
) -> None:
    answer = ask(people, **{name: value})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in answer.json()["errors"]] == [name]


def test_who_may_only_ingest_may_not_search(ask: Ask, people: Tenant, client: Client) -> None:
    assert ask(people, role="ingester").status_code == 403
    assert client.get(PATH).status_code == 401


def test_another_tenant_gets_the_same_answer_as_if_there_were_nothing(
    ask: Ask, people: Tenant, core: Core
) -> None:
    stranger = tenant_with_admin(core)
    foreign, unknown = ask(stranger, q="people"), ask(stranger, q="nothing")
    assert foreign.status_code == unknown.status_code == 200
    assert foreign.json() == unknown.json()
    assert foreign.json()["total"] == 0


def test_the_parameters_are_documented(client: Client) -> None:
    described = client.get("/openapi.json").json()["paths"][PATH]["get"]["parameters"]
    names = {parameter["name"] for parameter in described}
    assert {"q", "tag", "asset_type", "owner", "updated_since", "limit", "after"} <= names
