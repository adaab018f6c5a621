"""Protections: what engines keep from whom, how far that is true, and the report of it."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict

from lily import plugins
from lily.access.compile import Nothing
from lily.api.deps import After, AssetKey, Limit, Segment, ServicesDep, requires, uuid_of
from lily.api.fields import Page
from lily.api.rest.pages import mark, unmark
from lily.assets.hooks import reason_of
from lily.errors import Conflict, LilyError
from lily.sdk.enforcers import Enforcer, Wanted
from lily.store import connections, enforcers, protections, views
from lily.store.connections import Connection
from lily.store.protections import Protection, StoredLedger, Table
from lily.types import Caller, Tenant
from lily.wiring import Core

router = APIRouter(prefix="/api/v1/protections", tags=["access"])

Reader = Annotated[Caller, requires("policies:read")]
MOST = 1_000  # tables of which a plan is shown at once

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


class Planned(BaseModel):
    """What would be done to one table, and what the engine says of it now."""

    object: str
    plan: list[str]
    drifted: bool = False
    findings: list[dict[str, Any]] = []
    problem: str = ""


class Checked(BaseModel):
    """How many tables are due, or with `dry_run` how many would be changed, and how."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"due": 12}]})

    due: int
    plans: list[Planned] | None = None


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


@router.post(
    "/{connection}/check",
    status_code=202,
    summary="Look at an engine again now, or show what would be done",
    response_model_exclude_none=True,
    responses={200: {"description": "Only shown: nothing was changed.", "model": Checked}},
)
def check(
    connection: Segment,
    caller: Annotated[Caller, requires("policies:manage")],
    services: ServicesDep,
    response: Response,
    dry_run: Annotated[bool, Query(description="Change nothing; show the plan.")] = False,
) -> Checked:
    """Every protection of it becomes due; what somebody undid is done again within a second."""
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        found = connections.get(unit, uuid_of("connection", connection))
        if "enforcer" not in found.uses:
            raise Conflict("The connection is not an enforcer.")
        if not dry_run:
            return Checked(due=protections.ask_again(unit, found.id, core.clock.now()))
    response.status_code = 200
    plans = planned(core, caller.tenant, found)
    return Checked(due=sum(bool(each.plan) for each in plans), plans=plans)


def planned(core: Core, tenant: Tenant, connection: Connection) -> list[Planned]:
    """Ask the engine, table by table, without touching it."""
    secrets = connections.opened(core.seal.open, tenant.number, connection)
    hidden = plugins.hidden(secrets)
    options = plugins.join(connection.options, secrets)
    try:
        engine = plugins.build("enforcer", connection.plugin, options)
        plugins.reach(engine, core.settings.egress_allow)
    except LilyError as cause:
        raise Conflict(f"The engine cannot be asked: {reason_of(cause, hidden)}") from cause
    with core.database.whole(tenant) as unit:
        tables = {each.guid: each for each in enforcers.concerned(unit, connection.id)}
    try:
        mine = [each for each in tables.values() if engine.owns(each.qualified_name)][:MOST]
        return [_planned(core, tenant, connection, engine, hidden, each) for each in mine]
    finally:
        if (closing := getattr(engine, "close", None)) is not None:
            closing()


def _planned(
    core: Core,
    tenant: Tenant,
    connection: Connection,
    engine: Enforcer,
    hidden: tuple[str, ...],
    table: Table,
) -> Planned:
    now = core.clock.now()

    def wanted() -> Wanted:
        with core.database.whole(tenant) as unit:
            found = protections.wanted(unit, table.guid, connection.plugin, now)
            state = Nothing() if found is None else found
            return enforcers.spelled(unit, connection, table, state)

    name = table.qualified_name
    ledger = StoredLedger(core.database, tenant, connection.id, name, now)
    with core.database.whole(tenant) as unit:
        ledger.load(unit.conn)
    try:
        report = engine.observe(name, wanted, ledger)
    except LilyError as cause:
        return Planned(object=name, plan=[], problem=reason_of(cause, hidden))
    findings = [msgspec.to_builtins(each) for each in report.findings]
    return Planned(
        object=name, plan=list(report.plan), drifted=report.drifted, findings=findings
    )  # fmt: skip


def _shown(kept: Protection) -> ProtectionShown:
    return ProtectionShown.model_validate(kept)
