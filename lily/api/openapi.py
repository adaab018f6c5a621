"""The description of the API: all routes, plain ones too, with problems as they really look."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute, Route

from lily.api.deps import requirement_of

PROBLEM = {
    "type": "object",
    "description": "RFC 9457: what went wrong, where, and what to do.",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:lily:problem:invalid"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
CONTENT = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
ALWAYS = {"4XX": "The request cannot be answered as it is.", "5XX": "Try again later."}
KNOWN = {"401": "No valid token.", "403": "The role does not allow this."}


def describe(app: FastAPI) -> dict[str, Any]:
    """Made once; FastAPI keeps it."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        for route in app.routes:
            _add_plain(schema, route)
            _complete(schema, route)
        parts = schema.setdefault("components", {}).setdefault("schemas", {})
        parts["Problem"] = PROBLEM
        for unused in ("HTTPValidationError", "ValidationError"):
            parts.pop(unused, None)
        app.openapi_schema = schema
    return app.openapi_schema


def _add_plain(schema: dict[str, Any], route: BaseRoute) -> None:
    operation = getattr(getattr(route, "endpoint", None), "operation", None)
    if not isinstance(route, Route) or operation is None:
        return
    shared = {"responses": {}, **operation, "security": [{"bearer": []}]}
    shared["parameters"] = [*_path_parameters(route), *operation.get("parameters", [])]
    for method in (route.methods or set()) - {"HEAD"}:
        path = schema["paths"].setdefault(route.path_format, {})
        path[method.lower()] = {**shared, "responses": dict(shared["responses"])}


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in route.param_convertors
    ]


def _complete(schema: dict[str, Any], route: BaseRoute) -> None:
    """Problems and the scope, for each method of a route."""
    needed = requirement_of(route)
    wanted = {**(KNOWN if needed else {}), **ALWAYS}
    for method in getattr(route, "methods", None) or ():
        path = schema["paths"].get(getattr(route, "path_format", ""), {})
        operation = path.get(method.lower())
        if operation is None:
            continue
        answers = operation.setdefault("responses", {})
        answers.pop("422", None)
        for status, text in wanted.items():
            answers.setdefault(status, {"description": text, "content": CONTENT})
        if needed is not None and needed.scope is not None:
            operation["x-scope"] = needed.scope
