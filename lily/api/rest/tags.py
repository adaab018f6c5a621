"""What tags and terms mean, and what happens to those that nobody defined."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, StringConstraints
from starlette.responses import Response

from lily.api.deps import After, Limit, Segment, ServicesDep, requires
from lily.api.fields import Line, Page, Request, Shown, example
from lily.api.rest.assets import who_of
from lily.api.rest.pages import mark, unmark
from lily.store import tag_definitions
from lily.store.tag_definitions import Settings, TagDefinitions
from lily.tags.definitions import Definition, Kind, Unknown
from lily.tags.effective import Precedence
from lily.types import Caller

Reader = Annotated[Caller, requires("assets:read")]
Manager = Annotated[Caller, requires("tags:manage")]
Colour = Annotated[str, StringConstraints(pattern=r"^#[0-9a-fA-F]{6}$")]
Text = Annotated[str, StringConstraints(max_length=10_000, pattern="^[^\\x00]*$")]
Depth = Annotated[int, Field(ge=1, le=100, description="How many edges far at most.")]
Rank = Annotated[
    int, Field(ge=-1000, le=1000, description="Within the group: higher is more restrictive.")
]

TERM = {"name": "churn", "description": "Who left us in a month.", "propagates": True}
TAG = {
    "name": "secret", "description": "For nobody.", "colour": "#b71c1c",
    "exclusive_group": "sensitivity", "rank": 4, "propagates": True, "edge_kinds": ["feeds"],
    "max_depth": 10, "precedence": "restrictive",
}  # fmt: skip


class TermPart(Request):
    model_config = example({k: v for k, v in TERM.items() if k != "name"})

    name: Line | None = Field(None, description="Only while nothing uses it.")
    description: Text | None = None
    colour: Colour | None = None
    propagates: bool | None = Field(
        None, description="Whether it travels along lineage, and down to what lies in an asset."
    )
    edge_kinds: list[Line] | None = Field(
        None, max_length=100, description="Along these; null: all but `influences`."
    )
    max_depth: Depth | None = None


class TagPart(TermPart):
    model_config = example({"propagates": False})

    exclusive_group: Line | None = Field(None, description="Of a group an asset shows one tag.")
    rank: Rank | None = None
    precedence: Precedence | None = Field(
        None, description="Who is shown where they disagree; the strictest tag of a group says it."
    )


class NewTerm(TermPart):
    model_config = example(TERM)

    name: Line


class NewTag(TagPart):
    model_config = example(TAG)

    name: Line


class TermShown(Shown):
    name: str
    description: str
    colour: str | None
    propagates: bool
    edge_kinds: list[str] | None
    max_depth: int | None
    first_use: bool = Field(description="Nobody defined it: it was used.")
    builtin: bool
    version: int
    created_at: datetime
    created_by: str
    updated_at: datetime


class TagShown(TermShown):
    exclusive_group: str | None
    rank: int
    precedence: Precedence


class SettingsShown(Request):
    model_config = example({"unknown_tags": "refuse", "unknown_terms": "create"})

    unknown_tags: Unknown = Field("create", description="What happens to a tag nobody defined.")
    unknown_terms: Unknown = "create"


NULLABLE = {"colour", "exclusive_group", "edge_kinds", "max_depth"}


def _said(body: TermPart) -> dict[str, Any]:
    """What was given; null means something only where nothing is a value."""
    given = body.model_dump(exclude_unset=True)
    return {name: value for name, value in given.items() if value is not None or name in NULLABLE}


def _defined(services: ServicesDep, kind: Kind) -> TagDefinitions:
    return TagDefinitions(services.core.database, services.core.clock, kind)


def _page(found: list[Definition], limit: int) -> dict[str, Any]:
    page = found[:limit]
    return {"items": page, "next": mark(page[-1].name) if len(found) > limit else None}


def _start(after: str) -> str:
    key = unmark(after, tuple[str])
    return key[0].replace("\0", "") if key else ""


tags = APIRouter(prefix="/api/v1/tags", tags=["tags"])
terms = APIRouter(prefix="/api/v1/terms", tags=["tags"])
settings = APIRouter(prefix="/api/v1/tag-settings", tags=["tags"])


@tags.get("", response_model=Page[TagShown], summary="List tags")
def list_tags(
    caller: Reader, services: ServicesDep, limit: Limit = 100, after: After = ""
) -> dict[str, Any]:
    """By name; those that are built in too."""
    start = _start(after)
    return _page(_defined(services, "tag").page(caller.tenant, start, limit + 1), limit)


@tags.post("", status_code=201, response_model=TagShown, summary="Define a tag")
def define_tag(body: NewTag, caller: Manager, services: ServicesDep) -> Definition:
    return _defined(services, "tag").create(caller.tenant, _said(body), who_of(caller))


@tags.get("/{name}", response_model=TagShown, summary="Read a tag's definition")
def read_tag(name: Segment, caller: Reader, services: ServicesDep) -> Definition:
    return _defined(services, "tag").find(caller.tenant, name)


@tags.patch("/{name}", response_model=TagShown, summary="Change a tag's definition")
def change_tag(name: Segment, body: TagPart, caller: Manager, services: ServicesDep) -> Definition:
    """Where groups, ranks or precedence change, assets are folded again in the background."""
    return _defined(services, "tag").change(caller.tenant, name, _said(body), who_of(caller))


@tags.delete("/{name}", status_code=204, summary="Delete a tag that nothing uses")
def delete_tag(name: Segment, caller: Manager, services: ServicesDep) -> Response:
    _defined(services, "tag").delete(caller.tenant, name, who_of(caller))
    return Response(status_code=204)


@terms.get("", response_model=Page[TermShown], summary="List business terms")
def list_terms(
    caller: Reader, services: ServicesDep, limit: Limit = 100, after: After = ""
) -> dict[str, Any]:
    start = _start(after)
    return _page(_defined(services, "term").page(caller.tenant, start, limit + 1), limit)


@terms.post("", status_code=201, response_model=TermShown, summary="Define a business term")
def define_term(body: NewTerm, caller: Manager, services: ServicesDep) -> Definition:
    return _defined(services, "term").create(caller.tenant, _said(body), who_of(caller))


@terms.get("/{name}", response_model=TermShown, summary="Read a term's definition")
def read_term(name: Segment, caller: Reader, services: ServicesDep) -> Definition:
    return _defined(services, "term").find(caller.tenant, name)


@terms.patch("/{name}", response_model=TermShown, summary="Change a term's definition")
def change_term(
    name: Segment, body: TermPart, caller: Manager, services: ServicesDep
) -> Definition:
    return _defined(services, "term").change(caller.tenant, name, _said(body), who_of(caller))


@terms.delete("/{name}", status_code=204, summary="Delete a term that nothing uses")
def delete_term(name: Segment, caller: Manager, services: ServicesDep) -> Response:
    _defined(services, "term").delete(caller.tenant, name, who_of(caller))
    return Response(status_code=204)


@settings.get("", summary="Read what happens to unknown tags")
def read_settings(caller: Reader, services: ServicesDep) -> SettingsShown:
    found = tag_definitions.settings(services.core.database, caller.tenant)
    return SettingsShown(unknown_tags=found.unknown_tags, unknown_terms=found.unknown_terms)


@settings.put("", summary="Say what happens to unknown tags")
def set_settings(body: SettingsShown, caller: Manager, services: ServicesDep) -> SettingsShown:
    """`create` defines them when they are first used; `refuse` answers 422, and an observation
    with one becomes a dead letter."""
    core, wanted = services.core, Settings(body.unknown_tags, body.unknown_terms)
    tag_definitions.set_settings(core.database, core.clock, caller.tenant, wanted, who_of(caller))
    return body
