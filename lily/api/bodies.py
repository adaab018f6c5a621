"""JSON bodies whose fields are not fixed: decoded once, described by an example."""

from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request

from lily.api.hot import parse
from lily.errors import Invalid


async def _object(request: Request) -> dict[str, Any]:
    body = parse(await request.body())
    if not isinstance(body, dict):
        raise Invalid("must be a JSON object", "body")
    return body


Document = Annotated[dict[str, Any], Depends(_object)]


def described(example: dict[str, Any], schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """What OpenAPI should say of a body; for `openapi_extra`."""
    content = {"schema": schema or {"type": "object"}, "example": example}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}
