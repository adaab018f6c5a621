"""Incidents: what is wrong with assets, and what becomes of it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Line, Page, Request, example
from lily.api.rest.assets import json, words
from lily.api.rest.pages import mark, unmark
from lily.errors import Conflict, Invalid
from lily.events.signals import Severity, SignalState
from lily.incidents.model import SEVERITIES, Incident, public
from lily.store import incident_views, incidents, views
from lily.store.database import Unit
from lily.store.edits import patiently
from lily.store.incidents import Who
from lily.types import Caller
from lily.wiring import Services

router = APIRouter(prefix="/api/v1/incidents", tags=["incidents"])

Reader = Annotated[Caller, requires("assets:read")]
Editor = Annotated[Caller, requires("assets:edit")]
Several = Annotated[Sequence[str], Query()]
Text = Annotated[str, Field(max_length=20_000, pattern=r"^[^\x00]*$")]
Key = Annotated[str, Field(min_length=1, max_length=4000, pattern=r"^[^\x00]*$")]

PERSON = "person"
STATES = ("open", "acknowledged", "resolved", "suppressed", "unattached")
EXAMPLE: dict[str, Any] = {
    "incident_id": "1d4b3f8a-52c9-4f0e-9d0b-6a2f1e5c7b90",
    "title": "Has 42 rows vs. 101 expected",
    "severity": "medium",
    "state": "open",
    "source": "montecarlo",
    "rule": "",
    "external_id": "f83867b6-8f25-428b-807c-08518f63384c",
    "url": "https://getmontecarlo.com/incidents/f83867b6-8f25-428b-807c-08518f63384c",
    "owner": "",
    "opened_at": "2026-01-31T12:00:00Z",
    "guid": "5f0c1a9e-6c0e-5f0a-9d8e-0b1c2d3e4f50",
    "asset_id": "artemis",
    "description": "",
    "names": ["zeus:ares.artemis"],
    "candidates": [],
    "details": {"type": "open_anomaly_incident"},
    "version": 1,
    "updated_at": "2026-01-31T12:00:00Z",
}


class IncidentShown(BaseModel):
    """An open one whose asset is not known is `unattached`; `candidates` may be it."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    incident_id: UUID
    title: str
    severity: Severity
    state: Literal["open", "acknowledged", "resolved", "suppressed", "unattached"]
    source: str
    rule: str
    external_id: str
    url: str
    owner: str
    opened_at: datetime
    guid: UUID | None
    asset_id: str | None
    description: str
    names: list[str]
    candidates: list[UUID]
    details: dict[str, Any]
    version: int
    updated_at: datetime


class EventShown(BaseModel):
    """`via` is where it came from: a tool, or person."""

    at: datetime
    kind: str
    by: str
    via: str
    changes: dict[str, Any]
    comment: str


class IncidentWhole(IncidentShown):
    """With its history, newest first."""

    history: list[EventShown]


class NewIncident(Request):
    model_config = example({"asset_id": "people", "title": "Half of it is missing"})

    asset_id: Key
    title: Line
    severity: Severity = "medium"
    description: Text = ""
    url: Annotated[Text, Field(max_length=2000)] = ""
    owner: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""


class IncidentPatch(Request):
    """Given fields replace."""

    model_config = example({"severity": "high", "owner": "ann@example.com"})

    title: Line | None = None
    description: Text | None = None
    severity: Severity | None = None
    owner: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] | None = None
    state: SignalState | None = None


class Remark(Request):
    model_config = example({"comment": "The nightly load was late."})

    comment: Text = ""


class Comment(Request):
    model_config = example({"comment": "The nightly load was late."})

    comment: Annotated[Text, Field(min_length=1)]


class Attachment(Request):
    """With `remember`, what the same rule raises later goes to the same asset."""

    model_config = example({"asset_id": "people", "remember": True})

    asset_id: Key
    remember: bool = True


Remarked = Annotated[Remark | None, Body()]


@router.get("", response_model=Page[IncidentShown], summary="List incidents, newest first")
def listed(
    caller: Reader,
    services: ServicesDep,
    state: Several = (),
    severity: Several = (),
    source: Several = (),
    asset_id: Annotated[str | None, Query(pattern="^[^\\x00]+$", max_length=4000)] = None,
    rule: Annotated[str | None, Query(pattern="^[^\\x00]*$", max_length=1000)] = None,
    limit: Limit = 100,
    after: After | None = None,
) -> Response:
    """Filters may be repeated or given with commas; `unattached` is a state."""
    states, severities = words(state), words(severity)
    _known("state", states, STATES)
    _known("severity", severities, SEVERITIES)
    key = unmark(after, tuple[int])
    with services.core.database.unit(caller.tenant) as unit:
        guid = views.find(unit, asset_id).guid if asset_id else None
        found = incident_views.page(
            unit, key[0] if key else None, limit + 1, states, severities, words(source), guid, rule
        )
    page = found[:limit]
    following = mark(page[-1][0].number) if len(found) > limit else None
    return json({"items": [public(*each) for each in page], "next": following})


