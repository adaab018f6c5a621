"""Observations from HTTP: into the log, and back out once the pipeline has applied them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

import msgspec

from lily import telemetry
from lily.assets.documents import Statement, statement
from lily.assets.model import Asset
from lily.assets.names import guid_of
from lily.assets.quick import plain
from lily.errors import FieldError, Forbidden, Invalid
from lily.events.envelope import Envelope
from lily.events.observations import AssetSeen
from lily.log.postgres import Record, record_of
from lily.store.reads import Answer, Brief, Question, Refusal
from lily.types import Caller, Lane, Place
from lily.wiring import Hot, Services

_decode = msgspec.json.Decoder().decode

Status = Literal["created", "updated", "unchanged", "rejected", "accepted"]


class Outcome(msgspec.Struct):
    """What became of one document."""

    status: Status
    cause: str = ""
    guid: UUID | None = None
    asset: Asset | Brief | None = None
    errors: list[FieldError] = []
    shadowed: list[str] = []


class Item(msgspec.Struct):
    """One accepted document on its way."""

    envelope: Envelope
    record: Record
    guid: UUID
    cause: str


async def submit(
    services: Services,
    caller: Caller,
    documents: Sequence[Any],
    *,
    wait: bool = True,
    source: str | None = None,
    brief: bool = False,
) -> list[Outcome]:
    """Append all documents together, and tell what became of each: the asset, or what tells that
    it is in (`brief`).

    A single invalid document raises; in a list it is an outcome of its own. Documents that name
    one asset twice are refused whole, because their order would decide.
    """
    made = prepare(services, caller, documents, source)
    items = [item for item in made if isinstance(item, Item)]
    if not items:
        raise Invalid(
            [error for outcome in made if isinstance(outcome, Outcome) for error in outcome.errors]
        )
    _refuse_doubles(made)
    hot = await services.hot(caller.tenant.cell)
    places = await hot.appender.append([item.record for item in items])
    answer, dead = None, {}
    if wait and await reached(hot, places, services.core.settings.wait_limit):
        question = Question(aliases=_own_ids(items))
        if brief:
            question.brief = [(item.record.lane, item.guid) for item in items]
        else:
            question.guids = [item.guid for item in items]
        answer = await hot.reads.ask(caller.tenant.number, question)
        if doubtful := [item.cause for item in items if not _is_last(item, answer)]:
            dead = (await hot.reads.ask(caller.tenant.number, Question(causes=doubtful))).dead
    return [each if isinstance(each, Outcome) else _outcome(each, answer, dead) for each in made]


def _is_last(item: Item, answer: Answer) -> bool:
    """Whether the asset is as this very observation made it: then nobody refused it."""
    asset = _found(item, answer)
    return asset is not None and asset.cause == item.cause


def _found(item: Item, answer: Answer) -> Asset | Brief | None:
    return answer.assets.get(item.guid) or answer.brief.get(item.guid)


def prepare(
    services: Services, caller: Caller, documents: Sequence[Any], source: str | None = None
) -> list[Item | Outcome]:
    """Check each document and make its envelope. Raises DecodeError for what is not JSON."""
    now = services.core.clock.now()
    request, trace = telemetry.request_id.get(), telemetry.traceparent.get()
    single = len(documents) == 1
    made: list[Item | Outcome] = []
    for index, document in enumerate(documents):
        try:
            stated = _stated(document, caller, now)
        except (Invalid, Forbidden) as wrong:
            if single or isinstance(wrong, Forbidden):
                raise
            errors = [FieldError(_at(index, e.field), e.message) for e in wrong.errors]
            made.append(Outcome("rejected", errors=errors))
            continue
        made.append(_item(caller, stated, source, request, trace))
    return made


def _stated(document: Any, caller: Caller, now: datetime) -> Statement:
    """Of a document, or of its JSON; most of it is plain, and then quickly read."""
    if isinstance(document, msgspec.Raw):
        stated = plain(bytes(document), now)
        if stated is not None:
            return stated
        document = _decode(document)
    return statement(document, caller.tenant, now)


def _item(caller: Caller, stated: Statement, source: str | None, request: str, trace: str) -> Item:
    envelope = Envelope(
        id=uuid4(), tenant=caller.tenant.number, source=source or stated.source, by=caller.name,
        observation=stated.seen, observed_at=stated.observed_at, request=request,
        traceparent=trace,
    )  # fmt: skip
    name = stated.seen.qualified_name
    guid = guid_of(caller.tenant.id, name)
    return Item(envelope, record_of(envelope, name), guid, str(envelope.id))


def _refuse_doubles(made: Sequence[Item | Outcome]) -> None:
    first: dict[tuple[UUID, str], int] = {}
    for index, item in enumerate(made):
        if isinstance(item, Outcome):
            continue
        key = (item.guid, item.envelope.source)
        if (earlier := first.setdefault(key, index)) != index:
            name = item.record.key[:200]
            raise Invalid(
                f"names the same asset as [{earlier}] ({name}); send each asset once",
                f"[{index}].qualified_name",
            )


async def reached(hot: Hot, places: Iterable[Place], seconds: float) -> bool:
    """Whether the pipeline has applied all these places, within so many seconds."""
    last: dict[tuple[Lane, int], Place] = {}
    for place in sorted(places):
        last[place.lane, place.part] = place
    try:
        async with asyncio.timeout(seconds):
            for place in last.values():
                await hot.applied.reached(place)
    except TimeoutError:
        return False
    return True


def _own_ids(items: Sequence[Item]) -> list[str]:
    """An own id that is its own name may turn out to be the alias of another asset."""
    return [
        i.record.key
        for i in items
        if i.envelope.observation.asset_id == i.record.key  # type: ignore[union-attr]
    ]


def _outcome(item: Item, answer: Answer | None, dead: Mapping[str, Refusal]) -> Outcome:
    cause = item.cause
    if answer is None:
        return Outcome("accepted", cause, item.guid)
    if (refused := dead.get(cause)) is not None:
        return Outcome(
            "rejected", cause, item.guid, errors=[refusal(refused.plugin, refused.reason)]
        )
    asset = _found(item, answer)
    if asset is None and (aliased := answer.aliases.get(item.record.key)) is not None:
        return Outcome("updated", cause, aliased)
    if asset is None or asset.cause != cause:
        status: Status = "unchanged"
    else:
        status = "created" if asset.version == 1 else "updated"
    return Outcome(status, cause, item.guid, asset, shadowed=_shadowed(item, asset))


def refusal(plugin: str, reason: str) -> FieldError:
    field, mark, message = reason.partition(": ")
    if plugin:
        return FieldError("", f"refused by hook {plugin}: {reason}")
    return FieldError(field, message) if mark and " " not in field else FieldError("", reason)


def _shadowed(item: Item, asset: Asset | Brief | None) -> list[str]:
    """Fields that a person's edit hides: stored, but not what everybody sees."""
    seen = item.envelope.observation
    if asset is None or not asset.edited or not isinstance(seen, AssetSeen):
        return []
    given = msgspec.structs.asdict(seen)
    return sorted(
        name
        for name in asset.edited
        if given.get(name, msgspec.UNSET) is not msgspec.UNSET
        or (name.startswith("metadata.") and name[9:] in (given["metadata"] or {}))
    )


def _at(index: int, field: str) -> str:
    return f"[{index}].{field}" if field else f"[{index}]"
