"""Subscriptions: who hears of what, and where."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args
from uuid import UUID, uuid4

import msgspec
from fastapi import APIRouter, Response
from pydantic import AwareDatetime, Field

from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Line, Page, Request, Shown, example
from lily.api.rest.connections import IfMatch, revision_of
from lily.api.rest.pages import mark, unmark
from lily.errors import Invalid, NotFound
from lily.events.facts import FactKind
from lily.notify import words
from lily.notify.match import DEEPEST, Match
from lily.sdk.targets import Notice
from lily.store import connections, notices, subscriptions, views
from lily.store.database import Unit
from lily.store.notices import Made
from lily.store.subscriptions import Subscription
from lily.types import Caller
from lily.wiring import Core, keeps_handle

router = APIRouter(prefix="/api/v1/subscriptions", tags=["notices"])

Reader = Annotated[Caller, requires("feed:read")]
Manager = Annotated[Caller, requires("subscriptions:manage")]

KINDS: frozenset[str] = frozenset(get_args(FactKind))
# What a channel may carry out of the house; logins and admin changes stay in the audit trail.
PRIVATE = ("Login", "Logged", "Access", "Password", "Token", "User", "ServiceAccount", "Key")
# What everybody may subscribe to; the rest needs the right to read the audit trail.
OPEN = (
    "Asset",
    "Fields",
    "Tags",
    "Edge",
    "Incident",
    "Notification",
    "Delivery",
    "Target",
    "Crawl",
)
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)

EXAMPLE: dict[str, Any] = {
    "name": "incidents of the shop",
    "match": {"facts": ["IncidentOpened", "IncidentResolved"], "severity": "medium"},
}
Text = Annotated[str, Field(min_length=1, max_length=4000, pattern=r"^[^\x00]*$")]


class Matching(Request):
    """What is not given matches everything."""

    facts: list[str] = Field(default_factory=list, max_length=100)
    asset_id: Text | None = Field(None, description="This asset: guid, alias or qualified name.")
    under: Text | None = Field(None, description="This asset and all that it contains.")
    tag: Line | None = Field(None, description="Assets that have it, or just lost it.")
    kinds: list[Line] = Field(default_factory=list, max_length=100, description="Asset types.")
    severity: Literal["critical", "high", "medium", "low"] | None = Field(
        None, description="This, or worse."
    )
    owner: Line | None = None
    downstream_of: Text | None = Field(None, description="What lies downstream of this asset.")
    depth: Annotated[int, Field(ge=1, le=DEEPEST)] = 3
    owners_downstream: Annotated[
        int, Field(ge=0, le=DEEPEST, description="Tell owners of assets so far downstream, too.")
    ] = 0


class NewSubscription(Request):
    model_config = example(EXAMPLE)

    name: Line
    match: Matching
    connection_id: UUID | None = Field(
        None, description="A connection used as target; without one it is your own inbox."
    )
    template: Any = Field(
        None, description="A text, or {title, text}, with places like {title}, {asset}, {url}."
    )
    enabled: bool = True


class SubscriptionPatch(Request):
    """Given fields replace."""

    model_config = example({"enabled": False})

    name: Line | None = None
    match: Matching | None = None
    connection_id: UUID | None = None
    template: Any = None
    enabled: bool | None = None


class Mute(Request):
    """Until then; without a time until it is unmuted."""

    model_config = example({"until": "2027-01-31T12:00:00Z"})

    until: AwareDatetime | None = None


class ShownSubscription(Shown):
    id: UUID
    name: str
    match: dict[str, Any]
    connection_id: UUID | None
    template: dict[str, str] | None
    owner: str
    enabled: bool
    muted_until: datetime | None
    revision: int
    created_at: datetime
    updated_at: datetime


class Tested(Shown):
    """Follow it under `/api/v1/deliveries/{delivery_id}`, or in your inbox."""

    delivery_id: UUID | None
    notice_id: UUID


@router.post("", status_code=201, summary="Subscribe to facts")
def create(
    body: NewSubscription, response: Response, caller: Manager, services: ServicesDep
) -> ShownSubscription:
    """It hears what happens from now on, never what happened before."""
    core, now = services.core, services.core.clock.now()
    with core.database.unit(caller.tenant) as unit:
        made = Subscription(
            uuid4(), body.name, _match(unit, caller, body.match), _target(unit, body.connection_id),
            words.checked(body.template), caller.name, body.enabled, None, 0, 1, now, now,
        )  # fmt: skip
        made = subscriptions.create(unit, made, actor_of(caller))
    response.headers["Location"] = f"{router.prefix}/{made.id}"
    return _shown(made, response)


@router.get("", summary="List subscriptions by name")
def listed(
    caller: Reader, services: ServicesDep, limit: Limit = 100, after: After | None = None
) -> Page[ShownSubscription]:
    [key] = unmark(after, tuple[str]) or [None]
    with services.core.database.unit(caller.tenant) as unit:
        found = subscriptions.page(unit, key, limit + 1)
    more, found = len(found) > limit, found[:limit]
    following = mark(found[-1].name) if more else None
    return Page(items=[_shown(each) for each in found], next=following)


@router.get("/{id}", summary="Read a subscription")
def read(
    id: Segment, response: Response, caller: Reader, services: ServicesDep
) -> ShownSubscription:
    with services.core.database.unit(caller.tenant) as unit:
        found = subscriptions.get(unit, uuid_of("subscription", id))
    return _shown(found, response)


@router.patch("/{id}", summary="Change a subscription")
def change(
    id: Segment,
    body: SubscriptionPatch,
    response: Response,
    caller: Manager,
    services: ServicesDep,
    if_match: IfMatch = None,
) -> ShownSubscription:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        before = subscriptions.locked(unit, uuid_of("subscription", id), revision_of(if_match))
        given: dict[str, Any] = {}
        for name in ("name", "enabled"):
            if (value := getattr(body, name)) is not None:
                given[name] = value
        if body.match is not None:
            given["match"] = _match(unit, caller, body.match)
        if "connection_id" in body.model_fields_set:
            given["connection"] = _target(unit, body.connection_id)
        if "template" in body.model_fields_set:
            given["template"] = words.checked(body.template)
        wanted = msgspec.structs.replace(before, updated_at=core.clock.now(), **given)
        after = subscriptions.change(unit, before, wanted, actor_of(caller))
    return _shown(after, response)


@router.delete("/{id}", status_code=204, summary="Delete a subscription")
def delete(
    id: Segment, caller: Manager, services: ServicesDep, if_match: IfMatch = None
) -> Response:
    """What it found and was not yet told is not told any more."""
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        gone = subscriptions.locked(unit, uuid_of("subscription", id), revision_of(if_match))
        subscriptions.delete(unit, gone, actor_of(caller), core.clock.now())
    return Response(status_code=204)


@router.post("/{id}/mute", summary="Hear nothing for a while")
def mute(
    id: Segment,
    response: Response,
    caller: Manager,
    services: ServicesDep,
    body: Mute | None = None,
) -> ShownSubscription:
    """What happens meanwhile is not told later either."""
    until = (body.until if body else None) or FOREVER
    return _muted(services.core, caller, id, until, response)


@router.post("/{id}/unmute", summary="Hear again")
def unmute(
    id: Segment, response: Response, caller: Manager, services: ServicesDep
) -> ShownSubscription:
    return _muted(services.core, caller, id, None, response)


@router.post("/{id}/test", status_code=202, summary="Send a test notice")
def test(id: Segment, caller: Manager, services: ServicesDep) -> Tested:
    """Delivered like any other; what comes of it is told under its delivery."""
    core, now = services.core, services.core.clock.now()
    with core.database.unit(caller.tenant) as unit:
        found = subscriptions.get(unit, uuid_of("subscription", id))
        notice = Notice(
            id=str(uuid4()), key=f"test:{uuid4()}", kind="Test", at=now, by=caller.name,
            title=f"Test of {found.name}", text="If you can read this, it works.",
            fields={"Subscription": found.name}, url=core.settings.url,
        )  # fmt: skip
        notice = words.dressed(notice, found.template)
        connection = found.connection
        recipient = caller.name if connection is None else ""
        made = Made(notice, None, 0, found.id, recipient, connection)
        notices.store(unit, [made], now)
    return Tested(delivery_id=UUID(notice.id) if connection else None, notice_id=UUID(notice.id))


def target_of(unit: Unit, id: UUID) -> connections.Connection:
    """A connection that can be told something; named as the field of a request."""
    try:
        found = connections.get(unit, id)
    except NotFound:
        raise Invalid("there is no such connection", "connection_id") from None
    if "target" not in found.uses:
        raise Invalid("is not used as target; connect a plug-in as target", "connection_id")
    return found


def threads_of(plugin: str, key: str) -> str | None:
    """The thread of a delivery: of targets that keep a handle."""
    return key if keeps_handle(plugin) else None


def _muted(
    core: Core, caller: Caller, id: str, until: datetime | None, response: Response
) -> ShownSubscription:
    with core.database.unit(caller.tenant) as unit:
        before = subscriptions.locked(unit, uuid_of("subscription", id), None)
        wanted = msgspec.structs.replace(before, muted_until=until, updated_at=core.clock.now())
        after = subscriptions.change(unit, before, wanted, actor_of(caller))
    return _shown(after, response)


def _match(unit: Unit, caller: Caller, given: Matching) -> Match:
    if unknown := sorted(set(given.facts) - KINDS):
        raise Invalid(f"{', '.join(unknown)}: no such kind of fact", "match.facts")
    if private := sorted(kind for kind in given.facts if kind.startswith(PRIVATE)):
        told = f"{', '.join(private)}: stays in the audit trail and is not sent anywhere"
        raise Invalid(told, "match.facts")
    closed = sorted(kind for kind in given.facts if not kind.startswith(OPEN))
    if closed and not caller.may("audit:read"):
        told = f"{', '.join(closed)}: needs the right audit:read, which your role does not have"
        raise Invalid(told, "match.facts")
    if not given.facts:
        raise Invalid("is missing; name at least one kind of fact", "match.facts")
    found: dict[str, Any] = {
        name: _guid(unit, name, value)
        for name in ("asset_id", "under", "downstream_of")
        if (value := getattr(given, name)) is not None
    }
    rest = given.model_dump(exclude={"asset_id", "under", "downstream_of"})
    return Match(**rest, **found)


def _guid(unit: Unit, field: str, given: str) -> UUID:
    asset = views.seek(unit, given)
    if asset is None:
        raise Invalid("there is no such asset", f"match.{field}")
    return asset.guid


def _target(unit: Unit, id: UUID | None) -> UUID | None:
    return target_of(unit, id).id if id is not None else None


def _shown(made: Subscription, response: Response | None = None) -> ShownSubscription:
    if response is not None:
        response.headers["ETag"] = f'"{made.revision}"'
    fields = msgspec.structs.asdict(made)
    match = msgspec.to_builtins(made.match)
    return ShownSubscription(**{**fields, "match": match, "connection_id": made.connection})
