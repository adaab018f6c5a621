"""Dead letters: list, inspect, fix, replay, drop."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from lily.api.deps import Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Page, Request, Shown
from lily.api.rest.pages import mark, unmark
from lily.assets import stated
from lily.errors import Invalid
from lily.events.envelope import Envelope
from lily.events.observations import AnyObservation, Nothing
from lily.events.replay import again, readable
from lily.log.postgres import append_in
from lily.store import dead_letters
from lily.store.database import Unit
from lily.store.dead_letters import DeadLetter, Filter, Stage, State
from lily.types import Caller
from lily.wiring import Core

router = APIRouter(prefix="/api/v1/dead-letters", tags=["dead letters"])

MOST = 1000

Reader = Annotated[Caller, requires("dead:read")]
Replayer = Annotated[Caller, requires("dead:replay")]
Text = Annotated[str, Field(max_length=4000, pattern=r"^[^\x00]*$")]


class Wanted(Request):
    """What is not given matches everything."""

    state: State | None = None
    stage: Stage | None = None
    plugin: Annotated[Text | None, Field(description="The connection that refused.")] = None
    source: Text | None = None
    key: Annotated[Text | None, Field(description="How the qualified name begins.")] = None
    since: AwareDatetime | None = None


class Listing(Wanted):
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    after: Annotated[Text | None, Field(description="`next` of the page before.")] = None


class Letter(Shown):
    id: UUID
    cause: str
    lane: str
    log_offset: int
    at: datetime
    stage: str
    plugin: str
    reason: str
    key: str
    source: str
    state: State
    settled_at: datetime | None
    settled_by: str | None


class WholeLetter(Letter):
    """`raw` is what came from the log; `envelope` the same, where it can be read."""

    raw: str
    envelope: dict[str, Any] | None


class Fix(Request):
    """What the observation should have been; without it the letter goes back as it was."""

    observation: dict[str, Any] | None = Field(
        None, examples=[{"qualified_name": "shop.people", "asset_name": "people"}]
    )


class Replayed(BaseModel):
    """`cause` is the id under which the observation is on its way again."""

    id: UUID
    state: State
    cause: UUID


class Many(Request):
    """Either some letters by id, or those that match, oldest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"filter": {"plugin": "our words"}}]})

    ids: Annotated[list[UUID], Field(min_length=1, max_length=MOST)] | None = None
    filter: Wanted | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or filter")
        return self


class ManyReplayed(BaseModel):
    """`skipped` were not parked or do not exist, `unreadable` need a fix; `more` means repeat."""

    replayed: int
    skipped: int
    unreadable: int
    more: bool


@router.get("", summary="List dead letters, newest first")
def listed(
    wanted: Annotated[Listing, Query()], caller: Reader, services: ServicesDep
) -> Page[Letter]:
    key = unmark(wanted.after, tuple[datetime, UUID])
    with services.core.database.unit(caller.tenant) as unit:
        found = dead_letters.page(unit, _filter(wanted), key, wanted.limit + 1)
    more, found = len(found) > wanted.limit, found[: wanted.limit]
    following = mark(found[-1].at, found[-1].id) if more else None
    items = [Letter.model_validate(each) for each in found]
    return Page(items=items, next=following)


@router.get("/{id}", summary="Inspect a dead letter")
def read(id: Segment, caller: Reader, services: ServicesDep) -> WholeLetter:
    with services.core.database.unit(caller.tenant) as unit:
        return _whole(dead_letters.get(unit, uuid_of("dead letter", id)))


@router.post("/replay", summary="Replay many, up to 1000 in a call")
def replay_many(body: Many, caller: Replayer, services: ServicesDep) -> ManyReplayed:
    """All of them go back into the log together, or none."""
    with services.core.database.unit(caller.tenant) as unit:
        if body.ids is not None:
            asked = set(body.ids)
            found = dead_letters.claim_ids(unit, sorted(asked))
            skipped = len(asked) - len(found)
        else:
            found = dead_letters.claim_matching(unit, _filter(body.filter or Wanted()), MOST)
            skipped = 0
        sent = _send(services.core, unit, caller, found)
    more = body.ids is None and len(found) == MOST and sent > 0
    unreadable = len(found) - sent
    return ManyReplayed(replayed=sent, skipped=skipped, unreadable=unreadable, more=more)


@router.post("/{id}/replay", status_code=202, summary="Replay a dead letter, mended or as it is")
def replay(
    id: Segment, caller: Replayer, services: ServicesDep, body: Fix | None = None
) -> Replayed:
    """If it fails again there will be a new dead letter with the new cause."""
    fix = stated.read(body.observation) if body and body.observation is not None else None
    with services.core.database.unit(caller.tenant) as unit:
        letter = dead_letters.claim(unit, uuid_of("dead letter", id))
        envelope = _again(unit, caller, letter, fix)
        _append(services.core, unit, caller, [(letter, envelope)], fixed=fix is not None)
    return Replayed(id=letter.id, state="replayed", cause=envelope.id)


@router.post("/{id}/drop", summary="Give a dead letter up")
def drop(id: Segment, caller: Replayer, services: ServicesDep) -> WholeLetter:
    core, actor = services.core, actor_of(caller)
    now = core.clock.now()
    with core.database.unit(caller.tenant) as unit:
        letter = dead_letters.claim(unit, uuid_of("dead letter", id))
        dead_letters.settle(unit, [letter], "dropped", actor, now)
        dead_letters.record(unit, "ObservationDropped", actor, now, [(letter, {})])
        return _whole(dead_letters.get(unit, letter.id))


def _send(core: Core, unit: Unit, caller: Caller, letters: Sequence[DeadLetter]) -> int:
    """Those that can be read go back; returns how many."""
    pairs = []
    for letter in letters:
        with suppress(Invalid):  # stays parked until somebody says what it should be
            pairs.append((letter, _again(unit, caller, letter, None)))
    if pairs:
        _append(core, unit, caller, pairs, fixed=False)
    return len(pairs)


def _again(unit: Unit, caller: Caller, letter: DeadLetter, fix: AnyObservation | None) -> Envelope:
    tenant = unit.tenant.number
    return again(letter.id, tenant, letter.raw, letter.source, letter.at, caller.name, fix)


def _append(
    core: Core,
    unit: Unit,
    caller: Caller,
    pairs: Sequence[tuple[DeadLetter, Envelope]],
    fixed: bool,
) -> None:
    """State, facts and log in one transaction: a letter is replayed once or not at all."""
    actor, now = actor_of(caller), core.clock.now()
    dead_letters.settle(unit, [letter for letter, _ in pairs], "replayed", actor, now)
    told = [(letter, {"cause": str(sent.id), "fixed": fixed}) for letter, sent in pairs]
    dead_letters.record(unit, "ObservationReplayed", actor, now, told)
    # Last, for it holds back the log's reader until the commit.
    append_in(unit.conn, [sent for _, sent in pairs], [_key(sent) for _, sent in pairs])


def _key(envelope: Envelope) -> str:
    seen = envelope.observation
    return "" if isinstance(seen, Nothing) else seen.qualified_name


def _filter(wanted: Wanted) -> Filter:
    return Filter(**wanted.model_dump(include=set(Filter.__struct_fields__)))


def _whole(letter: DeadLetter) -> WholeLetter:
    envelope = readable(letter.raw)
    shown = msgspec.to_builtins(envelope) if envelope else None
    return WholeLetter(**msgspec.structs.asdict(letter), envelope=shown)
