"""Tools that call us: each at an address of its own, proven before anything is stored."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid5

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from lily import plugins, telemetry
from lily.api.deps import ServicesDep
from lily.errors import Forbidden, Invalid, NotFound, PluginError, Reject, TooLarge, Unreadable
from lily.events.envelope import Envelope
from lily.identity.actor import Actor
from lily.log.postgres import Record, record_of
from lily.sdk import signing
from lily.sdk.webhooks import ARRIVED_AT, Arrived, Claims, Greets, PersonLeft
from lily.store import connections, leaving, webhooks
from lily.store.webhooks import Endpoint
from lily.telemetry import WEBHOOKS, logger
from lily.types import Tenant
from lily.wiring import Services

router = APIRouter(prefix="/webhook", tags=["webhooks"])

LIMIT = 1_000_000
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {}, "example": {"type": "…"}}},
    }
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Received, and durable."},
    403: {"description": "The signature is missing or not right; nothing was stored."},
}
Proven = tuple[Tenant, Endpoint, Sequence[Arrived]]


@router.post(
    "/{source}",
    summary="A call that names its account",
    responses=ANSWERS,
    response_class=Response,
    openapi_extra=BODY,
)
async def shared(source: str, request: Request, services: ServicesDep) -> Response:
    """For tools with one address for everybody, as `/webhook/monte-carlo`: the tenant is the one
    whose secret verifies."""
    body = await _body(request)
    proven = await run_in_threadpool(_by_account, services, source, _headers(request), body)
    return await _taken(services, *proven)


@router.post(
    "/{source}/{endpoint}",
    summary="A call to a connection's own address",
    responses=ANSWERS,
    response_class=Response,
    openapi_extra=BODY,
)
@router.post("/{source}/{endpoint}/interactive", include_in_schema=False)
async def own(source: str, endpoint: str, request: Request, services: ServicesDep) -> Response:
    """The address is `webhook_url` of the connection."""
    body = await _body(request)
    proven = await run_in_threadpool(
        _by_address, services, source, endpoint, _headers(request), body
    )
    return await _taken(services, *proven)


@router.get(
    "/{source}/{endpoint}",
    summary="A tool asks whether we are here",
    responses=ANSWERS,
    response_class=Response,
)
def greeted(source: str, endpoint: str, request: Request, services: ServicesDep) -> Response:
    """Okta's one-time verification."""
    tenant, found = _address(services, source, endpoint)
    for plugin in _built(services, tenant, found):
        if not isinstance(plugin, Greets):
            raise NotFound("question", "that this tool asks")
        try:
            return Response(plugin.greet(_headers(request)), media_type="application/json")
        except Reject:
            continue
    raise Forbidden(signing.REFUSAL)


async def _body(request: Request) -> bytes:
    body = await request.body()
    if len(body) > LIMIT:
        raise TooLarge(f"A webhook's body is at most {LIMIT} bytes.")
    return body


def _headers(request: Request) -> dict[str, str]:
    headers = {name.lower(): value for name, value in request.headers.items()}
    now = request.app.state.services.core.clock.now()
    return {**headers, ARRIVED_AT: str(int(now.timestamp()))}


def _name(source: str) -> str:
    """`monte-carlo` is called `montecarlo` among plug-ins."""
    return source.replace("-", "").lower()


def _by_address(
    services: Services, source: str, address: str, headers: Mapping[str, str], body: bytes
) -> Proven:
    tenant, found = _address(services, source, address)
    arrived = _received(services, tenant, found, headers, body)
    if arrived is None:
        WEBHOOKS.labels(found.connection.plugin, "refused").inc()
        raise Forbidden(signing.REFUSAL)
    return tenant, found, arrived


