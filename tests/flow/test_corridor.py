"""An observation becomes a readable, audited asset: through the log, Spark and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.flow.people import Person, admin
from tests.live import Live

TABLE: dict[str, Any] = {"qualified_name": "postgres://h:5432/shop.public.people"}


def _post(api: Person, body: Any, **headers: str) -> Any:
    return api.client.post("/api/v1/metadata", json=body, headers={**api.headers, **headers})


def test_a_post_is_readable_at_once_from_another_process(live: Live, api: Person) -> None:
    def write_and_read(number: int) -> tuple[int, int, str]:
        name = f"db/shop/table_{number}"
        body = {"qualified_name": name, "asset_type": "table", "description": f"no {number}"}
        made = _post(api, body)
        path = f"/api/v1/metadata/{made.json()['guid']}"
        read = live.other.get(path, headers=api.headers)
        return made.status_code, read.status_code, read.json().get("description", "")

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(write_and_read, range(1000)))
    assert results == [(201, 200, f"no {number}") for number in range(1000)]


def test_the_same_statement_twice_changes_nothing(api: Person) -> None:
    first = _post(api, {**TABLE, "asset_type": "table", "tags": ["gold"]})
    second = _post(api, {**TABLE, "asset_type": "table", "tags": ["gold"]})
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["version"] == second.json()["version"] == 1
    assert second.json()["updated_at"] == first.json()["updated_at"]
    feed = api.client.get("/api/v1/changes?after=0", headers=api.headers).json()
    kinds = [fact["kind"] for fact in feed["items"] if fact["kind"].startswith("Asset")]
    assert kinds == ["AssetCreated"]


def test_a_list_answers_for_each_item(api: Person) -> None:
    answer = _post(api, [{"asset_id": "a"}, {"asset_name": 7}, {"asset_id": "b", "tags": ["x"]}])
    assert answer.status_code == 207
    items = answer.json()["items"]
    assert [item["status"] for item in items] == [201, 422, 201]
    assert items[1]["errors"][0]["field"] == "[1].asset_name"
    assert items[2]["asset"]["tags"] == ["x"]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (b'{"asset_id": "\xff"}', "not valid JSON"),
        (b'{"asset_id": "a", }', "not valid JSON"),
        (b'{"metadata": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "nested too deeply"),
    ],
)
def test_a_list_with_an_item_that_cannot_be_read_is_refused_whole(
    api: Person, item: bytes, said: str
) -> None:
    body = b'[{"asset_id": "whole"}, ' + item + b"]"
    answer = api.client.post("/api/v1/metadata", content=body, headers=api.headers)
    assert answer.status_code == 400
    assert said in answer.json()["detail"]
    assert api.client.get("/api/v1/metadata/whole", headers=api.headers).status_code == 404


def test_a_list_that_names_one_asset_twice_is_refused_whole(api: Person) -> None:
    answer = _post(api, [{"asset_id": "twice"}, {"asset_id": "twice", "description": "x"}])
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "[1].qualified_name"
    assert api.client.get("/api/v1/metadata/twice", headers=api.headers).status_code == 404


def test_respond_async_answers_after_the_durable_append(api: Person) -> None:
    answer = _post(api, {"asset_id": "later"}, Prefer="respond-async")
    assert answer.status_code == 202
    assert _post(api, {"asset_id": "barrier"}).status_code == 201  # behind it in the same lane
    assert api.client.get(answer.headers["location"], headers=api.headers).status_code == 200


def test_return_minimal_answers_with_outcomes_and_versions_alone(api: Person) -> None:
    brief = {"Prefer": "return=minimal"}
    first = _post(api, [{"asset_id": "m1"}, {"asset_id": "m2", "tags": ["x"]}], **brief)
    assert first.status_code == 200
    assert first.headers["preference-applied"] == "return=minimal"
    told = [
        (item["status"], item["outcome"], item["asset_id"], item["version"], "asset" in item)
        for item in first.json()["items"]
    ]
    assert told == [(201, "created", "m1", 1, False), (201, "created", "m2", 1, False)]
    again = _post(api, [{"asset_id": "m1"}, {"asset_id": "m2", "tags": ["y"]}], **brief)
    after = [(item["outcome"], item["version"]) for item in again.json()["items"]]
    assert after == [("unchanged", 1), ("updated", 2)]
    one = _post(api, {"asset_id": "m3"}, **brief)
    assert (one.status_code, one.headers["etag"], one.json()["asset_id"]) == (201, '"1"', "m3")
    read = api.client.get(f"/api/v1/metadata/{one.json()['guid']}", headers=api.headers)
    assert read.json()["asset_id"] == "m3"


def test_return_minimal_tells_what_was_refused_behind_the_log(api: Person) -> None:
    body = {"scraper_group": "erp", "allowed_columns": ["id"]}
    assert api.client.post("/api/v1/scraper-policies", json=body, headers=api.headers).is_success
    seen = [{"qualified_name": f"t#{name}", "data_source": "erp"} for name in ("id", "email")]
    answer = _post(api, seen, Prefer="return=minimal")
    assert answer.status_code == 207
    assert [item["outcome"] for item in answer.json()["items"]] == ["created", "rejected"]
    assert answer.json()["items"][1]["errors"]


@pytest.mark.parametrize(
    "name",
    ["postgres://h:1/a.b.c#d", "snowflake://x/Grüße.表.%23", "s3://b/a%2Fb/c d?e=f&g", "a+b/%/ü"],
)
def test_encoded_qualified_names_work_as_ids(api: Person, name: str) -> None:
    from urllib.parse import quote

    made = _post(api, {"qualified_name": name, "description": "here"})
    assert made.status_code == 201, made.text
    for given in (quote(name, safe=""), made.json()["guid"]):
        read = api.client.get(f"/api/v1/metadata/{given}", headers=api.headers)
        assert (read.status_code, read.json().get("description")) == (200, "here"), given


def test_an_own_id_finds_the_asset_and_later_statements_meet_it(api: Person) -> None:
    made = _post(api, {"asset_id": "t1", "qualified_name": "db/t1", "asset_type": "table"})
    assert made.json()["asset_id"] == "t1"
    again = _post(api, {"asset_id": "t1", "description": "by its own id", "partial": True})
    assert again.status_code == 200
    assert again.json()["guid"] == made.json()["guid"]
    assert again.json()["description"] == "by its own id"


def test_two_sources_are_folded_and_gone_needs_both(api: Person) -> None:
    name = {"qualified_name": "db/orders"}
    _post(api, {**name, "data_source": "crawler", "asset_type": "table", "tags": ["raw"]})
    _post(api, {**name, "data_source": "dbt", "description": "from dbt", "tags": ["gold"]})
    both = api.client.get("/api/v1/metadata/db%2Forders", headers=api.headers).json()
    assert (both["asset_type"], both["description"]) == ("table", "from dbt")
    assert both["tags"] == ["gold", "raw"]
    one = _post(api, {**name, "data_source": "dbt", "is_deleted": True}).json()
    assert (one["is_deleted"], one["tags"]) == (False, ["raw"])
    none = _post(api, {**name, "data_source": "crawler", "is_deleted": True}).json()
    assert none["is_deleted"] is True


def test_a_trusted_source_wins_over_a_newer_one(api: Person) -> None:
    wanted = {"sources": ["dbt", "crawler"]}
    answer = api.client.put("/api/v1/source-priority", json=wanted, headers=api.headers)
    assert answer.json() == wanted
    name = {"qualified_name": "db/trusted"}
    _post(api, {**name, "data_source": "dbt", "description": "trusted"})
    newer = _post(api, {**name, "data_source": "other", "description": "newer"})
    assert newer.json()["description"] == "trusted"
    edited = api.client.patch(
        "/api/v1/metadata/db%2Ftrusted", json={"asset_owner": "ann"}, headers=api.headers
    )
    assert edited.json()["description"] == "trusted"


def test_an_older_observation_does_not_win(api: Person) -> None:
    new = {**TABLE, "description": "new", "observed_at": "2026-03-01T00:00:00Z"}
    old = {**TABLE, "description": "old", "observed_at": "2026-02-01T00:00:00Z"}
    _post(api, new)
    assert _post(api, old).json()["description"] == "new"


def test_another_tenants_asset_reads_like_none(live: Live, api: Person) -> None:
    stranger = admin(live.core, live.one)
    guid = _post(api, {"asset_id": "secret-thing"}).json()["guid"]
    for path in (f"/api/v1/metadata/{guid}", "/api/v1/metadata/secret-thing"):
        foreign = api.client.get(path, headers=stranger.headers)
        missing = api.client.get(path[:-1] + "0", headers=stranger.headers)
        assert foreign.status_code == missing.status_code == 404
        assert foreign.json().keys() == missing.json().keys()


def test_a_hook_is_in_force_for_the_next_observation(api: Person) -> None:
    bad = {"name": "broken", "plugin": "classify", "uses": ["hook"],
           "options": {"rules": [{"pattern": "x", "tag": "PII"}], "mode": "apply"}}  # fmt: skip
    assert api.client.post("/api/v1/connections", json=bad, headers=api.headers).is_success
    tagged = _post(api, {"asset_id": "x", "asset_name": "x", "asset_type": "column"})
    assert tagged.json()["tags"] == ["PII"]


def test_a_scraper_is_told_at_once_that_a_column_is_not_for_it(api: Person) -> None:
    body = {"scraper_group": "crm", "allowed_columns": ["id"]}
    assert api.client.post("/api/v1/scraper-policies", json=body, headers=api.headers).is_success
    assert _post(api, {"qualified_name": "t#id", "data_source": "crm"}).is_success
    refused = _post(api, {"qualified_name": "t#email", "data_source": "crm"})
    assert refused.status_code == 422
    assert "may not speak of the column 'email'" in refused.text
    assert _post(api, {"qualified_name": "t#email", "data_source": "dbt"}).is_success


BAD: dict[str, tuple[bytes, int]] = {
    "not JSON": (b"{", 400),
    "bad UTF-8": (b'{"asset_name": "\xff"}', 400),
    "ten thousand deep": (b'{"metadata":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, 400),
    "a huge number": (b'{"asset_id":"n","metadata":{"n":1e400}}', 400),
    "an empty name": (b'{"asset_name": " "}', 422),
    "no name at all": (b"{}", 422),
    "a NUL": (b'{"asset_id": "a\\u0000b"}', 422),
    "a NUL deep in metadata": (b'{"asset_id": "a", "metadata": {"x": ["\\u0000"]}}', 422),
    "tags that are no list": (b'{"asset_id": "a", "tags": "PII"}', 422),
    "a time in the future": (b'{"asset_id": "a", "observed_at": "2999-01-01"}', 422),
    "another tenant": (b'{"asset_id": "a", "tenant_id": "somebody-else"}', 403),
    "an empty list": (b"[]", 422),
    "a bare text": (b'"hello"', 422),
    "over a thousand": (b"[" + b",".join([b'{"asset_id":"a"}'] * 1001) + b"]", 413),
    "ten megabytes": (b'{"asset_id": "a", "description": "' + b"x" * 10_000_000 + b'"}', 413),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_a_problem_that_says_what_and_where(api: Person, what: str) -> None:
    body, status = BAD[what]
    answer = api.client.post("/api/v1/metadata", content=body, headers=api.headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["detail"] and problem["title"] and "Traceback" not in answer.text
    assert status != 422 or problem["errors"][0]["message"]
    feed = api.client.get("/api/v1/changes?after=0", headers=api.headers).json()
    assert not [fact for fact in feed.get("items", []) if fact["kind"].startswith("Asset")]
