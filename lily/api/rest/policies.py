"""Policies: who may do what with which data."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lily.access import conditions, filters, masks
from lily.access.model import Action, Effect, Mask, MaskKind, Policy, Resource, Subject
from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Line, Page, Request
from lily.api.rest.connections import IfMatch, revision_of
from lily.api.rest.pages import mark, unmark
from lily.assets.model import Asset
from lily.errors import Invalid, NotFound
from lily.store import policies, views
from lily.store.database import Unit
from lily.store.policies import Kept
from lily.types import Caller

router = APIRouter(prefix="/api/v1/policies", tags=["access"])

Reader = Annotated[Caller, requires("policies:read")]
Manager = Annotated[Caller, requires("policies:manage")]

EXAMPLE: dict[str, Any] = {
    "name": "Analysts see hashed addresses",
    "effect": "mask",
    "access_type": "READ",
    "subject": {"group": "analysts"},
    "resource": {"tag": "PII"},
    "mask": {"kind": "hash"},
    "exempt_groups": ["pii_reader"],
    "conditions": {"days_of_week": ["mon", "tue", "wed", "thu", "fri"]},
}


class SubjectBody(Request):
    """Exactly one of them."""

    user: Line | None = None
    role: Line | None = None
    group: Line | None = None

    @model_validator(mode="after")
    def _one(self) -> "SubjectBody":
        if sum(name is not None for name in (self.user, self.role, self.group)) != 1:
            raise ValueError("name one of user, role, group")
        return self


class ResourceBody(Request):
    """Exactly one of them."""

    asset: Annotated[str, Field(max_length=2000)] | None = None
    under: Annotated[str, Field(max_length=2000)] | None = None
    tag: Line | None = None
    kind: Line | None = None

    @model_validator(mode="after")
    def _one(self) -> "ResourceBody":
        if sum(x is not None for x in (self.asset, self.under, self.tag, self.kind)) != 1:
            raise ValueError("name one of asset, under, tag, kind")
        return self


class MaskBody(Request):
    """How a masked value looks. `expressions` are per engine, with `{column}` for the column."""

    kind: MaskKind
    value: Annotated[str, Field(max_length=200)] = ""
    expressions: dict[str, Annotated[str, Field(max_length=1000)]] = Field(default_factory=dict)


SubjectField = Literal["everyone"] | SubjectBody | list[SubjectBody]


class PolicyBody(Request):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})

    name: Line
    effect: Effect
    access_type: Action = "READ"
    subject: SubjectField = "everyone"
    resource: Literal["everything"] | ResourceBody
    conditions: dict[str, Any] = Field(default_factory=dict)
    mask: MaskKind | MaskBody | None = None
    row_filter: str = ""
    exempt_groups: list[Line] = Field(default_factory=list, max_length=1000)
    enabled: bool = True


class PolicyShown(BaseModel):
    """A policy as it is in force; `policy_id` and `asset_id` as the documents name them."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    policy_id: UUID
    name: str
    effect: Effect
    access_type: Action
    subject: str | list[dict[str, str]]
    resource: str | dict[str, str]
    asset_id: str | None = None
    conditions: dict[str, Any]
    mask: dict[str, Any] | None
    row_filter: str
    exempt_groups: list[str]
    enabled: bool
    revision: int
    created_by: str
    created_at: datetime
    updated_at: datetime


@router.post("", status_code=201, summary="Make a policy")
def create(
    body: PolicyBody, response: Response, caller: Manager, services: ServicesDep
) -> PolicyShown:
    """In force in every process within two seconds, in the engines as fast as they can be told."""
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        policy = checked(unit, uuid4(), body)
        kept = policies.create(unit, policy, actor_of(caller), core.clock.now())
    response.headers["Location"] = f"{router.prefix}/{policy.id}"
    return shown(kept, response)


@router.get("", summary="List policies")
def listed(
    caller: Reader, services: ServicesDep, limit: Limit = 100, after: After | None = None
) -> Page[PolicyShown]:
    """The built-in ones too, until they are deleted."""
    key = unmark(after, tuple[UUID])
    with services.core.database.unit(caller.tenant) as unit:
        found = policies.page(unit, key[0] if key else None, limit + 1)
    more, found = len(found) > limit, found[:limit]
    following = mark(str(found[-1].policy.id)) if more else None
    return Page(items=[shown(kept) for kept in found], next=following)


@router.get("/{id}", summary="Read a policy")
def read(id: Segment, response: Response, caller: Reader, services: ServicesDep) -> PolicyShown:
    with services.core.database.unit(caller.tenant) as unit:
        return shown(policies.get(unit, uuid_of("policy", id)), response)


@router.put("/{id}", summary="Replace a policy")
def replace(
    id: Segment,
    body: PolicyBody,
    response: Response,
    caller: Manager,
    services: ServicesDep,
    if_match: IfMatch = None,
) -> PolicyShown:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        policy = checked(unit, uuid_of("policy", id), body)
        expected, now = revision_of(if_match), core.clock.now()
        kept = policies.change(unit, policy, expected, actor_of(caller), now)
    return shown(kept, response)


