"""What routes ask for: the services, the caller with a scope, decoded path parameters."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, cast
from urllib.parse import unquote
from uuid import UUID

from fastapi import Depends, Path, Query, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import AfterValidator
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from lily import telemetry
from lily.access.model import Action, Decision, Situation
from lily.errors import Forbidden, Invalid, NotFound
from lily.identity.actor import Actor
from lily.identity.roles import Scope
from lily.identity.verifier import Verified
from lily.store.database import LEAST, SIGHT
from lily.store.rights import RIGHTS
from lily.types import Caller
from lily.wiring import Services

CALLER = "lily.caller"
MIN_POSITION = "lily-min-position"

_bearer = HTTPBearer(auto_error=False, scheme_name="bearer", description="JWT or personal token")


def services_of(request: Request) -> Services:
    return cast(Services, request.app.state.services)


async def _services(request: Request) -> Services:
    """The same for FastAPI, which would ask a thread for what is not asynchronous."""
    return services_of(request)


def header_of(request: Request) -> str | None:
    """All Authorization headers: two of them are not one good one."""
    return ", ".join(request.headers.getlist("authorization")) or None


async def authenticated(request: Request) -> Caller:
    """The caller; at once when the token was seen lately, in a thread when it must be looked up."""
    verifier = services_of(request).identity.verifier
    header = header_of(request)
    caller = verifier.cached(header)
    if caller is None:
        caller = await run_in_threadpool(verifier.authenticate, header)
    telemetry.tenant.set(caller.tenant.name)
    request.scope[CALLER] = caller
    LEAST.set(_least(request.headers.get(MIN_POSITION)))
    SIGHT.set(await _sight(services_of(request), caller))
    RIGHTS.set(partial(_rights, services_of(request), caller))
    return caller


def _least(given: str | None) -> int | None:
    """The position that the answer must have reached, if the caller knows it."""
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise Invalid("is a position of the feed, as Lily-Position told it", MIN_POSITION)
    return int(given)


def _rights(
    services: Services, caller: Caller, action: Action, assets: Sequence[str]
) -> list[Decision | None]:
    """Everything that this request changes of assets is asked of the policies."""
    guard, now = services.guard, services.core.clock.now()
    who = guard.principal(caller.tenant, caller.name, [caller.role])
    return guard.changing(caller.tenant, who, action, assets, Situation(now))


async def _sight(services: Services, caller: Caller) -> str:
    """Everything that this request reads of assets is read with the caller's eyes."""
    guard, now = services.guard, services.core.clock.now()
    asked = (caller.tenant, caller.name, [caller.role], now)
    if guard.is_fresh(caller.tenant):
        return guard.sight(*asked)
    return await run_in_threadpool(guard.sight, *asked)


async def caller_of(request: Request, scope: Scope | None) -> Caller:
    """The caller, who may do this."""
    caller = await authenticated(request)
    if scope is not None and not caller.may(scope):
        raise Forbidden(f"This needs the right {scope}, which your role does not have.")
    return caller


def look_again(services: Services, caller: Caller) -> None:
    """Bring the eyes of a request that lasts up to date. Call it from a thread."""
    now = services.core.clock.now()
    SIGHT.set(services.guard.sight(caller.tenant, caller.name, [caller.role], now))


class Requires:
    """A dependency that gives the caller, and tells which scope the route needs."""

    def __init__(self, scope: Scope | None) -> None:
        self.scope = scope

    async def __call__(
        self,
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    ) -> Caller:
        return await caller_of(request, self.scope)


def requires(scope: Scope | None = None) -> Any:
    """`caller: Annotated[Caller, requires("assets:read")]`; without a scope: anybody known."""
    return Depends(Requires(scope))


Endpoint = Callable[[Request, Caller], Awaitable[Response]]


def guarded(
    scope: Scope, operation: Mapping[str, Any] | None = None
) -> Callable[[Endpoint], Callable[[Request], Awaitable[Response]]]:
    """The same for a plain Starlette route: the endpoint gets the request and the caller.

    `operation` is what OpenAPI shows of it; without one the route is not shown.
    """

    def wrap(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            return await endpoint(request, await caller_of(request, scope))

        handle.__name__ = getattr(endpoint, "__name__", "handle")
        handle.__doc__ = endpoint.__doc__
        handle.requires = Requires(scope)  # type: ignore[attr-defined]
        handle.operation = operation  # type: ignore[attr-defined]
        return handle

    return wrap


def requirement_of(route: BaseRoute) -> Requires | None:
    """What a route declares; None is public."""
    declared = getattr(getattr(route, "endpoint", None), "requires", None)
    if isinstance(declared, Requires):
        return declared
    dependant = getattr(route, "dependant", None)
    calls = [each.call for each in getattr(dependant, "dependencies", [])]
    return next((call for call in calls if isinstance(call, Requires)), None)


def actor_of(caller: Caller) -> Actor:
    return Actor(caller.name, telemetry.request_id.get(), telemetry.traceparent.get())


def stranger() -> Actor:
    """For what happens before anybody is known."""
    return Actor("unknown", telemetry.request_id.get(), telemetry.traceparent.get())


def address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def verified(request: Request) -> Verified:
    """The token behind the caller. Call it from a thread."""
    return services_of(request).identity.verifier.verified(header_of(request))


def decoded(value: str) -> str:
    """A path parameter as it was meant: routing leaves it percent-encoded."""
    text = unquote(value, errors="strict")
    if "\x00" in text:
        raise ValueError("may not contain the character NUL")
    return text


def uuid_of(what: str, text: str) -> UUID:
    """An id; one that cannot exist reads like one that does not."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(what, text) from None


Segment = Annotated[str, Path(), AfterValidator(decoded)]
AssetKey = Annotated[
    str,
    Path(description="The guid, an alias, or the percent-encoded qualified name."),
    AfterValidator(decoded),
]
ServicesDep = Annotated[Services, Depends(_services)]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
After = Annotated[
    str, Query(max_length=1000, description="`next` of the page before.", pattern="^[^\\x00]*$")
]
