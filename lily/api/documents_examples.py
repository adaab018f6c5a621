"""What the source documents send and get, for OpenAPI."""

from typing import Any

from lily.api.openapi import CONTENT

ENTITY: dict[str, Any] = {
    "entity_type": "table",
    "attributes": {
        "name": "people",
        "description": "Everybody we sell to.",
        "created_by": "ann",
        "tags": ["finance"],
    },
    "tenant_id": "default",
}
ENTITY_UPDATE: dict[str, Any] = {
    "attributes": {"name": "people", "description": "Customers.", "tags": ["finance", "PII"]}
}
INGESTED: dict[str, Any] = {
    "status": "success",
    "metadata_id": "5f0c1a9e-6c0e-5f0a-9d8e-0b1c2d3e4f50",
}
ENTITY_SHOWN: dict[str, Any] = {
    "metadata_id": "5f0c1a9e-6c0e-5f0a-9d8e-0b1c2d3e4f50",
    "entity_type": "table",
    "attributes": ENTITY["attributes"],
    "tenant_id": "0e6b2c1c-1111-4222-8333-444455556666",
    "created_at": "2026-01-31T12:00:00Z",
    "updated_at": "2026-01-31T12:00:00Z",
}
PLAIN: dict[str, Any] = {"entity_id": "db_123", "data": {"owner": "ann", "zone": "eu"}}
PLAIN_INGESTED: dict[str, Any] = {"status": "Metadata ingested successfully"}
NESTED: dict[str, Any] = {
    "asset": {
        "asset_name": "people",
        "asset_type": "table",
        "description": "Everybody we sell to.",
        "created_at": "2026-01-31T12:00:00Z",
        "updated_at": "2026-01-31T12:00:00Z",
    },
    "metadata_details": {
        "metadata_key": "freshness",
        "metadata_value": "daily",
        "metadata_source": "monte-carlo",
        "metadata_type": "quality",
        "status": "active",
        "retention_policy": {
            "enabled": True,
            "retention_period_days": 90,
            "action_after_expiry": "archive",
        },
        "downstream_status": "pending",
        "downstream_notifications": [
            {
                "system_name": "jira",
                "notification_status": "pending",
                "attempts": 0,
                "notification_type": "ticket",
                "notification_method": "api",
                "recipient": "data-team",
                "notification_payload": {"ticket_title": "Check people", "ticket_labels": ["pii"]},
            }
        ],
    },
}
PROCESSED: dict[str, Any] = {
    "status": "success",
    "message": "Metadata processed successfully.",
}
BULK_PROCESSED: dict[str, Any] = {
    "status": "success",
    "message": "Bulk metadata processed successfully.",
}


def answer(example: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of an answer: an object with exactly these fields."""
    schema = {
        "type": "object",
        "required": list(example),
        "properties": {name: {} for name in example},
        "example": example,
    }
    content = {"application/json": {"schema": schema}}
    return {
        200: {"description": "Done.", "content": content},
        202: {"description": "Safe in the log, not yet applied.", "content": content},
        400: {"description": "Something is missing or wrong; it is named.", "content": CONTENT},
    }