@router.delete("/{id}", status_code=204, summary="Delete a policy")
def delete(id: Segment, caller: Manager, services: ServicesDep) -> Response:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        policies.delete(unit, uuid_of("policy", id), actor_of(caller), core.clock.now())
    return Response(status_code=204)


def checked(unit: Unit, id: UUID, body: PolicyBody) -> Policy:
    """The policy that a body means; raises Invalid where it could never be carried out."""
    _known_conditions(body.conditions)
    resource, asset = _resource(unit, body.resource)
    mask = MaskBody(kind=body.mask) if isinstance(body.mask, str) else body.mask
    return Policy(
        id=id,
        name=body.name,
        effect=body.effect,
        action=body.access_type,
        subjects=_subjects(body.subject),
        resource=resource,
        conditions=body.conditions,
        mask=_mask(body.effect, mask, asset),
        row_filter=_filter(body.effect, body.row_filter),
        exempt_groups=tuple(sorted(set(body.exempt_groups))),
        enabled=body.enabled,
    )


def shown(kept: Kept, response: Response | None = None) -> PolicyShown:
    if response is not None:
        response.headers["ETag"] = f'"{kept.revision}"'
    policy = kept.policy
    everyone = any(subject.kind == "everyone" for subject in policy.subjects)
    named = {"type": "kind"}.get(policy.resource.kind, policy.resource.kind)
    mask = policy.mask
    return PolicyShown(
        policy_id=policy.id,
        name=policy.name,
        effect=policy.effect,
        access_type=policy.action,
        subject="everyone" if everyone else [{s.kind: s.name} for s in policy.subjects],
        resource=named if policy.resource.kind == "everything" else {named: policy.resource.id},
        asset_id=policy.resource.id if policy.resource.kind in ("asset", "under") else None,
        conditions=dict(policy.conditions),
        mask={"kind": mask.kind, "value": mask.value, "expressions": dict(mask.expressions)}
        if mask
        else None,
        row_filter=policy.row_filter,
        exempt_groups=list(policy.exempt_groups),
        enabled=policy.enabled,
        revision=kept.revision,
        created_by=kept.created_by,
        created_at=kept.created_at,
        updated_at=kept.updated_at,
    )


def _subjects(given: SubjectField) -> tuple[Subject, ...]:
    if given == "everyone":
        return (Subject("everyone"),)
    several = given if isinstance(given, list) else [given]
    if not several:
        raise Invalid("names nobody; name users, roles or groups, or say everyone", "subject")
    found: list[Subject] = []
    for each in several:
        assert isinstance(each, SubjectBody)
        if each.user is not None:
            found.append(Subject("user", each.user))
        elif each.role is not None:
            found.append(Subject("role", each.role))
        elif each.group is not None:
            found.append(Subject("group", each.group))
    return tuple(dict.fromkeys(found))


def _resource(
    unit: Unit, given: Literal["everything"] | ResourceBody
) -> tuple[Resource, Asset | None]:
    if isinstance(given, str):
        return Resource("everything"), None
    if given.tag is not None:
        return Resource("tag", given.tag), None
    if given.kind is not None:
        return Resource("type", given.kind), None
    named = given.asset if given.asset is not None else given.under
    assert named is not None
    field = "asset" if given.asset is not None else "under"
    try:
        asset = views.find(unit, named)
    except NotFound:
        raise Invalid(
            f"there is no asset {named!r}; name one that is there", f"resource.{field}"
        ) from None
    return Resource("asset" if field == "asset" else "under", str(asset.guid)), asset


def _mask(effect: Effect, given: MaskBody | None, asset: Asset | None) -> Mask | None:
    if effect != "mask":
        if given is not None:
            raise Invalid(f"is for the effect mask; a policy that says {effect} has none", "mask")
        return None
    if given is None:
        raise Invalid("is missing; say how the value is masked, e.g. null or hash", "mask")
    if given.kind == "custom" and not given.expressions:
        raise Invalid("is empty; a custom mask needs an expression per engine", "mask.expressions")
    mask = Mask(given.kind, given.value, given.expressions)
    if asset is not None:
        reason = masks.fits(mask, asset.metadata.get("data_type"))
        if reason is not None:
            raise Invalid(f"{reason}; choose a mask that can, e.g. null", "mask")
    return mask


def _filter(effect: Effect, text: str) -> str:
    if effect != "filter":
        if text:
            raise Invalid(f"is for the effect filter, not for {effect}", "row_filter")
        return ""
    if not text.strip():
        raise Invalid("is missing; give a condition, e.g. country = 'FR'", "row_filter")
    try:
        return filters.canonical(text)
    except filters.BadFilter as cause:
        raise Invalid(f"{cause}; give one condition over the columns", "row_filter") from cause


def _known_conditions(given: dict[str, Any]) -> None:
    try:
        conditions.readable(given)
    except conditions.UnknownCondition as cause:
        raise Invalid(str(cause), "conditions") from cause
