"""What rules suggest, decided one by one or many at once; and labels for a whole search."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field, model_validator

from lily.api.deps import After, Limit
from lily.api.fields import Line, Loose, Page, Request, Shown, example
from lily.api.rest.assets import Editor, Reader, who_of
from lily.api.rest.labels import LabelsDep, Name
from lily.api.rest.pages import mark, unmark
from lily.assets.query import parse
from lily.errors import Invalid
from lily.store.labels import Change, Place
from lily.types import Caller

router = APIRouter(prefix="/api/v1/suggestions", tags=["tags"])
found = APIRouter(prefix="/api/v1/metadata/search", tags=["tags"])

MOST = 10_000


class SuggestionShown(Shown):
    guid: UUID
    qualified_name: str
    tag: str
    by: str
    reason: str
    at: datetime


class One(Request):
    asset_id: Annotated[str, Field(min_length=1, max_length=4000, pattern=r"^[^\x00]*$")]
    tag: Name


class Matching(Request):
    tag: Name | None = None
    by: Loose | None = None


class Decision(Request):
    """Either `items`, or all that wait and match `filter`."""

    model_config = example({"filter": {"tag": "PII", "by": "classify"}, "limit": 1000})

    items: list[One] | None = Field(None, min_length=1, max_length=1000)
    filter: Matching | None = None
    limit: int = Field(1000, ge=1, le=MOST)

    @model_validator(mode="after")
    def one_way(self) -> "Decision":
        if (self.items is None) == (self.filter is None):
            raise ValueError("give either items or filter")
        return self


class Decided(Shown):
    """How many suggestions were decided; as many as the limit means that there may be more."""

    decided: int


class Wanted(Request):
    """What is done to everything that the search finds."""

    model_config = example(
        {"query": {"q": "customer", "asset_type": ["table"]}, "add_tags": ["PII"], "dry_run": True}
    )

    query: dict[str, str | list[str]] = Field(
        description="As the parameters of GET /api/v1/metadata/search, without limit and after."
    )
    add_tags: list[Name] = Field([], max_length=100)
    remove_tags: list[Name] = Field([], max_length=100, description="One's own, and accepted ones.")
    add_terms: list[Name] = Field([], max_length=100)
    remove_terms: list[Name] = Field([], max_length=100)
    asset_owner: Line | None = Field(None, description="Becomes the owner of all of them.")
    dry_run: bool = False
    limit: int = Field(1000, ge=1, le=MOST, description="How many assets at most, this time.")
    after: Annotated[str, Field(max_length=2000)] = Field("", description="`next` of the answer.")


class DoneShown(Shown):
    """`next` goes into `after` to go on; null when everything was done."""

    matched: int
    changed: int
    total: int
    total_is_exact: bool
    next: str | None


@router.get("", response_model=Page[SuggestionShown], summary="List tags that rules suggest")
def list_suggestions(
    caller: Reader,
    labels: LabelsDep,
    tag: Annotated[Loose | None, Query()] = None,
    by: Annotated[Loose | None, Query(description="Which rule, such as classify.")] = None,
    limit: Limit = 100,
    after: After = "",
) -> dict[str, object]:
    """What nobody has decided on, by asset."""
    key = unmark(after, tuple[UUID, str, str])
    if key and any("\0" in part for part in key[1:]):
        raise Invalid("is not the `next` of a page; start again without it", "after")
    start = Place(*key) if key else Place()
    items = labels.suggested(caller.tenant, start, limit + 1, tag, by)
    page = items[:limit]
    last = page[-1] if len(items) > limit else None
    return {"items": page, "next": mark(last.guid, last.tag, last.by) if last else None}


@router.post("/accept", summary="Accept suggestions")
def accept(body: Decision, caller: Editor, labels: LabelsDep) -> Decided:
    return _decide(body, caller, labels, True)


@router.post("/reject", summary="Reject suggestions")
def reject(body: Decision, caller: Editor, labels: LabelsDep) -> Decided:
    """They will not be suggested again."""
    return _decide(body, caller, labels, False)


@found.post("/tags", summary="Tag, or give to an owner, everything that a search finds")
def change_found(body: Wanted, caller: Editor, labels: LabelsDep) -> DoneShown:
    """In chunks of 100, each a transaction of its own; `dry_run` only counts."""
    if unknown := {"limit", "after"}.intersection(body.query):
        raise Invalid(f"{unknown.pop()} stands beside the query, not in it", "query")
    change = Change(
        body.add_tags, body.remove_tags, body.add_terms, body.remove_terms, body.asset_owner
    )
    if not any(msgspec.structs.astuple(change)):
        raise Invalid("says nothing to do; give add_tags, remove_tags, …", "add_tags")
    given = [
        (name, each)
        for name, value in body.query.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    if any("\0" in part for pair in given for part in pair):
        raise Invalid("contains a NUL character; remove it", "query")
    query = parse([*given, *([("after", body.after)] if body.after else [])])
    done = labels.change_found(
        caller.tenant, query, change, body.limit, body.dry_run, who_of(caller)
    )
    return DoneShown(**msgspec.structs.asdict(done))


def _decide(body: Decision, caller: Caller, labels: LabelsDep, accept: bool) -> Decided:
    who = who_of(caller)
    if body.items is not None:
        for item in body.items:
            labels.settle(caller.tenant, item.asset_id, [item.tag], accept, None, who)
        return Decided(decided=len(body.items))
    wanted = body.filter or Matching()
    return Decided(
        decided=labels.settle_many(caller.tenant, accept, wanted.tag, wanted.by, body.limit, who)
    )
