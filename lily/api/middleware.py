"""Around every request: its id, its trace, its log line, its metric, and a net for what escapes."""

import re
import time
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lily import telemetry
from lily.api.problems import problem_response
from lily.telemetry import HTTP_SECONDS, logger

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_QUIET = {"/healthz", "/readyz", "/metrics"}


class Edge:
    """Gives each request an id and a trace, and never lets an exception out."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request = _request_id(headers.get("x-request-id"))
        trace = str(telemetry.child_trace(headers.get("traceparent")))
        tokens = (
            telemetry.request_id.set(request),
            telemetry.traceparent.set(trace),
            telemetry.tenant.set(""),
        )
        try:
            await _Exchange(self.app, request).run(scope, receive, send)
        finally:
            telemetry.request_id.reset(tokens[0])
            telemetry.traceparent.reset(tokens[1])
            telemetry.tenant.reset(tokens[2])


class _Exchange:
    """One request and its answer."""

    def __init__(self, app: ASGIApp, request: str) -> None:
        self.app = app
        self.request = request
        self.status = 0

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = self.request
            await send(message)

        _route_on_the_raw_path(scope)
        try:
            await self.app(scope, receive, answer)
        except Exception as exc:  # noqa: BLE001 the last net: a problem, not a broken connection
            response = problem_response(exc, scope["path"])
            if self.status == 0:
                await response(scope, receive, answer)
        finally:
            self._report(scope, time.perf_counter() - began)

    def _report(self, scope: Scope, seconds: float) -> None:
        route = _template(scope)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        HTTP_SECONDS.labels(method, route, str(self.status)).observe(seconds)
        if scope["path"] in _QUIET:
            return
        logger("lily.api").info(
            "request",
            method=scope["method"],
            path=scope["path"],
            route=route,
            status=self.status,
            ms=round(seconds * 1000, 1),
        )


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _template(scope: Scope) -> str:
    """The route as it was declared: few values, and no ids in them."""
    known: dict[object, str] = scope["app"].state.templates
    declared: str | None = getattr(scope.get("route"), "path", None)
    return declared or known.get(scope.get("endpoint"), "none")


def _route_on_the_raw_path(scope: Scope) -> None:
    """So that an encoded slash or hash stays inside its path parameter."""
    if raw := scope.get("raw_path"):
        scope["path"] = raw.split(b"?", 1)[0].decode("latin-1")


def _request_id(given: str | None) -> str:
    return given if given and _ID.fullmatch(given) else str(uuid4())
