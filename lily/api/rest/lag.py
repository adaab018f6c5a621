"""How fresh everything is: per lane, and per asset."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lily.api import behind
from lily.api.deps import AssetKey, ServicesDep, requires
from lily.store import views
from lily.store.freshness import COUNTED, Behind
from lily.types import Caller

router = APIRouter(prefix="/api/v1", tags=["lag"])


class Waiting(BaseModel):
    """`waiting` counts to 100,000, then means at least; ages are in seconds, null for nothing."""

    waiting: int
    oldest_waiting_seconds: float | None
    newest_applied_seconds: float | None


class LaneShown(BaseModel):
    lane: str
    position: int = Field(description="Of the last applied observation in PostgreSQL's log.")
    applied_at: datetime = Field(description="When the lane moved last.")
    own: Waiting = Field(description="Of your tenant.")
    all: Waiting = Field(description="Of all tenants that share the database.")


class Lag(BaseModel):
    at: datetime
    lanes: list[LaneShown]


class Freshness(BaseModel):
    """`fields_waiting` are observations of fields below it that are not applied yet."""

    asset_id: str
    qualified_name: str
    lane: str
    observed_at: datetime
    applied_at: datetime
    fields_waiting: int
    complete: bool = Field(description="Whether nothing of it waits.")


@router.get("/lag", summary="How far each lane is behind")
def lag(caller: Annotated[Caller, requires("feed:read")], services: ServicesDep) -> Lag:
    found, now = behind.lanes(services, caller.tenant), services.core.clock.now()
    return Lag(at=now, lanes=[_lane(each, now) for each in found])


@router.get("/metadata/{id}/freshness", summary="How fresh an asset and its fields are")
def fresh(
    id: AssetKey, caller: Annotated[Caller, requires("assets:read")], services: ServicesDep
) -> Freshness:
    with services.core.database.unit(caller.tenant) as unit:
        asset = views.find(unit, id)
        waiting = behind.Fields(unit, asset.qualified_name)
    count, whole = waiting.count(services, caller.tenant)
    return Freshness(
        asset_id=asset.caller_id or str(asset.guid),
        qualified_name=asset.qualified_name,
        lane=asset.lane,
        observed_at=asset.observed_at,
        applied_at=asset.applied_at,
        fields_waiting=min(count, COUNTED),
        complete=whole and count == 0,
    )


def _lane(each: Behind, now: datetime) -> LaneShown:
    return LaneShown(
        lane=each.lane,
        position=each.position,
        applied_at=each.applied_at,
        own=_waiting(each.own_waiting, each.own_oldest, each.own_newest, now),
        all=_waiting(each.waiting, each.oldest, each.newest, now),
    )


def _waiting(
    count: int, oldest: datetime | None, newest: datetime | None, now: datetime
) -> Waiting:
    return Waiting(
        waiting=count,
        oldest_waiting_seconds=_age(oldest, now),
        newest_applied_seconds=_age(newest, now),
    )


def _age(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else round(max((now - at).total_seconds(), 0.0), 3)
