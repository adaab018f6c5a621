"""Search over assets: words, filters, facets, pages."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lily.api.deps import ServicesDep, requires
from lily.assets.model import public
from lily.assets.query import LIMIT, MOST, parse
from lily.store.incident_views import shown_with
from lily.store.search import search
from lily.types import Caller

router = APIRouter(prefix="/api/v1/metadata", tags=["assets"])


def _parameter(
    name: str, description: str, example: object = None, many: bool = False, **schema: Any
) -> dict[str, Any]:
    plain = {"type": "string", **schema}
    said = {"in": "query", "name": name, "required": False, "description": description}
    said["schema"] = {"type": "array", "items": plain} if many else plain
    return {**said, "example": example} if example is not None else said


PARAMETERS = [
    _parameter("q", "Words. All must match; the last one also as a prefix.", "customer ord"),
    _parameter("asset_type", "One of these types.", ["table"], many=True),
    _parameter("tag", "All of these effective tags.", ["PII"], many=True),
    _parameter("data_source", "One of these sources.", ["postgres"], many=True),
    _parameter("owner", "One of these owners.", ["ada@example.com"], many=True),
    _parameter(
        "health",
        "Assets with open incidents: grave ones, or only others.",
        many=True,
        enum=["failing", "degraded"],
    ),
    _parameter("incident", "`open`: assets that have an open incident.", many=True, enum=["open"]),
    _parameter("business_term", "All of these terms.", ["Churn"], many=True),
    _parameter("updated_since", "Changed at this time or later.", format="date-time"),
    _parameter(
        "deleted", "`true` finds deleted ones only, `any` both.", enum=["false", "true", "any"]
    ),
    _parameter(
        "limit", "How many at most.", type="integer", minimum=1, maximum=MOST, default=LIMIT
    ),
    _parameter("after", "`next` of the page before."),
    {
        "in": "query",
        "name": "metadata",
        "required": False,
        "description": "`metadata.<key>=<value>`: plain metadata values, all must hold.",
        "style": "form",
        "explode": True,
        "schema": {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {"^metadata\\..+$": {"type": "string"}},
        },
    },
]
FOUND = {
    "type": "object",
    "required": ["items", "next", "total", "total_is_exact", "facets"],
    "properties": {
        "items": {"type": "array", "items": {"type": "object"}},
        "next": {"type": ["string", "null"]},
        "total": {"type": "integer", "description": "Exact to 1,000, then at least."},
        "total_is_exact": {"type": "boolean"},
        "facets": {
            "type": "object",
            "description": "Counts by value, over the first 1,000 matches or more.",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {"type": "integer"},
            },
        },
    },
}


@router.get(
    "/search",
    summary="Search assets",
    response_class=Response,
    responses={200: {"content": {"application/json": {"schema": FOUND}}}},
    openapi_extra={"parameters": PARAMETERS},
)
def find(
    request: Request, caller: Annotated[Caller, requires("assets:read")], services: ServicesDep
) -> Response:
    """Best matches first: exact name, all words in the name, the qualified name, anywhere."""
    query = parse(request.query_params.multi_items())
    with services.core.database.reading(caller.tenant) as unit:
        found = search(unit, query)
        ill = shown_with(unit, found.assets)
    answer = {
        "items": [{**public(a, caller.tenant.id), **ill.get(a.guid, {})} for a in found.assets],
        "next": found.next,
        "total": found.total,
        "total_is_exact": found.total_is_exact,
        "facets": found.facets,
    }
    return Response(msgspec.json.encode(answer), media_type="application/json")
