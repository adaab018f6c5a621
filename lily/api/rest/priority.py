"""Which sources win where several describe one asset."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from lily.api.deps import ServicesDep, actor_of, requires
from lily.api.fields import Line, Request, Shown, example
from lily.errors import Invalid
from lily.store import priority
from lily.types import Caller

router = APIRouter(prefix="/api/v1/source-priority", tags=["connections"])


class Wanted(Request):
    model_config = example({"sources": ["dbt", "crawler"]})

    sources: list[Line] = Field(max_length=1000, description="Strongest first.")


class Priority(Shown):
    sources: list[str]


@router.get("", summary="Read which sources win")
def read(
    caller: Annotated[Caller, requires("connections:read")], services: ServicesDep
) -> Priority:
    return Priority(sources=priority.sources(services.core.database, caller.tenant))


@router.put("", summary="Say which sources win")
def write(
    body: Wanted,
    caller: Annotated[Caller, requires("connections:manage")],
    services: ServicesDep,
) -> Priority:
    """Sources that are not named follow those that are, newest first."""
    if len(set(body.sources)) != len(body.sources):
        raise Invalid("names a source twice; name each once", "sources")
    core = services.core
    done = priority.set_sources(
        core.database, core.clock, caller.tenant, body.sources, actor_of(caller)
    )
    return Priority(sources=done)
