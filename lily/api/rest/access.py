"""Decisions: may this one do that with this asset, and why."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lily.access import explain
from lily.access.conditions import situation
from lily.access.model import Action, Decision, Principal, Situation
from lily.api.deps import ServicesDep, guarded, requires, services_of
from lily.api.operations import CHECK
from lily.errors import Forbidden, Invalid, NotFound, TooLarge, Unreadable
from lily.store import targets, views
from lily.types import Caller
from lily.wiring import Services

router = APIRouter(prefix="/api/v1/access", tags=["access"])

MOST = 1_000
REMEMBERED = 10_000


class Who(msgspec.Struct):
    user: str
    roles: list[str] = []
    groups: list[str] = []


class Check(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One question, or with `assets` the same question of several assets."""

    principal: Who | str | None = None
    action: Action = "READ"
    asset: str | None = None
    assets: list[str] | None = None
    context: dict[str, Any] = {}


class Checks(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    checks: list[Check]


_one = msgspec.json.Decoder(Check)
_many = msgspec.json.Decoder(list[Check])
_wrapped = msgspec.json.Decoder(Checks)
_encode = msgspec.json.Encoder().encode


@guarded("assets:read", CHECK)
async def check(request: Request, caller: Caller) -> Response:
    """Whether a principal may do something with an asset: one question, or at most 1,000."""
    body = await request.body()
    return await run_in_threadpool(_check, services_of(request), caller, body)


ROUTE = Route("/api/v1/access/check", check, methods=["POST"])


def _check(services: Services, caller: Caller, body: bytes) -> Response:
    asked, is_list = _read(body)
    answers = [answer for each in asked for answer in _answers(services, caller, each)]
    content = b'{"items":[' + b",".join(answers) + b"]}" if is_list else answers[0]
    return Response(content, media_type="application/json")


def _read(body: bytes) -> tuple[list[Check], bool]:
    """The questions, and whether a list of answers is wanted."""
    try:
        if body.lstrip()[:1] == b"[":
            asked = _many.decode(body)
        elif b'"checks"' in body:
            asked = _wrapped.decode(body).checks
        else:
            one = _one.decode(body)
            _count([one])
            return [one], one.assets is not None
    except msgspec.ValidationError as cause:
        message, _, path = str(cause).partition(" - at `$")
        raise Invalid(message[:1].lower() + message[1:], path.strip(".`")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Unreadable(f"The body is not valid JSON: {cause}.") from None
    _count(asked)
    return asked, True


def _count(asked: Sequence[Check]) -> None:
    for each in asked:
        if (each.asset is None) == (each.assets is None):
            raise Invalid("name an asset, or a list of assets", "asset")
    if sum(1 if each.assets is None else len(each.assets) for each in asked) > MOST:
        raise TooLarge(f"At most {MOST} decisions in one request; send several.")


def _answers(services: Services, caller: Caller, asked: Check) -> list[bytes]:
    names = asked.assets if asked.assets is not None else [asked.asset or ""]
    principal = _principal(services, caller, asked.principal)
    when = _situation(services, asked.context)
    decisions = services.guard.judge(caller.tenant, principal, asked.action, names, when)
    return [
        b'{"asset":' + _encode(name) + _tail(decision)
        for name, decision in zip(names, decisions, strict=True)
    ]


def _principal(services: Services, caller: Caller, given: Who | str | None) -> Principal:
    if given is None:
        return services.guard.principal(caller.tenant, caller.name, [caller.role])
    who = Who(given) if isinstance(given, str) else given
    if who.user == caller.name and not who.roles and not who.groups:
        return services.guard.principal(caller.tenant, caller.name, [caller.role])
    if not caller.may("access:check"):
        raise Forbidden("Asking for somebody else needs the right access:check.")
    return services.guard.principal(caller.tenant, who.user, who.roles, who.groups)


def _situation(services: Services, context: Mapping[str, Any]) -> Situation:
    try:
        return situation(services.core.clock.now(), context)
    except ValueError as cause:
        raise Invalid(f"{cause}; give an IP address", "context.network") from None


_tails: dict[int, tuple[Decision, bytes]] = {}


def _tail(decision: Decision) -> bytes:
    """An answer behind the asset's name. Thousands of assets share a decision."""
    known = _tails.get(id(decision))
    if known is not None and known[0] is decision:
        return known[1]
    answer: dict[str, Any] = {
        "decision": decision.effect,
        "reason": decision.reason,
        "policy_id": decision.policies[0] if decision.policies else None,
        "policies": decision.policies,
    }
    if decision.mask is not None:
        answer["mask"] = decision.mask
    if decision.filters:
        answer["filters"] = decision.filters
    if len(_tails) >= REMEMBERED:
        _tails.clear()
    tail = b"," + _encode(answer)[1:]
    _tails[id(decision)] = decision, tail
    return tail


class WordShown(BaseModel):
    policy_id: UUID
    name: str
    effect: str
    outcome: str
    why: str


class Explanation(BaseModel):
    """The decision, what was known of the asset, and what every policy on it had to say."""

    asset: str
    decision: str
    reason: str
    mask: dict[str, Any] | None = None
    filters: list[str] = []
    user: str
    roles: list[str]
    groups: list[str]
    tags: list[str]
    policies: list[WordShown]


@router.get("/explain", summary="Explain a decision")
def explained(
    caller: Annotated[Caller, requires("policies:read")],
    services: ServicesDep,
    asset: Annotated[str, Query(max_length=4000, description="Guid, alias or qualified name.")],
    principal: Annotated[str, Query(max_length=300, description="The user's name.")],
    action: Annotated[Action, Query()] = "READ",
    group: Annotated[list[str], Query(description="Groups beside those that Lily knows.")] = [],  # noqa: B006
    role: Annotated[list[str], Query(description="Roles beside those that Lily knows.")] = [],  # noqa: B006
    purpose: Annotated[str | None, Query()] = None,
    network: Annotated[str | None, Query(description="The caller's address.")] = None,
) -> Explanation:
    context = {"purpose": purpose, "network": network}
    when = _situation(services, {k: v for k, v in context.items() if v is not None})
    who = services.guard.principal(caller.tenant, principal, role, group)
    with services.core.database.unit(caller.tenant) as unit:
        found = views.find(unit, asset)
    with services.core.database.whole(caller.tenant) as unit:
        target = targets.load(unit, [found.guid]).get(found.guid)
    if target is None:
        raise NotFound("asset", asset)
    index = services.guard.confirmed(caller.tenant).index
    decision = index.decide(who, action, target, when)
    said = explain.words(index, who, action, target, when)
    return Explanation(
        asset=found.asset_id,
        decision=decision.effect,
        reason=decision.reason,
        mask=msgspec.to_builtins(decision.mask),
        filters=list(decision.filters),
        user=who.user,
        roles=sorted(who.roles),
        groups=sorted(who.groups),
        tags=sorted(target.tags),
        policies=[
            WordShown(
                policy_id=word.policy.id, name=word.policy.name, effect=word.policy.effect,
                outcome=word.outcome, why=word.why,
            )
            for word in said
        ],
    )  # fmt: skip
