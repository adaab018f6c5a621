"""Access to one asset, as the documents ask for it: who may do what with it."""

from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from lily.access.model import Action
from lily.api.deps import AssetKey, ServicesDep, actor_of, requires
from lily.api.fields import Line, Request, example
from lily.api.rest.policies import (
    MaskBody,
    PolicyBody,
    PolicyShown,
    ResourceBody,
    SubjectBody,
    checked,
    shown,
)
from lily.identity.roles import ROLES
from lily.store import circles, policies, targets, views
from lily.store.database import Unit
from lily.types import Caller

router = APIRouter(prefix="/api/v1/metadata/access-control", tags=["access"])


class GrantBody(Request):
    """`user_id` names a user or a role. Without an `effect` it is a permission."""

    model_config = example(
        {
            "asset_id": "people",
            "user_id": "ana",
            "access_type": "READ",
            "conditions": {"time_of_day": {"from": "09:00", "to": "18:00"}},
        }
    )

    policy_id: UUID | None = None
    asset_id: Annotated[str, Field(min_length=1, max_length=4000)]
    user_id: Line
    access_type: Action
    conditions: dict[str, Any] | None = None
    effect: Literal["allow", "deny", "mask", "filter"] = "allow"
    mask: MaskBody | None = None
    row_filter: str = ""


class GrantsShown(BaseModel):
    """The policies on an asset: its own, those of what it lies in, those of its tags and type."""

    asset_id: str
    items: list[PolicyShown]


@router.post("", status_code=201, summary="Say who may do what with an asset")
def grant(
    body: GrantBody,
    response: Response,
    caller: Annotated[Caller, requires("policies:manage")],
    services: ServicesDep,
) -> PolicyShown:
    """A permission holds for the asset and everything below it."""
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        kind = _kind(unit, body.user_id)
        wanted = PolicyBody(
            name=f"{body.effect} {body.access_type} on {body.asset_id[:80]} for {body.user_id}",
            effect=body.effect,
            access_type=body.access_type,
            subject=SubjectBody.model_validate({kind: body.user_id}),
            resource=ResourceBody(under=body.asset_id),
            conditions=body.conditions or {},
            mask=body.mask,
            row_filter=body.row_filter,
        )
        made = checked(unit, body.policy_id or uuid4(), wanted)
        kept = policies.create(unit, made, actor_of(caller), core.clock.now())
    response.headers["Location"] = f"/api/v1/policies/{made.id}"
    return shown(kept, response)


@router.get("/{asset_id}", summary="Read who may do what with an asset")
def read(
    asset_id: AssetKey,
    caller: Annotated[Caller, requires("policies:read")],
    services: ServicesDep,
) -> GrantsShown:
    with services.core.database.unit(caller.tenant) as unit:
        asset = views.find(unit, asset_id)
        target = targets.load(unit, [asset.guid])[asset.guid]
        about = [("everything", ""), ("type", target.asset_type), ("asset", str(target.guid))]
        about += [("under", str(guid)) for guid in target.chain]
        about += [("tag", tag) for tag in target.tags]
        found = policies.about(unit, about)
    return GrantsShown(asset_id=asset.asset_id, items=[shown(kept) for kept in found])


def _kind(unit: Unit, name: str) -> Literal["user", "role"]:
    return "role" if name in ROLES or circles.exists(unit, "role", name) else "user"
