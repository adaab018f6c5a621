"""What OpenAPI shows of the hot routes, which are plain Starlette."""

from typing import Any

from lily.api.examples import ASSET, GUID, NAME

CAUSE = "b7c0a3f2-5d0a-4a52-a3d1-7a9e6f0e9f11"
ONE: dict[str, Any] = {
    "asset_id": "people",
    "qualified_name": NAME,
    "asset_type": "table",
    "data_source": "postgres",
    "description": "Everybody we sell to.",
    "tags": ["PII"],
    "metadata": {"rows": 1200},
    "observed_at": "2026-01-31T12:00:00Z",
}
MANY: list[dict[str, Any]] = [ONE, {"qualified_name": f"{NAME}#email", "asset_type": "column"}]
BRIEF: dict[str, Any] = {"outcome": "accepted", "guid": GUID, "cause": CAUSE}
REFUSED: dict[str, Any] = {
    "status": 422,
    "outcome": "rejected",
    "guid": None,
    "cause": "",
    "errors": [{"field": "[1].asset_name", "message": "must be a text, not a number"}],
}
CREATED: dict[str, Any] = {"status": 201, "outcome": "created", "guid": GUID, "cause": CAUSE}

_TEXT = {"type": ["string", "null"]}
_NAME = {"type": "string", "pattern": "^[^\\s\\x00]", "maxLength": 4000}
_TIME = {**_TEXT, "description": "ISO 8601; without an offset it is UTC."}
_LABELS = {"type": ["array", "null"], "items": {"type": "string"}}
OBSERVED: dict[str, Any] = {
    "type": "object",
    "description": "A source's statement of an asset. It needs a `qualified_name`, an `asset_id` or"
    " an `asset_name`; unknown fields go into `metadata`.",
    "anyOf": [
        {"required": ["qualified_name"]},
        {"required": ["asset_id"]},
        {"required": ["asset_name"]},
    ],
    "properties": {
        "asset_id": {**_NAME, "description": "Your own id; an alias beside a qualified_name."},
        "qualified_name": {
            **_NAME,
            "description": "`{namespace}/{name}`, a field `{parent}#{name}`.",
        },
        "asset_name": _NAME,
        "asset_type": _TEXT,
        "asset_owner": _TEXT,
        "description": _TEXT,
        "parent_id": _TEXT,
        "data_source": _TEXT,
        "external_id": _TEXT,
        "source": {**_TEXT, "description": "Who claims this; the data_source if absent."},
        "tags": _LABELS,
        "business_terms": _LABELS,
        "metadata": {"type": ["object", "null"]},
        "observed_at": {**_TIME, "description": "When it was true; the time of arrival if absent."},
        "created_at": _TIME,
        "partial": {
            "type": ["boolean", "null"],
            "description": "Only the given fields replace, and metadata keys merge.",
        },
        "is_deleted": {"type": ["boolean", "null"], "description": "The source no longer sees it."},
    },
}
OUTCOME: dict[str, Any] = {
    "type": "object",
    "required": ["outcome", "guid", "cause"],
    "properties": {
        "outcome": {"enum": ["created", "updated", "unchanged", "rejected", "accepted"]},
        "guid": {"type": ["string", "null"]},
        "cause": {"type": "string", "description": "The id of the observation."},
        "status": {"type": "integer"},
        "asset_id": {"type": "string"},
        "asset": {"$ref": "#/components/schemas/AssetShown"},
        "version": {"type": "integer", "description": "Instead of the asset, where asked so."},
        "errors": {"type": "array", "items": {"type": "object"}},
        "shadowed": {"type": "array", "items": {"type": "string"}},
    },
}
OUTCOMES: dict[str, Any] = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "items": OUTCOME}},
}
_ASSET = {"$ref": "#/components/schemas/AssetShown"}
_ETAG = {"ETag": {"description": "The version, quoted.", "schema": {"type": "string"}}}
_PLACE = {"Location": {"description": "Where it will be.", "schema": {"type": "string"}}}


def _json(schema: dict[str, Any], **examples: Any) -> dict[str, Any]:
    shown = {name: {"value": value} for name, value in examples.items()}
    return {"application/json": {"schema": schema, "examples": shown}}


