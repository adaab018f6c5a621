"""Around every request: its id, its trace, its log line, its metric, and a net for what escapes."""

import logging
import re
import time
from uuid import uuid4

from prometheus_client import Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lily import telemetry
from lily.api.problems import problem_response
from lily.telemetry import HTTP_SECONDS, logger

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
SLOW = 1.0  # seconds
INGEST = "/api/v1/metadata"
_QUIET = {"/healthz", "/readyz", "/metrics"}


class Edge:
    """Gives each request an id and a trace, and never lets an exception out."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.reporter = Reporter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request = _request_id(headers.get("x-request-id"))
        # One task a request: what is set here ends with it.
        telemetry.request_id.set(request)
        telemetry.traceparent.set(str(telemetry.child_trace(headers.get("traceparent"))))
        telemetry.tenant.set("")
        _route_on_the_raw_path(scope)
        await self._answer(scope, receive, send, (b"x-request-id", request.encode()))

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, mark: tuple[bytes, bytes]
    ) -> None:
        began, status = time.perf_counter(), 0

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], mark]
            await send(message)

        try:
            await self.app(scope, receive, marked)
        except Exception as exc:  # noqa: BLE001 the last net: a problem, not a broken connection
            response = problem_response(exc, scope["path"])
            if status == 0:
                await response(scope, receive, marked)
        finally:
            self.reporter.tell(scope, status, time.perf_counter() - began)


class Reporter:
    """A metric and a log line for each request; looks up as little as it can."""

    def __init__(self) -> None:
        self._log = logger("lily.api")
        self._levels = logging.getLogger("lily.api")
        self._series: dict[tuple[str, str, int], Histogram] = {}

    def tell(self, scope: Scope, status: int, seconds: float) -> None:
        route = _template(scope)
        self._histogram(scope["method"], route, status).observe(seconds)
        level = _level(scope, status, seconds)
        if self._levels.isEnabledFor(level):
            self._log.log(
                level,
                "request",
                method=scope["method"],
                path=scope["path"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 1),
            )

    def _histogram(self, method: str, route: str, status: int) -> Histogram:
        known = self._series.get((method, route, status))
        if known is None:
            name = method if method in _METHODS else "other"
            known = HTTP_SECONDS.labels(name, route, str(status))
            if name == method:
                self._series[method, route, status] = known
        return known


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _level(scope: Scope, status: int, seconds: float) -> int:
    """Reads and observations that went well are many; they are measured, and logged on demand."""
    if status >= 500:
        return logging.WARNING if status == 503 else logging.ERROR
    often = scope["method"] in ("GET", "HEAD") or scope["path"] == INGEST
    well = often and 0 < status < 400 and seconds < SLOW
    return logging.DEBUG if well or scope["path"] in _QUIET else logging.INFO


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
    return given if given and _ID.fullmatch(given) else uuid4().hex
