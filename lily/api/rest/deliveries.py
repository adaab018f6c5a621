"""Deliveries: what was told, every try of it, and once more."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, Field, model_validator

from lily.api.deps import Segment, ServicesDep, requires, uuid_of
from lily.api.fields import Page, Request, Shown, example
from lily.api.rest.pages import mark, unmark
from lily.store import deliveries
from lily.store.deliveries import Delivery
from lily.types import Caller

router = APIRouter(prefix="/api/v1/deliveries", tags=["notices"])

MOST = 1000
State = Literal["waiting", "sending", "delivered", "dead", "cancelled", "withheld"]

Reader = Annotated[Caller, requires("connections:read")]
Replayer = Annotated[Caller, requires("dead:replay")]


class Wanted(Request):
    """What is not given matches everything."""

    state: State | None = None
    connection_id: UUID | None = None
    subscription_id: UUID | None = None
    since: AwareDatetime | None = None


class Listing(Wanted):
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    after: Annotated[str | None, Field(max_length=1000, pattern=r"^[^\x00]*$")] = None


class ShownDelivery(Shown):
    """`attempts` counts those that the schedule counts; throttled tries are not among them."""

    id: UUID
    notification_id: str
    notice_id: UUID
    subscription_id: UUID | None
    connection_id: UUID
    connection: str
    plugin: str
    kind: str
    asset_guid: UUID | None
    title: str
    state: State
    attempts: int
    tries: int
    status: int | None
    reason: str
    next_attempt_at: datetime | None
    last_attempted_at: datetime | None
    settled_at: datetime | None
    created_at: datetime


class ShownAttempt(Shown):
    """One try: what was called, without any secret, what was answered, and how long it took."""

    number: int
    at: datetime
    outcome: str
    status: int | None
    millis: float
    reason: str
    calls: list[dict[str, Any]]


class WholeDelivery(ShownDelivery):
    notice: dict[str, Any]
    history: list[ShownAttempt]


class Many(Request):
    """Either some by id, or the dead (or withheld) ones that match, oldest first."""

    model_config = example({"filter": {"state": "dead"}})

    ids: Annotated[list[UUID], Field(min_length=1, max_length=MOST)] | None = None
    filter: Wanted | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or filter")
        return self


class ManyReplayed(BaseModel):
    """`more` means repeat."""

    replayed: int
    more: bool


@router.get("", summary="List deliveries, newest first")
def listed(
    wanted: Annotated[Listing, Query()], caller: Reader, services: ServicesDep
) -> Page[ShownDelivery]:
    [before] = unmark(wanted.after, tuple[Annotated[int, msgspec.Meta(ge=0, lt=2**63)]]) or [None]
    with services.core.database.unit(caller.tenant) as unit:
        found = deliveries.page(unit, _wanted(wanted), before, wanted.limit + 1)
    more, found = len(found) > wanted.limit, found[: wanted.limit]
    following = mark(found[-1].number) if more else None
    return Page(items=[ShownDelivery(**shown(each)) for each in found], next=following)


@router.get("/{id}", summary="Read a delivery with every attempt")
def read(id: Segment, caller: Reader, services: ServicesDep) -> WholeDelivery:
    with services.core.database.unit(caller.tenant) as unit:
        found = deliveries.get(unit, uuid_of("delivery", id))
        history = deliveries.attempts(unit, found.id)
    tries = [ShownAttempt.model_validate(each) for each in history]
    return WholeDelivery(**{**shown(found), "notice": found.content, "history": tries})


@router.post("/replay", summary="Send many again, up to 1000 in a call")
def replay_many(body: Many, caller: Replayer, services: ServicesDep) -> ManyReplayed:
    core, now = services.core, services.core.clock.now()
    reason = f"Sent again by {caller.name}."
    with core.database.unit(caller.tenant) as unit:
        if body.ids is not None:
            known = [id for id in sorted(set(body.ids)) if deliveries.exists(unit, id)]
            for id in known:
                deliveries.again(unit, id, now, reason)
            return ManyReplayed(replayed=len(known), more=False)
        wanted = _wanted(body.filter or Wanted())
        count = deliveries.again_matching(unit, wanted, MOST, now, reason)
    return ManyReplayed(replayed=count, more=count == MOST)


@router.post("/{id}/replay", status_code=202, summary="Send a delivery again")
def replay(id: Segment, caller: Replayer, services: ServicesDep) -> ShownDelivery:
    """Under the same id, so that a receiver who has it already can tell."""
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        key, now = uuid_of("delivery", id), core.clock.now()
        found = deliveries.again(unit, key, now, f"Sent again by {caller.name}.")
    return ShownDelivery(**shown(found))


def shown(found: Delivery) -> dict[str, Any]:
    """As people see it."""
    waiting = found.state in ("waiting", "sending")
    fields = msgspec.structs.asdict(found)
    return {
        **fields,
        "notice_id": found.notice,
        "subscription_id": found.subscription,
        "connection_id": found.connection,
        "connection": found.name,
        "asset_guid": found.guid,
        "next_attempt_at": found.due_at if waiting else None,
        "last_attempted_at": found.last_at,
    }


def _wanted(given: Wanted) -> deliveries.Wanted:
    return deliveries.Wanted(given.state, given.connection_id, given.subscription_id, given.since)