INGEST: dict[str, Any] = {
    "tags": ["assets"],
    "summary": "Observe one asset, or a list of at most 1000",
    "description": "Waits until the observation is applied and answers with the asset as it is now."
    " `Prefer: respond-async` answers 202 as soon as it is durable; `Prefer: return=minimal` waits,"
    " and answers with the outcome and the version alone.",
    "operationId": "observe",
    "parameters": [
        {
            "in": "header",
            "name": "Prefer",
            "required": False,
            "schema": {"type": "string", "enum": ["respond-async", "return=minimal"]},
        }
    ],
    "requestBody": {
        "required": True,
        "content": _json(
            {"oneOf": [OBSERVED, {"type": "array", "items": OBSERVED, "maxItems": 1000}]},
            one=ONE,
            many=MANY,
        ),
    },
    "responses": {
        "200": {
            "description": "Known already: changed or not. Or the outcomes of a list.",
            "headers": _ETAG,
            "content": _json(
                {"anyOf": [_ASSET, OUTCOMES, OUTCOME]}, one=ASSET, many={"items": [CREATED]}
            ),
        },
        "201": {
            "description": "A new asset.",
            "headers": _ETAG,
            "content": _json({"anyOf": [_ASSET, OUTCOME]}, one=ASSET),
        },
        "202": {
            "description": "Durable, not yet applied.",
            "headers": _PLACE,
            "content": _json(
                {"anyOf": [OUTCOMES, OUTCOME]},
                one=BRIEF,
                many={"items": [{"status": 202, **BRIEF}]},
            ),
        },
        "207": {
            "description": "A list of which some were refused.",
            "content": _json(OUTCOMES, many={"items": [CREATED, REFUSED]}),
        },
    },
}
READ: dict[str, Any] = {
    "tags": ["assets"],
    "summary": "Read an asset",
    "description": "By guid, alias, or percent-encoded qualified name.",
    "operationId": "read_asset",
    "parameters": [
        {
            "in": "path",
            "name": "id",
            "required": True,
            "description": "The guid, an alias, or the percent-encoded qualified name.",
            "schema": {"type": "string"},
            "example": GUID,
        }
    ],
    "responses": {
        "200": {
            "description": "As it is now.",
            "headers": _ETAG,
            "content": _json(_ASSET, one=ASSET),
        }
    },
}

DECISION: dict[str, Any] = {
    "type": "object",
    "required": ["asset", "decision", "reason", "policy_id", "policies"],
    "properties": {
        "asset": {"type": "string"},
        "decision": {"enum": ["allow", "deny", "mask", "filter"]},
        "reason": {"type": "string"},
        "policy_id": {"type": ["string", "null"]},
        "policies": {"type": "array", "items": {"type": "string"}},
        "mask": {"type": "object"},
        "filters": {"type": "array", "items": {"type": "string"}},
    },
}
DECISIONS: dict[str, Any] = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "items": DECISION}},
}
QUESTION: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "principal": {
            "description": "Who asks; the caller if absent.",
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "required": ["user"],
                    "properties": {
                        "user": {"type": "string"},
                        "roles": {"type": "array", "items": {"type": "string"}},
                        "groups": {"type": "array", "items": {"type": "string"}},
                    },
                },
                {"type": "null"},
            ],
        },
        "action": {"enum": ["READ", "WRITE", "DELETE"], "default": "READ"},
        "asset": {"type": "string", "description": "Guid, alias or qualified name."},
        "assets": {"type": "array", "items": {"type": "string"}, "maxItems": 1000},
        "context": {
            "type": "object",
            "properties": {"purpose": {"type": "string"}, "network": {"type": "string"}},
        },
    },
}
ASKED: dict[str, Any] = {
    "principal": {"user": "ana", "groups": ["analysts"]},
    "action": "READ",
    "asset": f"{NAME}#email",
    "context": {"purpose": "support"},
}
DECIDED: dict[str, Any] = {
    "asset": f"{NAME}#email",
    "decision": "mask",
    "reason": "masked (null) by 'PII is masked'",
    "policy_id": CAUSE,
    "policies": [CAUSE],
    "mask": {"kind": "null"},
}
CHECK: dict[str, Any] = {
    "tags": ["access"],
    "summary": "Decide whether somebody may do something",
    "description": "One question, a list of them, or `checks`; `assets` asks the same of several."
    " At most 1,000 decisions. Never older than two seconds; 503 when that cannot be promised.",
    "operationId": "check_access",
    "requestBody": {
        "required": True,
        "content": _json(
            {
                "anyOf": [
                    QUESTION,
                    {"type": "array", "items": QUESTION, "maxItems": 1000},
                    {
                        "type": "object",
                        "required": ["checks"],
                        "properties": {"checks": {"type": "array", "items": QUESTION}},
                    },
                ]
            },
            one=ASKED,
            many=[ASKED],
        ),
    },
    "responses": {
        "200": {
            "description": "What holds now, the policy that says so, and the reason.",
            "content": _json(
                {"anyOf": [DECISION, DECISIONS]}, one=DECIDED, many={"items": [DECIDED]}
            ),
        }
    },
}
