"""OpenLineage: events of runs, jobs and datasets come in here; runs can be read."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import Field

from lily.api.deps import After, Limit, Segment, ServicesDep, requires, uuid_of
from lily.api.fields import Page, Shown
from lily.api.hot import parse
from lily.api.rest.openlineage_examples import EVENT, EVENTS, SCHEMA
from lily.api.rest.pages import mark, unmark
from lily.api.stating import Sending, send
from lily.assets.rules import problems as asset_problems
from lily.errors import FieldError, Invalid, TooLarge
from lily.events.lineage import LineageStated
from lily.events.observations import AssetGone, AssetSeen, RunSeen
from lily.lineage import openlineage
from lily.lineage.names import job as job_name
from lily.lineage.openlineage import Statement
from lily.lineage.rules import problems as edge_problems
from lily.store import runs
from lily.types import Caller

router = APIRouter(prefix="/api/v1/lineage", tags=["lineage"])

MOST = 1_000
PATIENCE = 4.0  # seconds; clients give up after five, and send the event again

Reader = Annotated[Caller, requires("assets:read")]
Ingester = Annotated[Caller, requires("assets:ingest")]
State = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"]
Text = Annotated[str | None, Query(max_length=4000, pattern=r"^[^\x00]*$")]


class Received(Shown):
    """`applied`: the graph shows it. `accepted`: it is durable, and will be applied."""

    outcome: Literal["applied", "accepted"]
    events: int
    causes: list[str] = Field(description="The ids of the observations that the events became.")


class RunDataset(Shown):
    qualified_name: str
    facets: dict[str, Any] = Field(default_factory=dict)


class ShownRun(Shown):
    """A run of a job; `job_id` is the qualified name of the job's asset."""

    id: UUID
    job_id: str
    job_namespace: str
    job_name: str
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime = Field(description="The time of its latest event.")
    parent: dict[str, Any] | None
    inputs: list[RunDataset]
    outputs: list[RunDataset]
    error: str | None
    facets: dict[str, Any]


async def _body(request: Request) -> list[Any]:
    body = parse(await request.body())
    events = body if isinstance(body, list) else [body]
    if len(events) > MOST:
        raise TooLarge(f"A list holds at most {MOST} events; send several.")
    if not events:
        raise Invalid("is an empty list; send at least one event")
    return events


@router.post(
    "",
    status_code=201,
    summary="Take in an OpenLineage event, or a list of them",
    responses={202: {"description": "Durable, not yet applied.", "model": Received}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"anyOf": [SCHEMA, {"type": "array", "items": SCHEMA}]},
                    "examples": {"one": {"value": EVENT}, "many": {"value": EVENTS}},
                }
            },
        }
    },
)
async def receive(
    events: Annotated[list[Any], Depends(_body)],
    response: Response,
    caller: Ingester,
    services: ServicesDep,
    prefer: Annotated[str, Header()] = "",
) -> Received:
    """RunEvent, JobEvent and DatasetEvent of OpenLineage 2-0-2, gzipped or not.

    What a run says counts when it completes, and replaces what the same job said before. An event
    that is wrong in a list refuses the whole list.
    """
    stated = _stated(events, services.core.clock.now())
    sendings = [Sending(each.seen, each.source, each.at) for each in stated]
    sent = await send(services, caller, sendings, 0 if "respond-async" in prefer else PATIENCE)
    if sent.refused:
        raise Invalid([FieldError("", reason) for reason in sent.refused.values()])
    if not sent.applied:
        response.status_code = 202
    outcome: Literal["applied", "accepted"] = "applied" if sent.applied else "accepted"
    return Received(outcome=outcome, events=len(events), causes=sent.causes)


@router.get("/runs", summary="Runs of jobs, latest first")
def listed(
    caller: Reader,
    services: ServicesDep,
    job_namespace: Text = None,
    job_name: Text = None,
    state: State | None = None,
    limit: Limit = 100,
    after: After | None = None,
) -> Page[ShownRun]:
    key = unmark(after, tuple[datetime, UUID])
    with services.core.database.unit(caller.tenant) as unit:
        found = runs.page(unit, job_namespace, job_name, state, key, limit + 1)
        more, found = len(found) > limit, found[:limit]
        seen = runs.visible(unit, found)
    following = mark(found[-1].updated_at, found[-1].id) if more else None
    return Page(items=[_shown(run) for run in seen], next=following)


@router.get("/runs/{run}", summary="How a run went")
def read(run: Segment, caller: Reader, services: ServicesDep) -> ShownRun:
    with services.core.database.unit(caller.tenant) as unit:
        return _shown(runs.get(unit, uuid_of("run", run)))


def _stated(events: list[Any], now: datetime) -> list[Statement]:
    single = len(events) == 1
    found: list[Statement] = []
    wrong: list[FieldError] = []
    for index, event in enumerate(events):
        try:
            stated = openlineage.statements(event, now)
            if errors := [error for each in stated for error in _problems(each.seen)]:
                raise Invalid(errors)
            found += stated
        except Invalid as cause:
            start = "" if single else f"[{index}]"
            wrong += [FieldError(_at(start, e.field), e.message) for e in cause.errors]
    if wrong:
        raise Invalid(wrong[:100])
    return found


def _at(start: str, field: str) -> str:
    return f"{start}.{field}" if start and field else start or field


def _problems(seen: AssetSeen | AssetGone | LineageStated | RunSeen) -> list[FieldError]:
    if isinstance(seen, LineageStated):
        return edge_problems(seen)
    if isinstance(seen, RunSeen):
        found = openlineage.problems(seen)
        return found + [error for each in seen.assets for error in asset_problems(each)]
    return asset_problems(seen)


def _shown(run: runs.Run) -> ShownRun:
    return ShownRun(
        job_id=job_name(run.job_namespace, run.job_name),
        **{name: getattr(run, name) for name in run.__struct_fields__},
    )
