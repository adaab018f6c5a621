"""The JSON Schemas of observations, facts and the envelope. They are no secret."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from lily.api.deps import Segment
from lily.api.rest.assets import json
from lily.errors import NotFound
from lily.events import schemas

router = APIRouter(prefix="/schemas", tags=["schemas"])


@router.get("", include_in_schema=False)
@router.get("/", summary="What travels through Lily")
def listed() -> dict[str, Any]:
    items = [
        {"name": name, "$id": schemas.identifier(name), "url": f"/schemas/{name}.json"}
        for name in schemas.names()
    ]
    return {"version": schemas.VERSION, "items": items, "next": None}


@router.get("/{file}", summary="One schema, with an example")
def one(file: Segment) -> Response:
    """`/schemas/AssetSeen.json`, and so on for each name in the list."""
    name = file.removesuffix(".json")
    if name == file or name not in schemas.names():
        raise NotFound("schema", file)
    return json(schemas.schema(name))
