"""A person's own notices."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, Field, model_validator

from lily.api.deps import After, Limit, ServicesDep, requires
from lily.api.fields import Request, example
from lily.api.rest.pages import mark, unmark
from lily.store import inbox
from lily.types import Caller

router = APIRouter(prefix="/api/v1/notices", tags=["notices"])

Owner = Annotated[Caller, requires("notices:own")]
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
About = Annotated[
    str,
    Field(
        min_length=1,
        max_length=300,
        pattern=r"^(asset|incident|kind|notification|fact|test):[^\x00]+$",
        description="`key` of a notice, or `kind:` and a kind of fact.",
    ),
]


class ShownNotice(BaseModel):
    id: UUID
    kind: str
    key: str
    event: str
    title: str
    text: str
    severity: str | None
    url: str
    asset: dict[str, Any] | None
    incident: str | None
    by: str
    at: datetime
    read_at: datetime | None


class Inbox(BaseModel):
    """`unread` is exact to 1,000, then at least."""

    items: list[ShownNotice]
    unread: int
    next: str | None


class Read(Request):
    """Some, or all."""

    model_config = example({"all": True})

    ids: Annotated[list[UUID], Field(min_length=1, max_length=1000)] | None = None
    all: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.ids is None) == (not self.all):
            raise ValueError("give either ids, or all: true")
        return self


class ReadOutcome(BaseModel):
    acknowledged: int
    unread: int


class Muting(Request):
    model_config = example({"about": "kind:AssetChanged"})

    about: About
    until: AwareDatetime | None = None


class Muted(BaseModel):
    about: str
    until: datetime


class MutedList(BaseModel):
    items: list[Muted]
    next: None = None


@router.get("", summary="Your notices, newest first")
def listed(
    caller: Owner,
    services: ServicesDep,
    limit: Limit = 50,
    after: After | None = None,
    unread: Annotated[
        bool, Query(description="Only those that you have not acknowledged.")
    ] = False,
) -> Inbox:
    [before] = unmark(after, tuple[Annotated[int, msgspec.Meta(ge=0, lt=2**63)]]) or [None]
    with services.core.database.unit(caller.tenant) as unit:
        found = inbox.page(unit, caller.name, before, limit + 1, unread)
        count = inbox.unread(unit, caller.name)
    more, found = len(found) > limit, found[:limit]
    following = mark(found[-1].number) if more else None
    return Inbox(items=[_shown(each) for each in found], unread=count, next=following)


@router.post("/acknowledge", summary="Acknowledge some of your notices, or all")
def acknowledge(body: Read, caller: Owner, services: ServicesDep) -> ReadOutcome:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        count = inbox.read(unit, caller.name, body.ids, core.clock.now())
        left = inbox.unread(unit, caller.name)
    return ReadOutcome(acknowledged=count, unread=left)


@router.get("/muted", summary="What you do not want to hear of")
def muted(caller: Owner, services: ServicesDep) -> MutedList:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        found = inbox.mutes(unit, caller.name, core.clock.now())
    return MutedList(items=[Muted(about=about, until=until) for about, until in found])


@router.post("/mute", summary="Hear no more of an asset, an incident or a kind of fact")
def mute(body: Muting, caller: Owner, services: ServicesDep) -> Muted:
    until = body.until or FOREVER
    with services.core.database.unit(caller.tenant) as unit:
        inbox.mute(unit, caller.name, body.about, until)
    return Muted(about=body.about, until=until)


@router.post("/unmute", summary="Hear of it again")
def unmute(body: Muting, caller: Owner, services: ServicesDep) -> MutedList:
    with services.core.database.unit(caller.tenant) as unit:
        inbox.unmute(unit, caller.name, body.about)
    return muted(caller, services)


def _shown(mine: inbox.Mine) -> ShownNotice:
    content = mine.content
    return ShownNotice(
        id=mine.id, kind=mine.kind, key=mine.key, event=content.get("event", "told"),
        title=content.get("title", ""), text=content.get("text", ""),
        severity=content.get("severity"), url=content.get("url", ""),
        asset=content.get("asset"), incident=content.get("incident") or None,
        by=content.get("by", ""), at=mine.at, read_at=mine.read_at,
    )  # fmt: skip
