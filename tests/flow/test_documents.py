"""Every request of the source documents that Lily serves, with its literal body and answer."""

from copy import deepcopy
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from tests.flow.people import Person, with_role
from tests.live import Live

ENTITY: dict[str, Any] = {
    "entity_type": "table",
    "attributes": {
        "name": "people",
        "description": "Everybody we sell to",
        "created_by": "ann",
        "tags": ["finance"],
    },
}
NESTED: dict[str, Any] = {
    "asset": {
        "asset_name": "people",
        "asset_type": "table",
        "description": "string",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-02T00:00:00Z",
    },
    "metadata_details": {
        "metadata_key": "freshness",
        "metadata_value": "daily",
        "metadata_source": "monte-carlo",
        "metadata_type": "quality",
        "status": "active",
        "retention_policy": {
            "enabled": True,
            "retention_period_days": 36500,
            "action_after_expiry": "archive",
        },
        "downstream_status": "pending",
        "downstream_notifications": [
            {
                "system_name": "jira",
                "notification_status": "failed",
                "attempts": 1,
                "last_attempted_at": "2026-01-02T00:00:00Z",
                "next_attempt_at": "2026-01-02T01:00:00Z",
                "notification_type": "ticket",
                "notification_method": "api",
                "recipient": "data-team",
                "notification_payload": {
                    "ticket_title": "string",
                    "ticket_description": "string",
                    "ticket_priority": "high",
                    "ticket_labels": ["pii"],
                    "message": "string",
                },
                "status_message": "string",
            }
        ],
    },
}
PROCESSED = {"status": "success", "message": "Metadata processed successfully."}
BULK = {"status": "success", "message": "Bulk metadata processed successfully."}
NESTED_NAME = "monte-carlo/table/people"


def call(api: Person, method: str, path: str, **more: Any) -> Any:
    return api.client.request(method, path, headers=api.headers, **more)


def asset(api: Person, name: str) -> Any:
    answer = call(api, "GET", f"/api/v1/metadata/{quote(name, safe='')}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def nested(**details: Any) -> dict[str, Any]:
    item = deepcopy(NESTED)
    item["metadata_details"].update(details)
    return item


def fields(answer: Any) -> list[str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return [error["field"] for error in answer.json()["errors"]]


def test_an_entity_is_ingested_read_updated_and_deleted(api: Person) -> None:
    made = call(api, "POST", "/ingest-metadata", json={**ENTITY, "tenant_id": str(api.tenant.id)})
    assert made.status_code == 200, made.text
    id = made.json()["metadata_id"]
    assert made.json() == {"status": "success", "metadata_id": id}
    read = call(api, "GET", f"/metadata/{id}")
    assert read.status_code == 200
    shown = read.json()
    assert {k: v for k, v in shown.items() if not k.endswith("_at")} == {
        "metadata_id": id,
        "entity_type": "table",
        "attributes": ENTITY["attributes"],
        "tenant_id": str(api.tenant.id),
    }
    assert shown["created_at"] and shown["updated_at"]
    update = {"attributes": {"name": "customers", "description": "new", "tags": ["gold"]}}
    changed = call(api, "PUT", f"/metadata/{id}", json=update)
    assert (changed.status_code, changed.json()) == (200, {"status": "success", "metadata_id": id})
    attributes = call(api, "GET", f"/metadata/{id}").json()["attributes"]
    assert (attributes["name"], attributes["description"]) == ("customers", "new")
    assert attributes["tags"] == ["finance", "gold"]
    assert attributes["created_by"] == "ann"
    gone = call(api, "DELETE", f"/metadata/{id}")
    assert (gone.status_code, gone.json()) == (200, {"status": "success", "metadata_id": id})
    for method, body in (("GET", None), ("PUT", update), ("DELETE", None)):
        assert call(api, method, f"/metadata/{id}", json=body).status_code == 404


def test_unknown_attributes_are_kept_and_given_back(api: Person) -> None:
    attributes = {**ENTITY["attributes"], "rows": 12, "owner": {"team": "data"}}
    body = {"entity_type": "table", "attributes": attributes}
    id = call(api, "POST", "/ingest-metadata", json=body).json()["metadata_id"]
    assert call(api, "GET", f"/metadata/{id}").json()["attributes"] == attributes
    call(api, "PUT", f"/metadata/{id}", json={"attributes": {"rows": 13}})
    after = call(api, "GET", f"/metadata/{id}").json()["attributes"]
    assert after == {**attributes, "rows": 13}
    assert asset(api, id)["metadata"]["rows"] == 13


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "attributes"),
        ({"attributes": {"name": "x"}}, "entity_type"),
        ({"entity_type": "table", "attributes": {}}, "attributes.name"),
        ({"entity_type": "table", "attributes": {"name": "x", "tags": "a"}}, "attributes.tags"),
        ({"entity_type": "table", "attributes": {"name": "x", "description": 1}},
         "attributes.description"),
        ({"entity_type": "table", "attributes": {"name": "x", "k": "a\0"}}, "attributes.k"),
    ],
)  # fmt: skip
def test_an_invalid_entity_is_400_and_names_the_field(
    api: Person, body: dict[str, Any], field: str
) -> None:
    answer = call(api, "POST", "/ingest-metadata", json=body)
    assert answer.status_code == 400, answer.text
    assert fields(answer) == [field]


