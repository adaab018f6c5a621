"""How edges and graphs look in requests and answers, with an example of each."""

from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from lily.api.examples import AT, GUID, NAME

OTHER = "8e2d7c40-1b7a-5d0e-8f53-9a0c1d2e3f40"
EDGE_ID = "2a4be8c1-93f0-5a27-8a58-6d1f30c2b7e4"
TARGET = "postgres://db.example.com:5432/shop.public.newsletter"
STATED: dict[str, Any] = {
    "from_asset_id": NAME,
    "to_asset_id": TARGET,
    "relationship_type": "feeds",
    "process": "nightly",
    "transformation": "active people only",
    "columns": [{"from": "email", "to": "address", "transformation": "lower(email)"}],
}
_TEXT = {"type": ["string", "null"], "pattern": "^[^\\x00]*$", "maxLength": 4000}
_NAME = {"type": "string", "pattern": "^[^\\s\\x00]", "maxLength": 4000}
STATEMENT: dict[str, Any] = {
    "type": "object",
    "required": ["from_asset_id", "to_asset_id"],
    "description": "An edge between two assets, by id, qualified name or alias. Unknown ends become"
    " placeholders; unknown fields go into `properties`.",
    "properties": {
        "from_asset_id": _NAME,
        "to_asset_id": _NAME,
        "relationship_type": {
            **_TEXT,
            "maxLength": 256,
            "description": "`depends-on`, `uses` and `references` flow from `to` to `from`, all"
            " others from `from` to `to`; `contains` sets the parent of `to`.",
        },
        "process": _TEXT,
        "transformation": _TEXT,
        "masking": {"type": ["boolean", "null"]},
        "properties": {"type": ["object", "null"]},
        "source": {**_TEXT, "description": "Who claims this; without one it is your own word."},
        "observed_at": {"type": ["string", "null"], "format": "date-time"},
        "columns": {
            "type": ["array", "null"],
            "maxItems": 5000,
            "items": {
                "type": "object",
                "required": ["from", "to"],
                "properties": {
                    "from": _NAME,
                    "to": _NAME,
                    "transformation": _TEXT,
                    "masking": {"type": ["boolean", "null"]},
                },
            },
        },
    },
}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "oneOf": [STATEMENT, {"type": "array", "items": STATEMENT, "maxItems": 1000}]
                },
                "examples": {"one": {"value": STATED}, "many": {"value": [STATED]}},
            }
        },
    },
    "parameters": [
        {
            "in": "header",
            "name": "Prefer",
            "required": False,
            "schema": {"type": "string", "enum": ["respond-async"]},
        }
    ],
}
EDGE: dict[str, Any] = {
    "edge_id": EDGE_ID,
    "from_asset_id": OTHER,
    "to_asset_id": GUID,
    "from": OTHER,
    "to": GUID,
    "upstream": OTHER,
    "downstream": GUID,
    "relationship_type": "feeds",
    "level": "table",
    "process": "nightly",
    "transformation": "active people only",
    "masking": False,
    "origin": "person",
    "source": "person",
}
NODE: dict[str, Any] = {
    "asset_id": GUID,
    "guid": GUID,
    "qualified_name": NAME,
    "asset_name": "people",
    "asset_type": "table",
    "depth": 0,
    "direction": "root",
    "tags": ["PII"],
}


def _like(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="allow", json_schema_extra={"examples": [example]})


class EdgeShown(BaseModel):
    """An edge; `upstream` and `downstream` say how the data flows, whatever the label's order.

    A list answers `items`; of `contains` there is no edge, but `parent` and `child`.
    """

    model_config = _like(
        {**EDGE, "properties": {}, "version": 1, "is_deleted": False, "created_at": AT,
         "updated_at": AT, "outcome": "created"}
    )  # fmt: skip

    edge_id: UUID | None = None
    relationship_type: str | None = None
    items: list[dict[str, Any]] | None = None


class EdgeList(BaseModel):
    items: list[dict[str, Any]]


class Graph(BaseModel):
    """A page of the graph; `truncated` says that this is not all of it."""

    model_config = _like(
        {"root": GUID, "direction": "downstream", "depth": 5, "nodes": [NODE],
         "edges": [{**EDGE, "implied": False}], "next": None, "truncated": False}
    )  # fmt: skip

    root: UUID
    direction: str
    depth: int
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    next: str | None
    truncated: bool


class Impact(BaseModel):
    """What depends on an asset, in numbers."""

    model_config = _like(
        {"root": GUID, "direction": "downstream", "depth": 20, "total": 3,
         "kinds": {"table": 2, "dashboard": 1}, "owners": {"ann": 2, "": 1}, "tags": {"PII": 3},
         "depths": {"1": 2, "2": 1}, "truncated": False}
    )  # fmt: skip

    root: UUID
    total: int
    kinds: dict[str, int]
    owners: dict[str, int]
    tags: dict[str, int]
    depths: dict[str, int]
    truncated: bool
