"""Scraper policies: which columns the sources of a group may speak of."""

from datetime import datetime
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import APIRouter, Response
from pydantic import Field

from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Line, Page, Request, Shown, example
from lily.api.rest.pages import mark, unmark
from lily.store import scrapers
from lily.store.scrapers import ScraperPolicy
from lily.types import Caller

router = APIRouter(prefix="/api/v1/scraper-policies", tags=["access"])

Reader = Annotated[Caller, requires("policies:read")]
Manager = Annotated[Caller, requires("policies:manage")]


class ScraperBody(Request):
    model_config = example({"scraper_group": "crm scrapers", "allowed_columns": ["id", "crm.*#*"]})

    scraper_group: Annotated[Line, Field(description="A source, or a group of sources.")]
    allowed_columns: list[Line] = Field(
        max_length=10_000,
        description="Patterns with `*` and `?`, on a column's name or its qualified name.",
    )


class ScraperShown(Shown):
    policy_id: UUID
    scraper_group: str
    allowed_columns: list[str]
    created_at: datetime


@router.post("", status_code=201, summary="Bind the sources of a group to columns")
def create(
    body: ScraperBody, response: Response, caller: Manager, services: ServicesDep
) -> ScraperShown:
    """What such a source says of another column is refused, and kept as a dead letter."""
    core = services.core
    made = ScraperPolicy(uuid4(), body.scraper_group, body.allowed_columns, core.clock.now())
    with core.database.unit(caller.tenant) as unit:
        scrapers.create(unit, made, actor_of(caller))
    response.headers["Location"] = f"{router.prefix}/{made.id}"
    return _shown(made)


@router.get("", summary="List scraper policies")
def listed(
    caller: Reader, services: ServicesDep, limit: Limit = 100, after: After | None = None
) -> Page[ScraperShown]:
    key = unmark(after, tuple[UUID])
    with services.core.database.unit(caller.tenant) as unit:
        found = scrapers.page(unit, key[0] if key else None, limit + 1)
    more, found = len(found) > limit, found[:limit]
    following = mark(str(found[-1].id)) if more else None
    return Page(items=[_shown(each) for each in found], next=following)


@router.get("/{id}", summary="Read a scraper policy")
def read(id: Segment, caller: Reader, services: ServicesDep) -> ScraperShown:
    with services.core.database.unit(caller.tenant) as unit:
        return _shown(scrapers.get(unit, uuid_of("scraper policy", id)))


@router.delete("/{id}", status_code=204, summary="Delete a scraper policy")
def delete(id: Segment, caller: Manager, services: ServicesDep) -> Response:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        now = core.clock.now()
        scrapers.delete(unit, uuid_of("scraper policy", id), actor_of(caller), now)
    return Response(status_code=204)


def _shown(policy: ScraperPolicy) -> ScraperShown:
    return ScraperShown(
        policy_id=policy.id,
        scraper_group=policy.scraper_group,
        allowed_columns=policy.allowed_columns,
        created_at=policy.created_at,
    )
