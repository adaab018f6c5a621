"""Errors to RFC 9457 problems, in one place."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lily import errors
from lily.errors import FieldError, Invalid, LilyError
from lily.telemetry import logger, request_id

STATUS: Mapping[type[LilyError], int] = {
    errors.Invalid: 422,
    errors.Reject: 422,
    errors.PluginError: 422,
    errors.Unreadable: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Stale: 412,
    errors.TooLarge: 413,
    errors.Throttled: 429,
    errors.Unavailable: 503,
    errors.Fenced: 503,
    errors.Retry: 503,
}
TITLES = {404: "Not found", 405: "Method not allowed"}
DETAILS = {404: "There is nothing at this path.", 405: "This path does not take that method."}

# The source documents know 400 for everything that is wrong with a request.
_DOCUMENTS = re.compile(r"/(ingest-metadata|metadata|ingest_metadata|lily/v1)(/|$)")


class Problem(msgspec.Struct, frozen=True):
    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


def status_of(exc: LilyError, path: str) -> int:
    """Invalid fields are 422, and 400 on the paths of the source documents."""
    status = next((STATUS[kind] for kind in type(exc).__mro__ if kind in STATUS), 500)
    return 400 if status == 422 and _DOCUMENTS.match(path) else status


def problem_of(exc: LilyError, path: str) -> Problem:
    fields = exc.errors if isinstance(exc, Invalid) else []
    return Problem(_type(type(exc).__name__), exc.title, status_of(exc, path), str(exc), fields)


def problem_response(exc: Exception, path: str) -> Response:
    """For anybody who has an error and needs an answer."""
    if isinstance(exc, LilyError):
        return _respond(problem_of(exc, path), _headers(exc))
    if isinstance(exc, RequestValidationError):
        return problem_response(_validation(exc.errors()), path)
    if isinstance(exc, HTTPException):
        return _http(exc)
    return _unexpected(exc)


async def handle(request: Request, exc: Exception) -> Response:
    return problem_response(exc, request.url.path)


def _validation(found: Sequence[Mapping[str, Any]]) -> LilyError:
    if any(error["type"] == "json_invalid" for error in found):
        return errors.Unreadable("The body is not valid JSON.")
    return Invalid([FieldError(_field(error["loc"]), str(error["msg"])) for error in found])


def _field(loc: Sequence[object]) -> str:
    """Where, without the part of the request: nobody sends a field named `body`."""
    parts = loc[1:] if loc and loc[0] in ("body", "query", "path", "header") else loc
    return ".".join(map(str, parts)) or "body"


def _http(exc: HTTPException) -> Response:
    title = TITLES.get(exc.status_code, "The request cannot be answered")
    detail = DETAILS.get(exc.status_code, exc.detail)
    name = "NotFound" if exc.status_code == 404 else "Http"
    problem = Problem(_type(name), title, exc.status_code, detail)
    return _respond(problem, dict(exc.headers or {}))


def _unexpected(exc: Exception) -> Response:
    logger("lily.api").error("unexpected error", exc_info=exc)
    detail = f"Something unexpected happened; the log has it under request {request_id.get()}."
    return _respond(Problem(_type("Unexpected"), LilyError.title, 500, detail), {})


def _headers(exc: LilyError) -> dict[str, str]:
    if isinstance(exc, errors.Unauthenticated):
        return {"WWW-Authenticate": 'Bearer realm="lily"'}
    after = getattr(exc, "after", None)
    if isinstance(exc, errors.Throttled | errors.Unavailable | errors.Retry | errors.Fenced):
        return {"Retry-After": str(max(1, math.ceil(after or 1)))}
    return {}


def _type(name: str) -> str:
    return "urn:lily:problem:" + re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def _respond(problem: Problem, headers: dict[str, str]) -> Response:
    body = msgspec.json.encode(problem)
    return Response(body, problem.status, headers, "application/problem+json")
