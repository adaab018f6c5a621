"""Crawls: start one, follow it, end it."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field

from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Page, Request, Shown, example
from lily.api.rest.pages import mark, unmark
from lily.errors import Conflict
from lily.store import connections, crawls
from lily.store.crawls import Run, State
from lily.types import Caller

router = APIRouter(prefix="/api/v1", tags=["crawls"])

Reader = Annotated[Caller, requires("connections:read")]
Manager = Annotated[Caller, requires("connections:manage")]


class Wanted(Request):
    """Without a scope everything is read."""

    model_config = example({"scope": "postgres://db:5432/shop.public"})

    scope: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=4000,
            pattern=r"^[^\x00]*$",
            description="A qualified name: only that asset and what lies below it.",
        ),
    ] = None


class ShownRun(Shown):
    """`counts` has read, new, changed, unchanged, gone and rejected."""

    id: UUID
    connection: UUID
    state: State
    cause: str
    by: str
    scope: str | None
    attempt: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    counts: dict[str, int]
    cursor: Any = None
    error: str


@router.post("/connections/{id}/run", status_code=202, summary="Crawl a source now")
def start(
    id: Segment,
    response: Response,
    caller: Manager,
    services: ServicesDep,
    body: Wanted | None = None,
) -> ShownRun:
    """A run that already waits for the same is answered instead of a second one."""
    scope, now = body.scope if body else None, services.core.clock.now()
    with services.core.database.unit(caller.tenant) as unit:
        found = connections.get(unit, uuid_of("connection", id))
        if "source" not in found.uses:
            raise Conflict(f"{found.name!r} is a {found.uses[0]}; only a source can be crawled.")
        if not found.enabled:
            raise Conflict(f"{found.name!r} is disabled; enable it first.")
        run = crawls.ask(unit, found.id, "request", caller.name, scope, now)
    response.headers["Location"] = f"{router.prefix}/crawls/{run.id}"
    return _shown(run)


@router.get("/connections/{id}/runs", summary="Crawls of a source, newest first")
def listed(
    id: Segment,
    caller: Reader,
    services: ServicesDep,
    limit: Limit = 100,
    after: After | None = None,
) -> Page[ShownRun]:
    key = unmark(after, tuple[int])
    with services.core.database.unit(caller.tenant) as unit:
        found = connections.get(unit, uuid_of("connection", id))
        runs = crawls.page(unit, found.id, key[0] if key else None, limit + 1)
    more, runs = len(runs) > limit, runs[:limit]
    following = mark(runs[-1].number) if more else None
    return Page(items=[_shown(run) for run in runs], next=following)


@router.get("/crawls/{run}", summary="How a crawl goes")
def read(run: Segment, caller: Reader, services: ServicesDep) -> ShownRun:
    with services.core.database.unit(caller.tenant) as unit:
        return _shown(crawls.get(unit, uuid_of("crawl", run)))


@router.post("/crawls/{run}/cancel", summary="End a crawl; nothing is deleted by it")
def cancel(run: Segment, caller: Manager, services: ServicesDep) -> ShownRun:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        return _shown(
            crawls.cancel(unit, uuid_of("crawl", run), actor_of(caller), core.clock.now())
        )


def _shown(run: Run) -> ShownRun:
    return ShownRun.model_validate(run)
