"""Tell something now: of an asset, to a system, or what failed before once more."""

import time
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from lily.api.deps import Segment, ServicesDep, actor_of, requires
from lily.api.documents_examples import answer
from lily.api.fields import Line, Request, example
from lily.api.rest.assets import json
from lily.api.rest.subscriptions import target_of, threads_of
from lily.assets.model import Asset, public
from lily.errors import Invalid, LilyError
from lily.events.facts import Fact
from lily.notify import documents, words
from lily.notify.match import Subject
from lily.notify.verdicts import ATTEMPTS
from lily.sdk.targets import Notice
from lily.store import connections, deliveries, feed, following, notices, views
from lily.store.connections import Connection
from lily.store.database import Unit
from lily.store.deliveries import Delivery
from lily.store.notices import Made
from lily.types import Caller
from lily.wiring import Core, Services

router = APIRouter(tags=["notices"])

Sender = Annotated[Caller, requires("subscriptions:manage")]
Text = Annotated[str, Field(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$")]

LOOK = 0.05
RETRIED = {"status": "success", "message": "Notification retry successful."}
ACCEPTED = {"status": "accepted", "message": "Notification retry is on its way."}
FAILED = "Failed to retry notification."
INVALID = "Invalid notification ID or retry data."


class Trigger(Request):
    """Without a system it is told to whoever subscribed to NotificationTriggered."""

    model_config = example({"message": "The schema has drifted.", "severity": "high"})

    asset_id: Line | None = None
    title: Line | None = None
    message: Text
    severity: Literal["critical", "high", "medium", "low"] | None = None
    notification_type: Line | None = Field(None, description="For example schema_drift.")
    recipient: Line | None = None
    system_name: Line | None = Field(None, description="A connection's name, or a plug-in.")
    connection_id: UUID | None = None


class Triggered(BaseModel):
    """`notification_id` where it goes to one system; `position` is that of its fact."""

    status: str = "accepted"
    notification_id: str | None
    position: int


class Push(Request):
    model_config = example({"asset_id": "people", "message": "Owners have changed."})

    asset_id: Annotated[str, Field(min_length=1, max_length=4000, pattern=r"^[^\x00]*$")]
    message: Text | None = None


class Pushed(BaseModel):
    status: str = "accepted"
    notification_id: str
    system_name: str


class Retrying(Request):
    """The request of the source document."""

    model_config = example(
        {"notification_id": "5f0c1a9e-6c0e-5f0a-9d8e-0b1c2d3e4f50", "retry_count": 1,
         "reason": "The channel is back."}
    )  # fmt: skip

    notification_id: Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00]*$")]
    retry_count: Annotated[int, Field(ge=1, le=ATTEMPTS)] = 1
    reason: Annotated[str, Field(max_length=400, pattern=r"^[^\x00]*$")] = ""


@router.post(
    "/api/v1/metadata/notifications", status_code=202, summary="Tell something of an asset now"
)
def trigger(body: Trigger, caller: Sender, services: ServicesDep) -> Triggered:
    core, now = services.core, services.core.clock.now()
    actor = actor_of(caller)
    with core.database.unit(caller.tenant) as unit:
        asset = views.find(unit, body.asset_id) if body.asset_id is not None else None
        target = _chosen(unit, body.system_name, body.connection_id)
        fact = Fact(
            kind="NotificationTriggered", at=now, by=actor.name, cause=actor.cause,
            guid=asset.guid if asset else None, asset_id=asset.asset_id if asset else "",
            qualified_name=asset.qualified_name if asset else "",
            asset_type=asset.asset_type if asset else "", after=_told(body),
            traceparent=actor.traceparent,
        )  # fmt: skip
        position = feed.record(unit, [fact])
        if target is None:
            return Triggered(notification_id=None, position=position)
        id = str(uuid4())
        notice = words.composed(fact, _subject(asset), id, core.settings.url, None)
        notice = msgspec.structs.replace(notice, key=f"notification:{id}")
        _store(core, unit, notice, asset, target)
    return Triggered(notification_id=id, position=position)


@router.post(
    "/api/v1/metadata/external/{system_name}",
    status_code=202,
    summary="Push an asset to an external system",
)
def push(system_name: Segment, body: Push, caller: Sender, services: ServicesDep) -> Pushed:
    """`system_name` is a connection's name, else a plug-in that exactly one connection uses."""
    core, now = services.core, services.core.clock.now()
    with core.database.unit(caller.tenant) as unit:
        asset = views.find(unit, body.asset_id)
        target = _chosen(unit, system_name, None)
        assert target is not None
        id, shown = str(uuid4()), public(asset, caller.tenant.id)
        fact = Fact(
            kind="AssetChanged", at=now, by=caller.name, cause=actor_of(caller).cause,
            guid=asset.guid, version=asset.version, after=msgspec.to_builtins(shown),
        )  # fmt: skip
        notice = words.composed(fact, _subject(asset), id, core.settings.url, None)
        notice = msgspec.structs.replace(
            notice, kind="AssetPushed", title=f"{asset.asset_name} was sent by {caller.name}",
            text=body.message or asset.description or "",
        )  # fmt: skip
        _store(core, unit, notice, asset, target)
    return Pushed(notification_id=id, system_name=target.name)


@router.post(
    "/lily/v1/notifications/retry",
    summary="Retry a notification that failed",
    responses={
        **answer(RETRIED),
        400: {"description": INVALID},
        500: {"description": FAILED},
    },
)
def retry(body: Retrying, caller: Sender, services: ServicesDep) -> Response:
    """Waits for what comes of the first try; 202 when that takes too long."""
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        found = deliveries.named(unit, body.notification_id)
        if found is None:
            raise Invalid(INVALID, "notification_id")
        if found.state != "dead" and not (found.state == "waiting" and found.attempts):
            told = f"{INVALID} It has not failed: it is {found.state}."
            raise Invalid(told, "notification_id")
        _redirected(unit, found)
        reason = body.reason or f"Retried by {caller.name}."
        deliveries.again(unit, found.id, core.clock.now(), reason, ATTEMPTS - body.retry_count)
    return _outcome(services, caller, found)


def _outcome(services: Services, caller: Caller, before: Delivery) -> Response:
    core = services.core
    end = time.monotonic() + core.settings.wait_limit
    while time.monotonic() < end:
        with core.database.unit(caller.tenant) as unit:
            found = deliveries.get(unit, before.id)
        if found.state == "delivered":
            return json(RETRIED)
        tried = found.tries > before.tries and found.state == "waiting"
        if tried or found.state in ("dead", "withheld"):
            raise LilyError(f"{FAILED} {found.reason}")
        time.sleep(LOOK)
    return json(ACCEPTED, 202)


def _redirected(unit: Unit, found: Delivery) -> None:
    """A document may have named a system before there was a connection to it."""
    if found.connection != following.NOWHERE:
        return
    asked: Any = found.content.get("data") or {}
    known = following.targets(unit)
    connection = known.called(str(asked.get("system_name") or ""))
    if connection is None:
        raise LilyError(f"{FAILED} {documents.UNKNOWN}")
    thread = threads_of(known.plugins[connection], str(found.content.get("key")))
    deliveries.redirect(unit, found.id, connection, thread)


def _chosen(unit: Unit, system: str | None, id: UUID | None) -> Connection | None:
    if id is not None:
        return target_of(unit, id)
    if system is None:
        return None
    found = following.targets(unit).called(system)
    if found is None:
        raise Invalid(documents.UNKNOWN, "system_name")
    return connections.get(unit, found)


def _store(core: Core, unit: Unit, notice: Notice, asset: Asset | None, target: Connection) -> None:
    threads = threads_of(target.plugin, notice.key) is not None
    guid = asset.guid if asset is not None else None
    made = Made(notice, guid, 0, None, "", target.id, "", threads)
    notices.store(unit, [made], core.clock.now())


def _subject(asset: Asset | None) -> Subject | None:
    if asset is None:
        return None
    return Subject(
        asset.guid, asset.asset_id, asset.qualified_name, asset.asset_name, asset.asset_type,
        asset.asset_owner or "", asset.tags,
    )  # fmt: skip


def _told(body: Trigger) -> dict[str, Any]:
    given = body.model_dump(include={"title", "message", "severity", "notification_type",
                                     "recipient"})  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}
