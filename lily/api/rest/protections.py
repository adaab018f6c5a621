"""Protections: what engines keep from whom, how far that is true, and the report of it."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from lily.api.deps import After, AssetKey, Limit, Segment, ServicesDep, requires, uuid_of
from lily.api.fields import Page
from lily.api.rest.pages import mark, unmark
from lily.store import connections, protections, views
from lily.store.protections import Protection
from lily.types import Caller

router = APIRouter(prefix="/api/v1/protections", tags=["access"])

Reader = Annotated[Caller, requires("policies:read")]

EXAMPLE: dict[str, Any] = {
    "connection": "b7c0a3f2-5d0a-4a52-a3d1-7a9e6f0e9f11",
    "guid": "5d0a4a52-a3d1-5a9e-8f0e-9f11b7c0a3f2",
    "object": "postgres://warehouse:5432/shop.public.people",
    "state": "verified",
    "reason": "",
    "columns": {"email": {"effect": "mask", "mask": "null", "tags": ["PII"]}},
    "exempt": {"email": ["rita"]},
    "findings": [{"state": "unenforceable", "reason": "postgres is a superuser"}],
    "plan": ['REVOKE SELECT ON "public"."people" FROM "analyst" CASCADE'],
    "attempts": 0,
    "asked_at": "2026-01-31T12:00:00Z",
    "applied_at": "2026-01-31T12:00:00.2Z",
    "verified_at": "2026-01-31T12:00:00.3Z",
    "next_at": "2026-01-31T12:00:30Z",
}


class ProtectionShown(BaseModel):
    """One table in one engine. `plan` is what was done last, or in mode observe would be done."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [EXAMPLE]})

    connection: UUID
    guid: UUID
    object: str
    state: str
    reason: str
    columns: dict[str, Any]
    exempt: dict[str, list[str]]
    findings: list[dict[str, Any]]
    plan: list[str]
    attempts: int
    asked_at: datetime
    applied_at: datetime | None
    verified_at: datetime | None
    next_at: datetime | None


class Line(BaseModel):
    """One protected column in one engine."""

    asset: str
    column: str
    tags: list[str]
    effect: str
    engine: str
    connection: str
    state: str
    reason: str
    exempt: list[str]
    unenforceable: list[str]
    verified_at: datetime | None


class Report(BaseModel):
    """Every protected asset, in every engine, with who is exempt and who cannot be kept out.

    `uncovered` are assets with a protected tag of which no engine was told.
    """

    items: list[Line]
    uncovered: list[str]
    next: str | None = None


@router.get("", summary="List what engines keep from whom")
def listed(
    caller: Reader,
    services: ServicesDep,
    connection: Annotated[UUID | None, Query(description="Of one engine.")] = None,
    state: Annotated[list[protections.State] | None, Query()] = None,
    limit: Limit = 100,
    after: After | None = None,
) -> Page[ProtectionShown]:
    key = unmark(after, tuple[UUID, UUID])
    with services.core.database.unit(caller.tenant) as unit:
        found = protections.page(unit, connection, state or [], key, limit + 1)
    more, found = len(found) > limit, found[:limit]
    following = mark(str(found[-1].connection), str(found[-1].guid)) if more else None
    return Page(items=[_shown(each) for each in found], next=following)


@router.get("/report", summary="Report every personal asset, engine and state")
def report(
    caller: Reader,
    services: ServicesDep,
    tag: Annotated[list[str], Query(description="Only these tags.")] = ["PII", "GDPR"],  # noqa: B006
    limit: Limit = 1000,
    after: After | None = None,
) -> Report:
    key = unmark(after, tuple[UUID, UUID])
    with services.core.database.unit(caller.tenant) as unit:
        found = protections.page(unit, None, [], key, limit + 1)
        names = {each.id: each for each in connections.page(unit, None, connections.MOST)}
        covered = {UUID(c["guid"]) for each in found for c in each.columns.values()}
        uncovered = protections.uncovered(unit, tag, covered) if key is None else []
    more, found = len(found) > limit, found[:limit]
    following = mark(str(found[-1].connection), str(found[-1].guid)) if more else None
    items = [
        Line(
            asset=each.object, column=column, tags=why["tags"], effect=why["effect"],
            engine=names[each.connection].plugin if each.connection in names else "",
            connection=names[each.connection].name if each.connection in names else "",
            state=each.state, reason=each.reason, exempt=each.exempt.get(column, []),
            unenforceable=[
                f["reason"] for f in each.findings
                if f["state"] == "unenforceable" and f.get("column", "") in ("", column)
            ],
            verified_at=each.verified_at,
        )
        for each in found
        for column, why in each.columns.items()
        if not tag or set(tag) & set(why["tags"])
    ]  # fmt: skip
    return Report(items=items, uncovered=uncovered, next=following)


@router.get("/assets/{id}", summary="Read what engines keep of one asset")
def of_asset(id: AssetKey, caller: Reader, services: ServicesDep) -> Page[ProtectionShown]:
    """Of a table, or of the table that a column belongs to."""
    with services.core.database.unit(caller.tenant) as unit:
        asset = views.find(unit, id)
        guid = asset.parent if asset.lane == "fields" and asset.parent else asset.guid
        found = protections.of(unit, guid)
    return Page(items=[_shown(each) for each in found])


@router.post("/{connection}/check", status_code=202, summary="Look at an engine again now")
def check(
    connection: Segment,
    caller: Annotated[Caller, requires("policies:manage")],
    services: ServicesDep,
) -> dict[str, int]:
    """Every protection of it becomes due; what somebody undid is done again within a second."""
    with services.core.database.unit(caller.tenant) as unit:
        found = connections.get(unit, uuid_of("connection", connection))
        return {"due": protections.ask_again(unit, found.id, services.core.clock.now())}


def _shown(kept: Protection) -> ProtectionShown:
    return ProtectionShown.model_validate(kept)
