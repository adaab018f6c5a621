"""Assets one by one: people's edits, and reads around an asset."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Header, Query
from starlette.responses import Response

from lily.api import behind
from lily.api.bodies import Document, described
from lily.api.deps import After, AssetKey, Limit, ServicesDep, actor_of, requires
from lily.api.fields import Loose
from lily.api.rest.pages import mark, unmark
from lily.api.rest.shapes import AssetShown, ChildrenPage, SourcesShown, VersionPage
from lily.assets.documents import own_tenant
from lily.assets.edits import Who
from lily.assets.model import Asset, public
from lily.errors import Forbidden
from lily.store import history, inheritance, sources, views
from lily.store.edits import Edits
from lily.store.incident_views import shown_with
from lily.tags.effective import effective
from lily.types import Caller

router = APIRouter(prefix="/api/v1/metadata", tags=["assets"])

Reader = Annotated[Caller, requires("assets:read")]
Editor = Annotated[Caller, requires("assets:edit")]
Deleter = Annotated[Caller, requires("assets:delete")]
Purger = Annotated[Caller, requires("assets:purge")]

EDIT = {
    "asset_owner": "ann",
    "description": "Everybody we sell to.",
    "tags": ["PII"],
    "business_terms": ["customer"],
    "metadata": {"reviewed": True},
}
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "model": AssetShown,
        "headers": {"ETag": {"description": "The version, quoted.", "schema": {"type": "string"}}},
    }
}
_TAG = re.compile(r'(?:W/)?"(\d{1,9})"')
_encode = msgspec.json.Encoder().encode


def json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(value), status, headers, "application/json")


def answered(asset: Asset, caller: Caller, more: Mapping[str, Any] | None = None) -> Response:
    """An asset's canonical JSON, with its version as ETag."""
    document = {**public(asset, caller.tenant.id), **(more or {})}
    told = {"ETag": f'"{asset.version}"', "Lily-Position": str(asset.feed_position)}
    return json(document, headers=told)


def edits_of(services: ServicesDep) -> Edits:
    return Edits(services.core.database, services.core.clock, effective)


def who_of(caller: Caller) -> Who:
    actor = actor_of(caller)
    return Who(actor.name, actor.cause, actor.traceparent)


def _versions(if_match: Annotated[str | None, Header()] = None) -> frozenset[int] | None:
    """The versions that an edit may replace; None is any."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = (_TAG.fullmatch(part.strip()) for part in if_match.split(","))
    return frozenset(int(match[1]) for match in found if match)


# The default stands with the parameter: a factory is inspected anew at each request.
Kinds = Annotated[Sequence[str], Query(description="Asset types, repeated or with commas.")]
EditsDep = Annotated[Edits, Depends(edits_of)]
Versions = Annotated[frozenset[int] | None, Depends(_versions)]


def words(given: Sequence[str]) -> list[str]:
    """Several values of a parameter, repeated or with commas."""
    return [part for value in given for part in value.split(",") if part]


@router.get("/by-name", response_model=AssetShown, summary="Read an asset by its qualified name")
def by_name(
    qualified_name: Annotated[str, Query(min_length=1, pattern="^[^\\x00]*$")],
    caller: Reader,
    services: ServicesDep,
) -> Response:
    """For proxies that decode what is encoded in a path."""
    database = services.core.database
    with database.reading(caller.tenant) as unit:
        asset = inheritance.shown(unit, views.by_name(unit, qualified_name), database)
        more = shown_with(unit, [asset]).get(asset.guid, {})
    return answered(asset, caller, more)


@router.put(
    "/{id}", responses=ANSWER, openapi_extra=described(EDIT), summary="Replace what people edited"
)
def replace(
    id: AssetKey, body: Document, caller: Editor, edits: EditsDep, versions: Versions
) -> Response:
    """What is not given shows as its sources say it."""
    own_tenant(body.get("tenant_id"), caller.tenant)
    return answered(edits.edit(caller.tenant, id, body, True, who_of(caller), versions), caller)


@router.patch("/{id}", responses=ANSWER, openapi_extra=described(EDIT), summary="Edit some fields")
def merge(
    id: AssetKey, body: Document, caller: Editor, edits: EditsDep, versions: Versions
) -> Response:
    """Null takes an edit back, so that the source's value shows again; metadata keys merge."""
    own_tenant(body.get("tenant_id"), caller.tenant)
    return answered(edits.edit(caller.tenant, id, body, False, who_of(caller), versions), caller)