@router.post("", status_code=201, response_model=IncidentShown, summary="Open an incident by hand")
def opened(body: NewIncident, caller: Editor, services: ServicesDep) -> Response:
    who = _who(services, caller)

    def work(unit: Unit) -> Incident:
        asset = views.find(unit, body.asset_id)
        made = Incident(
            id=incidents.new_id(), number=0, guid=asset.guid, source=PERSON, external_id="",
            rule="", title=body.title, description=body.description, severity=body.severity,
            state="open", url=body.url, owner=body.owner, names=[], candidates=[], details={},
            version=1, opened_at=who.at, updated_at=who.at,
        )  # fmt: skip
        incidents.settle(unit, [made], [incidents.open_one(unit, made, who)])
        return made

    return _done(services, caller, work, 201)


@router.get("/{id}", response_model=IncidentWhole, summary="Read an incident and its history")
def read(id: Segment, caller: Reader, services: ServicesDep) -> Response:
    with services.core.database.unit(caller.tenant) as unit:
        found = incidents.get(unit, uuid_of("incident", id))
        shown = public(found, incident_views.asset_id(unit, found))
        history = incident_views.events(unit, found.id)
    return json({**shown, "history": history})


@router.patch("/{id}", response_model=IncidentShown, summary="Change an incident")
def change(id: Segment, body: IncidentPatch, caller: Editor, services: ServicesDep) -> Response:
    who = _who(services, caller)
    wanted = {k: v for k, v in body.model_dump(exclude={"state"}).items() if v is not None}

    def work(unit: Unit) -> Incident:
        found = incidents.get(unit, uuid_of("incident", id), lock=True)
        fact = incidents.change(unit, found, wanted, who) if wanted else None
        incidents.settle(unit, [found], [fact] if fact else [])
        return _moved(unit, found.id, body.state, who, "") if body.state else found

    return _done(services, caller, work)


@router.post("/{id}/acknowledge", response_model=IncidentShown, summary="Take care of it")
def acknowledge(
    id: Segment, caller: Editor, services: ServicesDep, body: Remarked = None
) -> Response:
    return _move(id, "acknowledged", caller, services, body)


@router.post("/{id}/resolve", response_model=IncidentShown, summary="Say that it is over")
def resolve(id: Segment, caller: Editor, services: ServicesDep, body: Remarked = None) -> Response:
    return _move(id, "resolved", caller, services, body)


@router.post("/{id}/suppress", response_model=IncidentShown, summary="Let nobody hear of it")
def suppress(id: Segment, caller: Editor, services: ServicesDep, body: Remarked = None) -> Response:
    return _move(id, "suppressed", caller, services, body)


@router.post("/{id}/reopen", response_model=IncidentShown, summary="Open it again")
def reopen(id: Segment, caller: Editor, services: ServicesDep, body: Remarked = None) -> Response:
    return _move(id, "open", caller, services, body)


@router.post("/{id}/comments", response_model=IncidentShown, summary="Comment on an incident")
def comment(id: Segment, body: Comment, caller: Editor, services: ServicesDep) -> Response:
    who = _who(services, caller)

    def work(unit: Unit) -> Incident:
        found = incidents.get(unit, uuid_of("incident", id), lock=True)
        fact = incidents.change(unit, found, {}, who, body.comment)
        incidents.settle(unit, [], [fact] if fact else [])
        return found

    return _done(services, caller, work)


@router.post("/{id}/attach", response_model=IncidentShown, summary="Say which asset it is about")
def attach(id: Segment, body: Attachment, caller: Editor, services: ServicesDep) -> Response:
    """When the asset has one open for the same rule, that one is answered: both are one now."""
    who = _who(services, caller)

    def work(unit: Unit) -> Incident:
        found = incidents.get(unit, uuid_of("incident", id), lock=True)
        asset = views.find(unit, body.asset_id)
        if found.guid == asset.guid:
            return found
        before = found.guid
        stays, fact = incidents.attach(unit, found, asset.guid, who, body.remember)
        incidents.settle(unit, [stays], [fact])
        incidents.flag(unit, [before] if before else [])
        return stays

    return _done(services, caller, work)


def _move(
    id: str, to: SignalState, caller: Caller, services: Services, body: Remark | None
) -> Response:
    who = _who(services, caller)
    said = body.comment if body else ""

    def work(unit: Unit) -> Incident:
        return _moved(unit, uuid_of("incident", id), to, who, said)

    return _done(services, caller, work)


def _moved(unit: Unit, id: UUID, to: str, who: Who, said: str) -> Incident:
    found = incidents.move(
        unit, id, to, who.by, who.via, said, at=who.at, cause=who.cause,
        traceparent=who.traceparent,
    )  # fmt: skip
    if found.state != to:
        raise Conflict(f"The incident is {found.state}; open it again first.")
    return found


def _done(
    services: Services, caller: Caller, work: Callable[[Unit], Incident], status: int = 200
) -> Response:
    def attempt() -> dict[str, Any]:
        with services.core.database.unit(caller.tenant) as unit:
            found = work(unit)
            return public(found, incident_views.asset_id(unit, found))

    return json(patiently(attempt), status)


def _who(services: Services, caller: Caller) -> Who:
    actor = actor_of(caller)
    return Who(actor.name, PERSON, services.core.clock.now(), actor.cause, actor.traceparent)


def _known(field: str, given: list[str], allowed: tuple[str, ...]) -> None:
    if unknown := sorted(set(given) - set(allowed)):
        raise Invalid(f"{', '.join(unknown)}: must be one of {', '.join(allowed)}", field)
