"""A tenant cannot see, count, search, follow or touch anything of another, pooled or dedicated."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from httpx import Client, Response

from lily.api.app import create_app
from lily.api.rest.openlineage_examples import EVENT
from lily.assets.names import as_guid
from lily.store.embedded import Server
from lily.wiring import core as build_core
from lily.wiring import services
from tests.flow.people import Person, admin, dedicated
from tests.live import Live
from tests.serving import serving

PASSWORD = "correct horse 2"
# Logins live in the home database, also those of a dedicated tenant; nothing else of it does.
LOGINS = {"person", "service_account", "token", "identity_provider"}


class Estate(msgspec.Struct):
    """Somebody's belongings. `canary` is in all of them, `login` in names of people and tokens."""

    owner: Person
    canary: str
    login: str
    ids: dict[str, str]
    token: str


class World(msgspec.Struct):
    stranger: Person
    pooled: Estate
    dedicated: Estate
    dedicated_url: str

    @property
    def estates(self) -> list[Estate]:
        return [self.pooled, self.dedicated]


def post(who: Person, path: str, body: Any, status: int = 201, once: str = "") -> Any:
    headers = {**who.headers, "Idempotency-Key": once or uuid4().hex}
    answer = who.client.post(f"/api/v1{path}", json=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def settle(who: Person) -> Estate:
    """One of everything that has an id."""
    canary, login = f"canary{uuid4().hex[:12]}", f"login{uuid4().hex[:12]}"
    asset = {
        "asset_id": canary,
        "qualified_name": f"warehouse/{canary}",
        "asset_type": canary,
        "description": f"{canary} must not be seen",
        "tags": [canary],
        "business_terms": [canary],
        "asset_owner": canary,
        "data_source": canary,
        "metadata": {canary: canary},
    }
    table = post(who, "/metadata", asset, once=canary)
    post(who, "/metadata", {"qualified_name": f"warehouse/{canary}#{canary}"})
    joined = {"from_asset_id": canary, "to_asset_id": f"warehouse/{canary} copy"}
    edge = post(who, "/metadata/lineage", {**joined, "process": canary})
    user = {"username": login, "password": PASSWORD, "role": "viewer"}
    hook = {
        "name": canary,
        "plugin": "rename",
        "uses": ["hook"],
        "options": {"tags": {"tmp": "", "old": canary}},
    }
    made = {
        "user": post(who, "/users", user)["id"],
        "account": post(who, "/service-accounts", {"name": login})["id"],
        "connection": post(who, "/connections", hook)["id"],
    }
    source = {
        "name": f"{canary} source",
        "plugin": "postgres",
        "uses": ["source"],
        "options": {"url": f"postgresql://{login}@warehouse.example/{canary}"},
    }
    crawl = post(who, f"/connections/{post(who, '/connections', source)['id']}/run", {}, 202)
    job = post(who, "/metadata/bulk", [{"asset_id": f"{canary} of a file"}], 202)
    token = post(who, "/tokens", {"name": login})
    post(who, "/metadata", {"qualified_name": f"bad/{canary}", "tags": ["tmp"]}, 422)
    scraper = {"scraper_group": canary, "allowed_columns": [canary]}
    policy = {"name": canary, "effect": "deny", "resource": {"tag": f"{canary} never"}}
    for circle in ("/groups", "/roles"):
        post(who, circle, {"name": canary, "members": [canary]})
    run = {"runId": str(uuid4())}
    event = {**EVENT, "run": run, "job": {"namespace": canary, "name": canary}}
    told = who.client.post("/api/v1/lineage", json=event, headers=who.headers)
    assert told.is_success, told.text
    idp = {"name": login, "issuer": "https://93.184.216.34", "audience": login, "roles": {}}
    target = {
        "name": f"{canary} target",
        "plugin": "webhook",
        "uses": ["target"],
        "options": {"url": "https://hooks.invalid/", "secret": f"{canary} {canary}"},
    }
    heard = {
        "name": canary,
        "match": {"facts": ["AssetChanged"], "tag": canary},
        "template": canary,
        "connection_id": post(who, "/connections", target)["id"],
    }
    subscription = post(who, "/subscriptions", heard)["id"]
    sent = post(who, f"/subscriptions/{subscription}/test", {}, 202)
    letters = who.client.get("/api/v1/dead-letters", headers=who.headers).json()["items"]
    ids = {
        "subscription": subscription,
        "delivery": sent["delivery_id"],
        **made,
        "guid": table["guid"],
        "alias": canary,
        "edge": edge["edge_id"],
        "qualified_name": f"warehouse/{canary}",
        "username": login,
        "token": token["id"],
        "letter": letters[0]["id"],
        "crawl": crawl["id"],
        "run": run["runId"],
        "job": job["job_id"],
        "provider": post(who, "/identity-providers", idp)["id"],
        "incident": post(who, "/incidents", {"asset_id": canary, "title": canary})["incident_id"],
        "tenant": who.tenant.name,
        "policy": post(who, "/policies", policy)["policy_id"],
        "rule": post(who, "/propagation-rules", {"name": canary, "field": "term"})["id"],
        "scraper": post(who, "/scraper-policies", scraper)["policy_id"],
    }
    return Estate(who, canary, login, ids, token["token"])


@pytest.fixture(scope="module")
def world(live: Live, server: Server) -> World:
    url = server.create_database(f"cell_{uuid4().hex[:8]}")
    pooled = settle(admin(live.core, live.one))
    alone = settle(dedicated(live.core, live.one, url))
    stranger = admin(live.core, live.one)
    post(stranger, "/metadata", {"asset_id": "own", "description": "the stranger's own"})
    return World(stranger, pooled, alone, url)


# Every route that takes an id ------------------------------------------------------------------


def operations(client: Client) -> Iterator[tuple[str, str, Any]]:
    """Every request that has an id in its path, with a body that is valid for it."""
    described = client.get("/openapi.json").json()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if "{" in path:
                yield method.upper(), path, body_of(operation, described)


def body_of(operation: Any, described: Any) -> Any:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    if "example" in content:
        return content["example"]
    if "examples" in content:
        return next(iter(content["examples"].values()))["value"]
    schema = content["schema"]
    for choice in [schema, *schema.get("anyOf", [])]:
        name = choice.get("$ref", "").rpartition("/")[2]
        whole = described["components"]["schemas"].get(name, choice)
        if "examples" in whole:
            return whole["examples"][0]
        fields = whole.get("properties", {})
        if fields:
            return {k: v["examples"][0] for k, v in fields.items() if "examples" in v}
    return {}


def like(id: str) -> str:
    """An id of the same shape that nobody has."""
    try:
        UUID(id)
    except ValueError:
        return re.sub(r"[0-9a-f]{6,}", lambda found: uuid4().hex[: len(found[0])], id)
    return str(uuid4())


def shape(answer: Response, id: str) -> tuple[Any, ...]:
    """What can be told apart: status, names of headers, and the body without the id itself."""
    text = answer.text.replace(quote(id, safe=""), "<id>").replace(id, "<id>")
    return answer.status_code, sorted(answer.headers), text


def test_a_foreign_id_reads_like_one_that_does_not_exist_on_every_route(world: World) -> None:
    who, compared = world.stranger, 0

    def ask(method: str, path: str, body: Any, id: str) -> tuple[Any, ...]:
        url = re.sub(r"{\w+}", quote(id, safe=""), path)
        return shape(who.client.request(method, url, headers=who.headers, json=body), id)

    for method, path, body in operations(who.client):
        nobody: dict[str, tuple[Any, ...]] = {}  # what an id that nobody has reads like
        for estate in world.estates:
            for kind, id in estate.ids.items():
                form = "uuid" if as_guid(id) else kind
                if form not in nobody:
                    nobody[form] = ask(method, path, body, like(id))
                foreign, missing = ask(method, path, body, id), nobody[form]
                assert foreign == missing, f"{method} {path} with the {kind} of another tenant"
                assert foreign[0] in (403, 404), f"{method} {path}: {foreign}"
                compared += 1
    assert compared > 300


def test_the_owner_of_an_id_reads_something_on_each_of_these_routes(world: World) -> None:
    """Or else the comparison above would compare nothing with nothing."""
    for estate in world.estates:
        who = estate.owner
        for method, path, _ in operations(who.client):
            if method != "GET" or path.startswith(
                (
                    "/api/v1/tenants",
                    "/api/v1/lake",
                    "/schemas",
                    "/webhook",
                    "/engine",
                    "/api/v1/auth/oidc",
                )
            ):
                continue
            urls = [re.sub(r"{\w+}", quote(id, safe=""), path) for id in estate.ids.values()]
            found = [who.client.get(url, headers=who.headers).status_code for url in urls]
            assert 200 in found, path


def test_what_was_asked_for_by_a_stranger_is_as_it_was(live: Live, world: World) -> None:
    for estate in world.estates:
        who, ids = estate.owner, estate.ids

        def read(path: str, who: Person = who) -> Any:
            answer = live.other.get(f"/api/v1{path}", headers=who.headers)
            assert answer.status_code == 200, answer.text
            return answer.json()

        assert read(f"/metadata/{ids['guid']}")["version"] == 1
        assert read(f"/users/{ids['user']}")["active"] is True
        assert read(f"/service-accounts/{ids['account']}")["active"] is True
        assert read(f"/connections/{ids['connection']}")["revision"] == 1
        assert read(f"/dead-letters/{ids['letter']}")["state"] == "parked"
        token = {"Authorization": f"Bearer {estate.token}"}
        assert live.other.get("/api/v1/auth/validate", headers=token).status_code == 200


def test_ids_in_queries_and_bodies_are_like_missing_ones_too(world: World) -> None:
    who = world.stranger
    for estate in world.estates:
        for kind in ("guid", "alias", "qualified_name"):
            for path in (
                "/api/v1/changes?asset_id=",
                "/api/v1/metadata/by-name?qualified_name=",
                "/api/v1/metadata/search?owner=",
            ):
                id = estate.ids[kind]
                both = [
                    shape(who.client.get(path + quote(each, safe=""), headers=who.headers), each)
                    for each in (id, like(id))
                ]
                assert both[0] == both[1], path
        many = {"ids": [estate.ids["letter"], str(uuid4())]}
        answer = post(who, "/dead-letters/replay", many, 200)
        assert answer == {"replayed": 0, "skipped": 2, "unreadable": 0, "more": False}


# Everything that lists, counts, searches or follows ---------------------------------------------


def test_no_list_count_search_or_feed_holds_anything_of_others(world: World) -> None:
    who = world.stranger
    described = who.client.get("/openapi.json").json()
    lists = [path for path, methods in described["paths"].items() if "get" in methods]
    own = ["/api/v1/metadata/own/children", "/api/v1/metadata/own/history",
           "/api/v1/metadata/own/sources", "/api/v1/metadata/audit/own",
           "/api/v1/metadata/lineage/own", "/api/v1/metadata/lineage/own/impact"]  # fmt: skip
    asked = 0
    for path in [*own, *(path for path in lists if "{" not in path)]:
        for query in ("", "?limit=200", "?limit=200&deleted=any"):
            answer = who.client.get(path + query, headers=who.headers)
            asked += answer.status_code == 200
            for estate in world.estates:
                assert estate.canary not in answer.text, path
                assert estate.login not in answer.text, path
    assert asked > 20


def test_a_search_for_what_others_have_finds_and_counts_nothing(world: World) -> None:
    who = world.stranger
    for estate in world.estates:
        for query in (
            "q",
            "tag",
            "asset_type",
            "owner",
            "data_source",
            f"metadata.{estate.canary}",
        ):
            path = f"/api/v1/metadata/search?{query}={estate.canary}&deleted=any"
            found = who.client.get(path, headers=who.headers).json()
            nothing = (found["items"], found["total"], found["next"])
            assert nothing == ([], 0, None), query
            assert estate.canary not in str(found["facets"])
            mine = estate.owner.client.get(path, headers=estate.owner.headers).json()
            assert mine["total"] >= 1, query


def test_two_tenants_say_different_things_of_one_name(world: World) -> None:
    name = {"qualified_name": "the/same", "asset_id": "same"}
    owners = [world.stranger, *(estate.owner for estate in world.estates)]
    guids = {
        post(who, "/metadata", {**name, "description": who.tenant.name})["guid"] for who in owners
    }
    assert len(guids) == 3
    for who in owners:
        for id in ("same", "the%2Fsame"):
            read = who.client.get(f"/api/v1/metadata/{id}", headers=who.headers).json()
            assert read["description"] == who.tenant.name


# The databases ---------------------------------------------------------------------------------


def tables_with(url: str, word: str) -> set[str]:
    """Every table with a row that holds the word, in plain or as bytes."""
    found = set()
    with psycopg.connect(url) as conn:
        names = conn.execute(
            "SELECT oid::regclass::text, relname FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace::regnamespace::text NOT LIKE 'pg\\_%'"
            " AND relnamespace::regnamespace::text <> 'information_schema'"
        ).fetchall()
        for table, name in names:
            query = f"SELECT 1 FROM {table} t WHERE t::text LIKE ANY (%s) LIMIT 1"
            patterns = [f"%{word}%", f"%{word.encode().hex()}%"]
            if conn.execute(query.encode(), [patterns]).fetchone():
                found.add(name)
    return found


def _written(live: Live) -> set[str]:
    """Where something of a tenant must be; observations may be in Kafka instead."""
    log = {"log_core", "log_fields"} if live.settings.log == "postgres" else set()
    return log | {"fact", "dead_letter", "connection", "asset_alias"}


def test_nothing_of_a_dedicated_tenant_is_in_the_shared_database(live: Live, world: World) -> None:
    shared = live.settings.database
    assert tables_with(shared, world.dedicated.canary) == set()
    assert tables_with(shared, world.dedicated.login) == LOGINS
    own = tables_with(world.dedicated_url, world.dedicated.canary)
    assert own >= _written(live)


def test_the_scan_finds_what_a_pooled_tenant_has_there(live: Live, world: World) -> None:
    found = tables_with(live.settings.database, world.pooled.canary)
    assert found >= _written(live)
    assert tables_with(world.dedicated_url, world.pooled.canary) == set()


# Connections that are shared -------------------------------------------------------------------


def test_a_thousand_interleaved_requests_over_a_small_pool_never_mix(
    live: Live, world: World
) -> None:
    core = build_core(live.settings, "lily_app", pool=2)
    people = [world.stranger, world.pooled.owner, world.dedicated.owner]
    for who in people:
        post(who, "/metadata", {"asset_id": "mine", "description": who.tenant.name})
    paths = [
        ("/api/v1/metadata/mine", 200),
        ("/api/v1/metadata/search?q=mine", 200),
        ("/api/v1/metadata/by-name?qualified_name=mine", 200),
        ("/api/v1/metadata/mine/children?after=broken", 422),
        ("/api/v1/metadata/mine/history", 200),
    ]

    with serving(create_app(services(core))) as client:

        def ask(number: int) -> str | None:
            who, (path, status) = people[number % 3], paths[number % len(paths)]
            answer = client.get(path, headers=who.headers)
            strange = [
                p.tenant.name for p in people if p is not who and p.tenant.name in answer.text
            ]
            right = status != 200 or who.tenant.name in answer.text
            if answer.status_code != status or strange or not right:
                return f"{who.tenant.name} {path}: {answer.status_code} {answer.text[:300]}"
            return None

        with ThreadPoolExecutor(16) as pool:
            wrong = [problem for problem in pool.map(ask, range(1000)) if problem]
    core.close()
    assert wrong == []
