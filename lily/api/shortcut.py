"""Hot routes skip what they do not need: the router's long list, and the layers around it."""

from collections.abc import Awaitable, Callable, Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lily.api.problems import problem_response
from lily.api.refused import refused
from lily.errors import Forbidden, LilyError

Endpoint = Callable[[Request], Awaitable[Response]]


class Shortcut:
    """Answers one declared route itself; everything else goes on as usual.

    The route ends in one `{id}` or has no parameter. Words that are routes of their own in the
    place of that id are left to the router.
    """

    def __init__(self, app: ASGIApp, route: Route, routes: Iterable[BaseRoute]) -> None:
        self.app = app
        self.route = route
        self.endpoint: Endpoint = route.endpoint
        self.methods = route.methods or set()
        self.prefix, _, parameter = route.path.partition("{")
        self.parameter = parameter.rstrip("}")
        self.reserved = _reserved(self.prefix, routes) if self.parameter else frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in self.methods and self._fits(scope):
            await self._answer(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _fits(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if not path.startswith(self.prefix):
            return False
        rest = path[len(self.prefix) :]
        if not self.parameter:
            return not rest
        if not rest or "/" in rest or rest in self.reserved:
            return False
        scope["path_params"] = {self.parameter: rest}
        return True

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route
        request = Request(scope, receive)
        try:
            response = await self.endpoint(request)
        except Forbidden as exc:
            response = await refused(request, exc)
        except LilyError as exc:
            response = problem_response(exc, scope["path"])
        await response(scope, receive, send)


def _reserved(prefix: str, routes: Iterable[BaseRoute]) -> frozenset[str]:
    paths = (getattr(route, "path", "") for route in routes)
    return frozenset(path[len(prefix) :] for path in paths if path.startswith(prefix))
