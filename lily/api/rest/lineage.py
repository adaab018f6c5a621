"""Lineage: edges stated and deleted, the graph around an asset, and what depends on it."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from lily.api import hot
from lily.api.deps import After, AssetKey, Limit, ServicesDep, requires, uuid_of
from lily.api.edges import EdgeOutcome, Made, submit
from lily.api.rest.assets import Kinds, edits_of, json, who_of, words
from lily.api.rest.lineage_shapes import BODY, EdgeList, EdgeShown, Graph, Impact
from lily.api.rest.pages import mark, unmark
from lily.errors import Invalid, TooLarge
from lily.lineage.graph import DEEPEST, Asked, Columns, Direction, Page, public, shown
from lily.lineage.graph import column as column_shown
from lily.store import graph
from lily.store.edge_edits import EdgeEdits
from lily.types import Caller

router = APIRouter(prefix="/api/v1/metadata/lineage", tags=["lineage"])

Reader = Annotated[Caller, requires("lineage:read")]
Writer = Annotated[Caller, requires("lineage:write")]
Way = Annotated[Direction, Query(description="Where the data goes to, comes from, or both.")]
Depth = Annotated[int, Query(ge=1, le=DEEPEST, description="How many steps at most.")]
Labels = Annotated[Sequence[str], Query(description="Relationship types, repeated or with commas.")]
CODES = {"created": 201, "accepted": 202, "rejected": 422}


@router.post(
    "",
    summary="State one edge, or a list of at most 1000",
    openapi_extra=BODY,
    responses={
        200: {"model": EdgeShown, "description": "Known already: changed or not; or a list."},
        201: {"model": EdgeShown, "description": "A new edge."},
        202: {"model": EdgeShown, "description": "Durable, not yet applied."},
        207: {"model": EdgeList, "description": "A list of which some were refused."},
    },
)
async def state(request: Request, caller: Writer, services: ServicesDep) -> Response:
    """Waits until the edges are applied. Without a `source` it is your own word, which stands above
    what sources say and brings back what a person deleted."""
    body = hot.parse(await request.body())
    wait = "respond-async" not in request.headers.get("prefer", "")
    documents = body if isinstance(body, list) else [body]
    if not documents:
        raise Invalid("is an empty list; send at least one edge")
    if len(documents) > hot.MOST:
        raise TooLarge(f"A list holds at most {hot.MOST} edges; send several.")
    outcomes, made = await submit(services, caller, documents, wait=wait)
    await run_in_threadpool(_place, services, caller, made)
    if not isinstance(body, list):
        if outcomes[0].status == "rejected":
            raise Invalid(outcomes[0].errors)
        return json(_entry(outcomes[0]), CODES.get(outcomes[0].status, 200))
    if all(outcome.status == "rejected" for outcome in outcomes):
        raise Invalid([error for outcome in outcomes for error in outcome.errors])
    items = [{"status": CODES.get(each.status, 200), **_entry(each)} for each in outcomes]
    partly = any(outcome.status == "rejected" for outcome in outcomes)
    waiting = any(outcome.status == "accepted" for outcome in outcomes)
    return json({"items": items}, 207 if partly else 202 if waiting else 200)


def _place(services: ServicesDep, caller: Caller, made: list[Made]) -> None:
    """What people say lies in what is an edit of the asset."""
    for each in made:
        if each.is_edit:
            body: dict[str, object] = {"parent_id": each.start}
            edits_of(services).edit(caller.tenant, each.end, body, False, who_of(caller))


def _entry(outcome: EdgeOutcome) -> dict[str, Any]:
    entry: dict[str, Any] = {"outcome": outcome.status, "edge_id": outcome.edge_id}
    if outcome.cause:
        entry["cause"] = outcome.cause
    if outcome.child:
        entry |= {"relationship_type": "contains", "parent": outcome.parent, "child": outcome.child}
    if outcome.edge is not None:
        entry |= public(outcome.edge)
    if outcome.column_ids:
        known = {edge.id: column_shown(edge) for edge in outcome.columns}
        entry["columns"] = [known.get(id, {"edge_id": id}) for id in outcome.column_ids]
    if outcome.errors:
        entry["errors"] = outcome.errors
    return entry


@router.delete("", response_model=EdgeList, summary="Delete the edges between two assets")
def delete_between(
    start: Annotated[str, Query(alias="from", min_length=1, pattern="^[^\\x00]*$")],
    end: Annotated[str, Query(alias="to", min_length=1, pattern="^[^\\x00]*$")],
    caller: Writer,
    services: ServicesDep,
    type: Annotated[
        str | None, Query(description="Only of this relationship type.", pattern="^[^\\x00]*$")
    ] = None,
) -> Response:
    """With the edges of their columns. They stay deleted, whatever sources say, until a person
    states them again."""
    edits = EdgeEdits(services.core.database, services.core.clock)
    gone = edits.delete_between(caller.tenant, start, end, type, who_of(caller))
    return json({"items": [public(edge) for edge in gone]})


@router.delete("/{id}", response_model=EdgeList, summary="Delete an edge")
def delete(id: AssetKey, caller: Writer, services: ServicesDep) -> Response:
    """By its edge_id, with the edges of its columns."""
    edits = EdgeEdits(services.core.database, services.core.clock)
    gone = edits.delete(caller.tenant, uuid_of("edge", id), who_of(caller))
    return json({"items": [public(edge) for edge in gone]})


@router.get("/{id}", response_model=Graph, summary="The graph around an asset")
async def read(
    id: AssetKey,
    caller: Reader,
    services: ServicesDep,
    kinds: Kinds = (),
    types: Labels = (),
    direction: Way = "downstream",
    depth: Depth = 5,
    columns: Annotated[bool, Query(description="With the columns of each table edge.")] = False,
    include_deleted: Annotated[bool, Query(description="Deleted ones too.")] = False,
    limit: Limit = 1000,
    after: After = "",
) -> Response:
    """Breadth first, by depth and then guid. Tables show table edges and those that their columns
    imply; a column shows the edges of columns. An edge comes with the later of its ends."""
    key = unmark(after, tuple[int, UUID])
    root = await hot.find(services, caller, id)
    hidden = (root.deleted_by or root.archived_at) and not include_deleted
    asked = Asked(
        direction=direction, depth=0 if hidden else depth, fields=root.lane == "fields",
        labels=words(types), kinds=words(kinds), deleted=include_deleted, limit=limit,
        after=key or (-1, UUID(int=0)),
    )  # fmt: skip
    found, inner = await _walked(services, caller, root.guid, asked, columns)
    answer = {
        "root": root.guid, "direction": direction, "depth": depth, **shown(found, inner),
        "next": mark(*found.end) if found.more else None, "truncated": found.more or found.cut,
    }  # fmt: skip
    return json(answer)


async def _walked(
    services: ServicesDep, caller: Caller, root: UUID, asked: Asked, columns: bool
) -> tuple[Page, Columns | None]:
    number = caller.tenant.number

    reads = await (await services.hot(caller.tenant.cell)).to_read(number)
    found = await graph.page(reads, number, root, asked)
    if not columns or asked.fields:
        return found, None
    pairs = [(line.upstream, line.downstream, line.type) for line in found.edges]
    within = partial(graph.within, tenant=number, pairs=pairs, deleted=asked.deleted)
    return found, await reads.run(number, within)


@router.get("/{id}/impact", response_model=Impact, summary="What depends on an asset, in numbers")
async def impact(
    id: AssetKey,
    caller: Reader,
    services: ServicesDep,
    types: Labels = (),
    direction: Annotated[
        str, Query(pattern="^(upstream|downstream)$", description="Where to count.")
    ] = "downstream",
    depth: Depth = DEEPEST,
) -> Response:
    """Counts by kind, owner, tag and distance."""
    root = await hot.find(services, caller, id)
    asked = Asked(
        direction="upstream" if direction == "upstream" else "downstream",
        depth=0 if root.deleted_by or root.archived_at else depth,
        fields=root.lane == "fields", labels=words(types),
    )  # fmt: skip
    number = caller.tenant.number
    reads = await (await services.hot(caller.tenant.cell)).to_read(number)
    counts = await reads.run(
        number, partial(graph.impact, tenant=number, root=root.guid, asked=asked)
    )
    return json({"root": root.guid, "direction": direction, "depth": depth, **counts})
