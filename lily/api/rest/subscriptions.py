"""Subscriptions: who hears of what, and where."""

from collections.abc import Sequence
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
from lily.notify.match import DEEPEST, OPEN, Match
from lily.sdk.targets import Notice
from lily.store import connections, notices, owners, subscriptions, views
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
    owner: Line | None = Field(
        None,
        description="A service account in whose name it tells, for who may users:manage;"
        " without one it is you.",
    )


class SubscriptionPatch(Request):
    """Given fields replace."""

    model_config = example({"enabled": False})

    name: Line | None = None
    match: Matching | None = None
    connection_id: UUID | None = None
    template: Any = None
    enabled: bool | None = None
    owner: Line | None = Field(None, description="You, or a service account as above.")


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
    owner: str = Field(description="It tells what they may read, and nothing else.")
    silence: str = Field(description="Why it tells nothing at all; empty when it may tell.")
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
    owner = _owner(core, caller, body.owner)
    with core.database.unit(caller.tenant) as unit:
        made = Subscription(
            uuid4(), body.name, _match(unit, caller, body.match), _target(unit, body.connection_id),
            words.checked(body.template), owner, body.enabled, None, 0, 1, now, now,
        )  # fmt: skip
        made = subscriptions.create(unit, made, actor_of(caller))
    response.headers["Location"] = f"{router.prefix}/{made.id}"
    return _one(core, caller, made, response)


@router.get("", summary="List subscriptions by name")
def listed(
    caller: Reader, services: ServicesDep, limit: Limit = 100, after: After | None = None
) -> Page[ShownSubscription]:
    [key] = unmark(after, tuple[str]) or [None]
    with services.core.database.unit(caller.tenant) as unit:
        found = subscriptions.page(unit, key, limit + 1)
    more, found = len(found) > limit, found[:limit]
    following = mark(found[-1].name) if more else None
    return Page(items=_shown(services.core, caller, found), next=following)


@router.get("/{id}", summary="Read a subscription")
def read(
    id: Segment, response: Response, caller: Reader, services: ServicesDep
) -> ShownSubscription:
    with services.core.database.unit(caller.tenant) as unit:
        found = subscriptions.get(unit, uuid_of("subscription", id))
    return _one(services.core, caller, found, response)


@router.patch("/{id}", summary="Change a subscription")
def change(
    id: Segment,
    body: SubscriptionPatch,
    response: Response,
    caller: Manager,
    services: ServicesDep,
    if_match: IfMatch = None,
) -> ShownSubscription:
    """Who changes what somebody else's channel tells, or where, becomes its owner, unless they
    may manage users."""
    core = services.core
    owner = _owner(core, caller, body.owner) if body.owner is not None else None
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
        wanted = msgspec.structs.replace(wanted, owner=owner or _heir(caller, before, wanted))
        after = subscriptions.change(unit, before, wanted, actor_of(caller))
    return _one(core, caller, after, response)


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
    return _one(core, caller, after, response)


def _owner(core: Core, caller: Caller, given: str | None) -> str:
    """The caller, or a service account of theirs to use."""
    if given is None or given == caller.name:
        return caller.name
    if not caller.may("users:manage"):
        raise Invalid("needs the right users:manage, unless it is you", "owner")
    with core.database.home_unit(caller.tenant) as unit:
        if not owners.is_account(unit.conn, caller.tenant, given):
            raise Invalid("is no active service account", "owner")
    return given


def _heir(caller: Caller, before: Subscription, after: Subscription) -> str:
    """What another chose to tell, or where to, is not told with this owner's eyes."""
    same = (before.match, before.connection) == (after.match, after.connection)
    if same or after.connection is None or caller.may("users:manage"):
        return before.owner
    return caller.name


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


def _one(core: Core, caller: Caller, made: Subscription, response: Response) -> ShownSubscription:
    response.headers["ETag"] = f'"{made.revision}"'
    return _shown(core, caller, [made])[0]


def _shown(core: Core, caller: Caller, made: Sequence[Subscription]) -> list[ShownSubscription]:
    """With how their owners stand now."""
    tenant = caller.tenant
    with core.database.home_unit(tenant) as unit:
        known = owners.found(unit.conn, [(tenant.number, each.owner) for each in made])
    return [
        ShownSubscription(
            **{
                **msgspec.structs.asdict(each),
                "match": msgspec.to_builtins(each.match),
                "connection_id": each.connection,
                "silence": known[tenant.number, each.owner].silence,
            }
        )
        for each in made
    ]
