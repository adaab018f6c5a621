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


@router.get("/{name}.json", summary="One schema, with an example")
def one(name: Segment) -> Response:
    if name not in schemas.names():
        raise NotFound("schema", name)
    return json(schemas.schema(name))