def _by_account(services: Services, called: str, headers: Mapping[str, str], body: bytes) -> Proven:
    """Of all who claim the account, the one whose secret verifies."""
    source = _name(called)
    try:
        kind = plugins.load("webhook", source)
    except PluginError:
        raise NotFound("webhook", called) from None
    account = kind.account_in(body) if issubclass(kind, Claims) else ""
    database = services.core.database
    for number, id in webhooks.claims(database, source, account) if account else ():
        tenant = database.tenant(number)
        with database.unit(tenant) as unit:
            found = webhooks.by_connection(unit, id)
        if found is None or found.connection.plugin != source or not tenant.admitted:
            continue
        arrived = _received(services, tenant, found, headers, body)
        if arrived is not None:
            return tenant, found, arrived
    WEBHOOKS.labels(source, "refused").inc()
    raise Forbidden(signing.REFUSAL)


def _address(services: Services, called: str, address: str) -> tuple[Tenant, Endpoint]:
    """Whose address it is; what nobody was given reads like what does not exist."""
    number, _, token = address.partition("-")
    if number.isascii() and number.isdigit() and len(number) < 10 and token:
        database = services.core.database
        try:
            tenant = database.tenant(int(number))
        except NotFound:
            raise NotFound("webhook", called) from None
        with database.unit(tenant) as unit:
            found = webhooks.by_token(unit, token)
        right = found is not None and found.connection.plugin == _name(called)
        if found is not None and right and tenant.admitted:
            return tenant, found
    raise NotFound("webhook", called)


def _built(services: Services, tenant: Tenant, found: Endpoint) -> Sequence[Any]:
    """The plug-in with its options, and with those before while they still hold."""
    core, made = services.core, []
    about = connections.about(tenant.number, found.connection.id)
    for options, sealed in found.ways(core.clock.now()):
        secrets = core.seal.open(sealed, about) if sealed is not None else None
        whole = plugins.join(options, secrets)
        made.append(plugins.build("webhook", found.connection.plugin, whole))
    return made


def _received(
    services: Services,
    tenant: Tenant,
    found: Endpoint,
    headers: Mapping[str, str],
    body: bytes,
) -> Sequence[Arrived] | None:
    """What the call means; None when it is not proven."""
    for plugin in _built(services, tenant, found):
        try:
            arrived: Sequence[Arrived] = plugin.receive(headers, body)
        except (Reject, Forbidden):
            continue
        except (Unreadable, Invalid):
            raise
        except Exception as cause:
            logger(__name__).error(
                "webhook failed", connection=found.connection.name, reason=type(cause).__name__
            )
            raise Unreadable("The call cannot be understood.") from cause
        return arrived
    return None


async def _taken(
    services: Services, tenant: Tenant, found: Endpoint, arrived: Sequence[Arrived]
) -> Response:
    """Append what was said, then say that we have it."""
    telemetry.tenant.set(tenant.name)
    left = [each for each in arrived if isinstance(each, PersonLeft)]
    records = [_record(tenant, found, e) for e in arrived if not isinstance(e, PersonLeft)]
    if records:
        hot = await services.hot(tenant.cell)
        await hot.appender.append(records)
    if left:
        await run_in_threadpool(_leave, services, tenant, found, left)
    WEBHOOKS.labels(found.connection.plugin, "received").inc()
    return Response(status_code=200)


def _record(tenant: Tenant, found: Endpoint, each: Any) -> Record:
    key = getattr(each, "key", None) or telemetry.request_id.get() + each.qualified_name
    plugin = found.connection.plugin
    envelope = Envelope(
        id=uuid5(tenant.id, f"webhook|{found.connection.id}|{key}"),
        tenant=tenant.number,
        source=plugin,
        by=found.connection.name,
        observation=each,
        request=telemetry.request_id.get(),
        traceparent=telemetry.traceparent.get(),
    )
    return record_of(envelope, each.qualified_name)


def _leave(services: Services, tenant: Tenant, found: Endpoint, left: Sequence[PersonLeft]) -> None:
    core = services.core
    cause, trace = telemetry.request_id.get(), telemetry.traceparent.get()
    actor = Actor(f"connection {found.connection.name}", cause, trace)
    life: timedelta = services.identity.terms.memory
    for each in left:
        leaving.leave(core.database, core.clock, tenant, actor, each.logins, each.reason, life)
    services.identity.revocations.poll()