def test_an_entity_without_a_token_is_401_and_of_a_foreign_tenant_403(api: Person) -> None:
    for method, path in (
        ("POST", "/ingest-metadata"), ("GET", "/metadata/x"), ("PUT", "/metadata/x"),
        ("DELETE", "/metadata/x"), ("POST", "/ingest_metadata/"), ("POST", "/lily/v1/metadata"),
        ("POST", "/lily/v1/metadata/bulk"),
    ):  # fmt: skip
        assert api.client.request(method, path, json={}).status_code == 401, path
    foreign = {**ENTITY, "tenant_id": "somebody-else"}
    assert call(api, "POST", "/ingest-metadata", json=foreign).status_code == 403
    for own in (str(api.tenant.id), api.tenant.name, api.tenant.number, str(api.tenant.number)):
        body = {**ENTITY, "tenant_id": own}
        assert call(api, "POST", "/ingest-metadata", json=body).status_code == 200, own


def test_an_update_of_an_entity_is_checked(api: Person) -> None:
    id = call(api, "POST", "/ingest-metadata", json=ENTITY).json()["metadata_id"]
    for body, field in (({}, "attributes"), ({"attributes": {"name": ""}}, "attributes.name"),
                        ({"attributes": {"tags": [1]}}, "attributes.tags[0]")):  # fmt: skip
        answer = call(api, "PUT", f"/metadata/{id}", json=body)
        assert (answer.status_code, fields(answer)) == (400, [field])
    assert call(api, "PUT", f"/metadata/{id}", content=b"{").status_code == 400
    assert call(api, "PUT", "/metadata/nobody", json={"attributes": {}}).status_code == 404


def test_entities_are_found_by_encoded_names(api: Person) -> None:
    call(api, "POST", "/ingest-metadata", json=ENTITY)
    name = quote("default/table/people", safe="")
    assert call(api, "GET", f"/metadata/{name}").json()["entity_type"] == "table"


@pytest.mark.parametrize("path", ["/ingest_metadata/", "/ingest_metadata"])
def test_an_own_id_with_texts_is_ingested(api: Person, path: str) -> None:
    body = {"entity_id": "db_123", "data": {"owner": "ann", "zone": "eu"}}
    answer = call(api, "POST", path, json=body)
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "Metadata ingested successfully"},
    )
    shown = asset(api, "db_123")
    assert (shown["asset_id"], shown["metadata"]) == ("db_123", {"owner": "ann", "zone": "eu"})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"data": {}}, "entity_id"),
        ({"entity_id": "x"}, "data"),
        ({"entity_id": "x", "data": {"a": 1}}, "data.a"),
        ({"entity_id": 7, "data": {}}, "entity_id"),
    ],
)
def test_texts_that_are_none_are_400(api: Person, body: dict[str, Any], field: str) -> None:
    answer = call(api, "POST", "/ingest_metadata/", json=body)
    assert (answer.status_code, fields(answer)) == (400, [field])


def test_a_nested_document_is_processed(api: Person) -> None:
    item = deepcopy(NESTED)
    item["asset"]["tenant_id"] = api.tenant.number
    answer = call(api, "POST", "/lily/v1/metadata", json={"metadata": item})
    assert (answer.status_code, answer.json()) == (200, PROCESSED), answer.text
    shown = asset(api, NESTED_NAME)
    assert (shown["asset_name"], shown["asset_type"]) == ("people", "table")
    assert (shown["data_source"], shown["metadata"]) == ("monte-carlo", {"freshness": "daily"})
    assert shown["observed_at"] == "2026-01-02T00:00:00Z"
    assert shown["created_at"] == "2026-01-01T00:00:00Z"
    details = shown["details"]
    [notification] = details["downstream_notifications"]
    assert UUID(notification.pop("notification_id"))
    wanted = {k: v for k, v in NESTED["metadata_details"].items()
              if k not in ("metadata_key", "metadata_value", "metadata_source")}  # fmt: skip
    assert details == wanted