@router.delete(
    "/{id}",
    responses={**ANSWER, 204: {"description": "Purged."}},
    summary="Delete softly, or for good",
)
def delete(
    id: AssetKey,
    caller: Deleter,
    edits: EditsDep,
    versions: Versions,
    purge: Annotated[bool, Query(description="For good; needs the right assets:purge.")] = False,
) -> Response:
    """A person's delete outlives that sources see the asset again, until it is restored."""
    if not purge:
        return answered(edits.delete(caller.tenant, id, who_of(caller), versions), caller)
    if not caller.may("assets:purge"):
        raise Forbidden("This needs the right assets:purge, which your role does not have.")
    return _purged(id, caller, edits, versions)


@router.post("/{id}/restore", responses=ANSWER, summary="Bring back what was deleted or archived")
def restore(id: AssetKey, caller: Deleter, edits: EditsDep) -> Response:
    return answered(edits.restore(caller.tenant, id, who_of(caller)), caller)


@router.post("/{id}/purge", summary="Remove for good", status_code=204)
def purge(id: AssetKey, caller: Purger, edits: EditsDep, versions: Versions) -> Response:
    """Row, sources, aliases and tags go; its facts stay, and older observations are ignored."""
    return _purged(id, caller, edits, versions)


def _purged(id: str, caller: Caller, edits: Edits, versions: frozenset[int] | None) -> Response:
    edits.purge(caller.tenant, id, who_of(caller), versions)
    return Response(status_code=204)


@router.get("/{id}/children", response_model=ChildrenPage, summary="What lies directly in an asset")
def children(
    id: AssetKey,
    caller: Reader,
    services: ServicesDep,
    kinds: Kinds = (),
    limit: Limit = 100,
    after: After = "",
    deleted: Annotated[bool, Query(description="Deleted ones too.")] = False,
    q: Annotated[Loose, Query(description="Only those with this in their names.")] = "",
) -> Response:
    key = unmark(after, tuple[UUID])
    with services.core.database.reading(caller.tenant) as unit:
        parent = views.find(unit, id)
        start = key[0] if key else views.FIRST
        found = views.children(unit, parent, start, limit + 1, words(kinds), deleted, q)
        fields = behind.Fields(unit, parent.qualified_name)
    page = found[:limit]
    next = mark(page[-1].guid) if len(found) > limit else None
    items = [public(each, caller.tenant.id) for each in page]
    waiting, _ = fields.count(services, caller.tenant)
    return json({"items": items, "next": next, "fields_waiting": waiting})


@router.get("/{id}/history", response_model=VersionPage, summary="Versions, newest first")
def versions(
    id: AssetKey, caller: Reader, services: ServicesDep, limit: Limit = 100, after: After = ""
) -> Response:
    """Each version with what changed, by whom, and why."""
    key = unmark(after, tuple[int])
    with services.core.database.reading(caller.tenant) as unit:
        asset = views.find(unit, id)
        start = key[0] if key else history.END
        page, end = history.versions(unit, asset, start, limit)
    return json({"items": page, "next": mark(end) if end else None})


@router.get("/{id}/sources", response_model=SourcesShown, summary="Who says what of an asset")
def stated(id: AssetKey, caller: Reader, services: ServicesDep) -> Response:
    with services.core.database.reading(caller.tenant) as unit:
        return json(sources.of(unit, views.find(unit, id), effective))
