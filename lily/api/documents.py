"""The source documents' own requests, word for word, with their answers."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from lily.api import documents_examples as examples
from lily.api.bodies import Document, described
from lily.api.deps import AssetKey, ServicesDep, requires
from lily.api.intake import Outcome, submit
from lily.api.jobs import documents_job
from lily.api.rest.assets import EditsDep, json, who_of
from lily.assets import dialects, wanted
from lily.assets.dialects import Json
from lily.assets.documents import own_tenant, statement
from lily.errors import FieldError, Invalid, NotFound
from lily.store import views
from lily.types import Caller, Tenant
from lily.wiring import Services

router = APIRouter(tags=["source documents"])

Ingester = Annotated[Caller, requires("assets:ingest")]
Reader = Annotated[Caller, requires("assets:read")]
Editor = Annotated[Caller, requires("assets:edit")]
Deleter = Annotated[Caller, requires("assets:delete")]

MOST = 1_000
Rename = Callable[[str], str]


@router.post(
    "/ingest-metadata",
    responses=examples.answer(examples.INGESTED),
    openapi_extra=described(examples.ENTITY),
    summary="Ingest an entity with attributes",
)
async def ingest_entity(body: Document, caller: Ingester, services: ServicesDep) -> Response:
    document = dialects.from_entity(body)
    outcome = await _one(services, caller, document, dialects.entity_field)
    id = outcome.asset.asset_id if outcome.asset else str(outcome.guid)
    return _answer([outcome], {"status": "success", "metadata_id": id})


@router.get(
    "/metadata/{id}",
    responses=examples.answer(examples.ENTITY_SHOWN),
    summary="Read an entity with attributes",
)
def read_entity(id: AssetKey, caller: Reader, services: ServicesDep) -> Response:
    with services.core.database.unit(caller.tenant) as unit:
        asset = views.find(unit, id)
    if asset.deleted_by:
        raise NotFound("asset", id)  # this shape cannot say that it is deleted
    return json(dialects.to_entity(asset, caller.tenant))


@router.put(
    "/metadata/{id}",
    responses=examples.answer(examples.INGESTED),
    openapi_extra=described(examples.ENTITY_UPDATE),
    summary="Update attributes of an entity",
)
def update_entity(id: AssetKey, body: Document, caller: Editor, edits: EditsDep) -> Response:
    own_tenant(body.get("tenant_id"), caller.tenant)
    try:
        edit = wanted.read(dialects.entity_edit(body), False)
    except Invalid as cause:
        raise _renamed(cause, dialects.entity_field) from None
    asset = edits.apply(caller.tenant, id, edit, who_of(caller))
    return json({"status": "success", "metadata_id": asset.asset_id})


@router.delete(
    "/metadata/{id}", responses=examples.answer(examples.INGESTED), summary="Delete an entity"
)
def delete_entity(id: AssetKey, caller: Deleter, edits: EditsDep) -> Response:
    asset = edits.delete(caller.tenant, id, who_of(caller), living=True)
    return json({"status": "success", "metadata_id": asset.asset_id})


@router.post("/ingest_metadata", include_in_schema=False)
@router.post(
    "/ingest_metadata/",
    responses=examples.answer(examples.PLAIN_INGESTED),
    openapi_extra=described(examples.PLAIN),
    summary="Ingest an own id with texts",
)
async def ingest_plain(body: Document, caller: Ingester, services: ServicesDep) -> Response:
    document = dialects.from_plain(body)
    outcome = await _one(services, caller, document, dialects.plain_field)
    return _answer([outcome], examples.PLAIN_INGESTED)


@router.post(
    "/lily/v1/metadata",
    responses=examples.answer(examples.PROCESSED),
    openapi_extra=described({"metadata": examples.NESTED}),
    summary="Create or update one key of an asset's metadata",
)
async def ingest_nested(body: Document, caller: Ingester, services: ServicesDep) -> Response:
    if not isinstance(body.get("metadata"), dict):
        raise Invalid("is missing; give an object with asset and metadata_details", "metadata")
    [outcome] = await _nested(services, caller, [body["metadata"]], lambda _: "metadata")
    return _answer([outcome], examples.PROCESSED)


@router.post(
    "/lily/v1/metadata/bulk",
    responses=examples.answer(examples.BULK_PROCESSED),
    openapi_extra=described({"metadata": [examples.NESTED]}),
    summary="The same for many; more than 1000 become a job",
)
async def ingest_bulk(body: Document, caller: Ingester, services: ServicesDep) -> Response:
    items = body.get("metadata")
    if not isinstance(items, list) or not items:
        raise Invalid("is missing; give a list with at least one item", "metadata")
    if len(items) > MOST:
        folded = [document for document, _ in _folded(services, caller, items, _item_of)]
        return await run_in_threadpool(documents_job, services, caller, folded)
    outcomes = await _nested(services, caller, items, _item_of)
    return _answer(outcomes, examples.BULK_PROCESSED)


async def _one(services: Services, caller: Caller, document: Json, rename: Rename) -> Outcome:
    try:
        [outcome] = await submit(services, caller, [document], brief=True)
    except Invalid as cause:
        raise _renamed(cause, rename) from None
    if outcome.status == "rejected":
        raise Invalid([FieldError(rename(e.field), e.message) for e in outcome.errors])
    return outcome


async def _nested(
    services: Services, caller: Caller, items: Sequence[object], where: Callable[[int], str]
) -> list[Outcome]:
    """All items, or none when one of them is invalid; several keys of an asset go together."""
    made = _folded(services, caller, items, where)
    folded, ordered = [document for document, _ in made], [numbers for _, numbers in made]
    outcomes = await submit(services, caller, folded, brief=True)
    refused = [
        error
        for group, outcome in zip(ordered, outcomes, strict=True)
        if outcome.status == "rejected"
        for index in group
        for error in _placed(where(index), outcome.errors)
    ]
    if refused:
        raise Invalid(refused)
    return outcomes


def _folded(
    services: Services, caller: Caller, items: Sequence[object], where: Callable[[int], str]
) -> list[tuple[Json, list[int]]]:
    """One document an asset, with the numbers of the items that it is made of."""
    now = services.core.clock.now()
    groups: dict[tuple[str, str], list[tuple[datetime, int, Json]]] = {}
    wrong: list[FieldError] = []
    for index, item in enumerate(items):
        try:
            key, at, document = _stated(item, caller.tenant, now)
            groups.setdefault(key, []).append((at, index, document))
        except Invalid as cause:
            wrong += _placed(where(index), cause.errors)
    if wrong:
        raise Invalid(wrong)
    ordered = [sorted(group, key=lambda each: each[:2]) for group in groups.values()]
    return [
        (dialects.fold([document for _, _, document in group]), [index for _, index, _ in group])
        for group in ordered
    ]


def _item_of(index: int) -> str:
    return f"metadata[{index}]"


def _stated(item: object, tenant: Tenant, now: datetime) -> tuple[tuple[str, str], datetime, Json]:
    document = dialects.from_nested(item, tenant)
    stated = statement(document, tenant, now)
    return (stated.seen.qualified_name, stated.source), stated.observed_at or now, document


def _placed(where: str, errors: Sequence[FieldError]) -> list[FieldError]:
    return [
        FieldError(f"{where}.{field}" if (field := dialects.nested_field(e.field)) else where,
                   e.message)
        for e in errors
    ]  # fmt: skip


def _renamed(cause: Invalid, rename: Rename) -> Invalid:
    return Invalid([FieldError(rename(e.field), e.message) for e in cause.errors])


def _answer(outcomes: Sequence[Outcome], done: dict[str, Any]) -> Response:
    """What the documents promise; 202 when it is safe in the log but not yet applied."""
    waiting = any(outcome.status == "accepted" for outcome in outcomes)
    return json(done, 202 if waiting else 200)