def test_keys_that_come_one_by_one_are_merged_and_the_same_twice_changes_nothing(
    api: Person,
) -> None:
    for item in (nested(), nested(metadata_key="owner", metadata_value="ann"), nested()):
        item["asset"].pop("updated_at")
        answer = call(api, "POST", "/lily/v1/metadata", json={"metadata": item})
        assert answer.status_code == 200, answer.text
    shown = asset(api, NESTED_NAME)
    assert shown["metadata"] == {"freshness": "daily", "owner": "ann"}
    assert shown["version"] == 2


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (None, "metadata"),
        ({}, "metadata.asset"),
        ({"asset": {"asset_type": "table"}}, "metadata.asset.asset_name"),
        ({"asset": {"asset_name": "x"}}, "metadata.asset.asset_type"),
        ({**NESTED, "metadata_details": "x"}, "metadata.metadata_details"),
        (nested(metadata_key=None), "metadata.metadata_details.metadata_key"),
        (nested(metadata_source=5), "metadata.metadata_details.metadata_source"),
        (nested(downstream_notifications=[1]),
         "metadata.metadata_details.downstream_notifications[0]"),
        (nested(retention_policy={"enabled": True, "retention_period_days": 1,
                                  "action_after_expiry": "explode"}),
         "metadata.metadata_details.retention_policy.action_after_expiry"),
        (nested(retention_policy={"retention_period_days": 1, "action_after_expiry": "delete"}),
         "metadata.metadata_details.retention_policy.enabled"),
        (nested(retention_policy={"enabled": "false"}),
         "metadata.metadata_details.retention_policy.enabled"),
        ({**NESTED, "asset": {**NESTED["asset"], "updated_at": "yesterday"}},
         "metadata.asset.updated_at"),
        ({**NESTED, "asset": {**NESTED["asset"], "updated_at": "2999-01-01T00:00:00Z"}},
         "metadata.asset.updated_at"),
    ],
)  # fmt: skip
def test_an_invalid_nested_document_is_400_and_names_the_field(
    api: Person, item: Any, field: str
) -> None:
    answer = call(api, "POST", "/lily/v1/metadata", json={"metadata": item})
    assert answer.status_code == 400, answer.text
    assert fields(answer) == [field]


def test_bulk_processes_all_of_a_list_with_several_keys_of_one_asset(api: Person) -> None:
    items = [nested(metadata_key=f"k{n}", metadata_value=n) for n in range(3)]
    for number in range(200):
        other = nested()
        other["asset"]["asset_name"] = f"t{number}"
        items.append(other)
    answer = call(api, "POST", "/lily/v1/metadata/bulk", json={"metadata": items})
    assert (answer.status_code, answer.json()) == (200, BULK), answer.text
    assert asset(api, NESTED_NAME)["metadata"] == {"k0": 0, "k1": 1, "k2": 2}
    assert asset(api, "monte-carlo/table/t199")["metadata"] == {"freshness": "daily"}


def test_bulk_with_an_invalid_item_stores_nothing(api: Person) -> None:
    bad = nested(retention_policy={"enabled": True, "action_after_expiry": "x"})
    body = {"metadata": [nested(), bad, {"asset": 5}]}
    answer = call(api, "POST", "/lily/v1/metadata/bulk", json=body)
    assert answer.status_code == 400
    assert {field.split(".")[0] for field in fields(answer)} == {"metadata[1]", "metadata[2]"}
    missing = call(api, "GET", f"/api/v1/metadata/{quote(NESTED_NAME, safe='')}")
    assert missing.status_code == 404


def test_bulk_names_its_limit(api: Person) -> None:
    nothing: list[Any] = []
    for items in (nothing, "x", None):
        answer = call(api, "POST", "/lily/v1/metadata/bulk", json={"metadata": items})
        assert (answer.status_code, fields(answer)) == (400, ["metadata"])
    answer = call(api, "POST", "/lily/v1/metadata/bulk", json={"metadata": [{}] * 1001})
    assert answer.status_code == 400
    assert "1000" in answer.json()["detail"]


def test_a_foreign_tenant_number_is_403(api: Person) -> None:
    item = deepcopy(NESTED)
    item["asset"]["tenant_id"] = api.tenant.number + 1
    for path, body in (("", item), ("/bulk", [item])):
        answer = call(api, "POST", f"/lily/v1/metadata{path}", json={"metadata": body})
        assert answer.status_code == 403, path


def test_what_a_hook_refuses_is_400_with_its_reason(api: Person) -> None:
    across = {"default/table/people": "a#b", NESTED_NAME: "a#b"}
    hook = {"name": "our gate", "plugin": "rename", "uses": ["hook"],
            "options": {"values": {"qualified_name": across}}}  # fmt: skip
    assert call(api, "POST", "/api/v1/connections", json=hook).status_code == 201
    answer = call(api, "POST", "/ingest-metadata", json=ENTITY)
    assert answer.status_code == 400, answer.text
    assert "our gate" in answer.json()["detail"]
    assert call(api, "GET", "/metadata/default%2Ftable%2Fpeople").status_code == 404
    good = nested()
    good["asset"]["asset_name"] = "others"
    body = {"metadata": [good, nested(), nested(metadata_key="k")]}
    answer = call(api, "POST", "/lily/v1/metadata/bulk", json=body)
    assert (answer.status_code, fields(answer)) == (400, ["metadata[1]", "metadata[2]"])


def test_a_viewer_may_read_but_not_ingest(live: Live, api: Person) -> None:
    id = call(api, "POST", "/ingest-metadata", json=ENTITY).json()["metadata_id"]
    viewer = with_role(live.core, api, "viewer")
    assert call(viewer, "GET", f"/metadata/{id}").status_code == 200
    assert call(viewer, "POST", "/ingest-metadata", json=ENTITY).status_code == 403
    assert call(viewer, "DELETE", f"/metadata/{id}").status_code == 403
