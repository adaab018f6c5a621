"""Engines that ask before they answer: the OPA protocol of Trino, from memory.

An address is a connection's own, and nobody can guess it. When the state cannot be confirmed the
answer is 503, and the engine fails the statement.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from lily import plugins
from lily.access import opa, trino_rules
from lily.access.model import Action, Decision, Situation
from lily.access.opa import Judge, Table, Who
from lily.api.deps import ServicesDep
from lily.api.hot import parse
from lily.assets.names import guid_of
from lily.errors import Invalid, NotFound, PluginError
from lily.sdk.engines import Engine
from lily.store import connections, governed, webhooks
from lily.store.guard import Question
from lily.types import Tenant
from lily.wiring import Services

router = APIRouter(prefix="/engine", tags=["access"])

ASKED: dict[str, Any] = {
    "input": {
        "context": {"identity": {"user": "ana", "groups": ["analysts"]}},
        "action": {
            "operation": "SelectFromColumns",
            "resource": {
                "table": {
                    "catalogName": "pg",
                    "schemaName": "public",
                    "tableName": "people",
                    "columns": ["id", "email"],
                }
            },
        },
    }
}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": ASKED}},
    }
}
RULES: dict[str, Any] = {
    "tables": [
        {
            "catalog": "pg",
            "schema": "public",
            "table": "people",
            "privileges": ["SELECT"],
            "columns": [{"name": "email", "mask": "CAST(NULL AS VARCHAR)"}],
        },
        {"catalog": "pg", "privileges": []},
        {"privileges": ["SELECT"]},
    ]
}
QUESTIONS = ("allow", "batch", "rowFilters", "batchColumnMasks")


@router.post(
    "/{plugin}/{endpoint}/{question}",
    summary="An engine asks what somebody may see",
    response_class=Response,
    openapi_extra=BODY,
)
async def ask(
    plugin: str, endpoint: str, question: str, request: Request, services: ServicesDep
) -> Response:
    """`allow`, `batch`, `rowFilters` or `batchColumnMasks`, as Trino's OPA plug-in asks them."""
    body = await request.body()
    return await run_in_threadpool(_answer, services, plugin, endpoint, question, body)


@router.get(
    "/{plugin}/{endpoint}/rules",
    summary="The same as a file of rules",
    response_class=Response,
    responses={200: {"content": {"application/json": {"example": RULES}}}},
)
def file_rules(plugin: str, endpoint: str, services: ServicesDep) -> Response:
    """Trino's file-based access control, for servers that fetch it: the first match counts."""
    tenant, engine = found(services, plugin, endpoint)
    head = services.guard.confirmed(tenant).position
    now = services.core.clock.now()
    key = (tenant.id, endpoint)
    kept = _files.get(key)
    if kept is None or kept[0] != (head, now.replace(second=0, microsecond=0)):
        with services.core.database.whole(tenant) as unit:
            made = trino_rules.rules(
                engine.catalogs(), governed.governed(unit, engine.catalogs(), now)
            )
        # Conditions on time may say something else a minute later.
        kept = (head, now.replace(second=0, microsecond=0)), msgspec.json.encode(made)
        _files[key] = kept
    return Response(kept[1], media_type="application/json")


_files: dict[tuple[UUID, str], tuple[tuple[int, datetime], bytes]] = {}


def _answer(services: Services, plugin: str, endpoint: str, question: str, body: bytes) -> Response:
    tenant, engine = found(services, plugin, endpoint)
    asked = parse(body)
    given = asked.get("input") if isinstance(asked, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(given.get("action"), Mapping):
        raise Invalid("is missing; it holds context and action", "input")
    who, action = _who(given), given["action"]
    judge = _judge(services, tenant, engine, who)
    result: Any
    if question == "allow":
        result = opa.allow(who, action, judge)
    elif question == "batch":
        result = opa.batch(who, action, judge)
    elif question == "rowFilters":
        result = opa.row_filters(action, judge)
    elif question == "batchColumnMasks":
        result = opa.column_masks(action, judge)
    else:
        raise NotFound("question", question)
    return Response(msgspec.json.encode({"result": result}), media_type="application/json")


def found(services: Services, plugin: str, endpoint: str) -> tuple[Tenant, Engine]:
    """The connection behind an address."""
    number, _, token = endpoint.partition("-")
    if not number.isdigit() or len(number) > 9 or not token:
        raise NotFound("engine", endpoint)
    try:
        tenant = services.core.database.tenant(int(number))
    except NotFound:
        raise NotFound("engine", endpoint) from None
    with services.core.database.unit(tenant) as unit:
        known = webhooks.by_token(unit, token)
    if known is None or known.connection.plugin != plugin or not tenant.admitted:
        raise NotFound("engine", endpoint)
    secrets = connections.opened(services.core.seal.open, tenant.number, known.connection)
    options = plugins.join(known.connection.options, secrets)
    try:
        engine: Engine = plugins.build("engine", plugin, options)
    except PluginError:
        raise NotFound("engine", endpoint) from None
    return tenant, engine


def _who(given: Mapping[str, Any]) -> Who:
    identity = (given.get("context") or {}).get("identity") or {}
    user = identity.get("user")
    if not isinstance(user, str) or not user:
        raise Invalid("is missing; an engine says who asks", "input.context.identity.user")
    groups = identity.get("groups") or ()
    return Who(user, tuple(str(group) for group in groups))


def _judge(services: Services, tenant: Tenant, engine: Engine, who: Who) -> Judge:
    guard = services.guard
    principal = guard.principal(tenant, who.user, (), who.groups)
    when = Situation(services.core.clock.now())

    def decide(guid: UUID, action: Action) -> Decision:
        return guard.check(tenant, [Question(principal, action, guid)], when)[0]

    def table(named: Table, action: Action) -> Decision | None:
        name = engine.table(named.catalog, named.schema, named.name)
        return None if name is None else decide(guid_of(tenant.id, name), action)

    def column(named: Table, of: str) -> Decision | None:
        name = engine.table(named.catalog, named.schema, named.name)
        if name is None:
            return None
        return decide(guid_of(tenant.id, engine.column(name, of)), "READ")

    def denied(named: Table, action: Action) -> bool:
        decision = table(named, action)
        return decision is not None and decision.effect == "deny" and bool(decision.policies)

    def filters(named: Table) -> Sequence[str]:
        name = engine.table(named.catalog, named.schema, named.name)
        if name is None:
            return ()
        return guard.filters(tenant, principal, guid_of(tenant.id, name), when)

    return Judge(table, column, denied, filters)
