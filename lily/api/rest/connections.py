"""Connections: a tenant's configured uses of plug-ins."""

import re
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import msgspec
from fastapi import APIRouter, Body, Header, Response
from pydantic import BaseModel, ConfigDict, Field

from lily import plugins, schedule
from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.egress import reachable
from lily.api.fields import Line, Page, Request, Shown
from lily.api.rest import endpoints
from lily.api.rest.pages import mark, unmark
from lily.assets import stated
from lily.assets.hooks import HookFailure, NamedHook, reason_of, run_hooks
from lily.errors import Invalid, PluginError
from lily.events.observations import AssetGone, AssetSeen
from lily.sdk import Cursor
from lily.store import connections
from lily.store.connections import Connection
from lily.types import Caller, Tenant
from lily.wiring import Core, source_folders

router = APIRouter(prefix="/api/v1/connections", tags=["connections"])

Reader = Annotated[Caller, requires("connections:read")]
Manager = Annotated[Caller, requires("connections:manage")]
IfMatch = Annotated[str | None, Header(description='The ETag that was read, e.g. `"3"`.')]

Ordinal = Annotated[int, Field(ge=-1_000_000, le=1_000_000, description="Hooks run in this order.")]
Options = Annotated[
    dict[str, Any],
    Field(description="As the plug-in's schema says, see `/api/v1/plugins`."),
]

When = Annotated[
    str,
    Field(
        max_length=100,
        description="How often a source is crawled: `24h`, `15m`, `@daily`, five cron fields (UTC),"
        " or `manual`. Without it every 24 hours.",
    ),
]

Place = tuple[
    Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)],
    Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")],
]

GLANCE = 10

EXAMPLE: dict[str, Any] = {
    "name": "find personal data",
    "plugin": "classify",
    "uses": ["hook"],
    "options": {"mode": "suggest"},
    "ordinal": 10,
}


class NewConnection(Request):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: Line
    plugin: Line
    uses: Annotated[
        list[plugins.Kind],
        Field(
            min_length=1,
            max_length=len(plugins.KINDS),
            description="More than one where the plug-in is of all these kinds.",
        ),
    ]
    options: Options = Field(default_factory=dict)
    schedule: When | None = None
    ordinal: Ordinal = 0
    enabled: bool = True


class ConnectionPatch(Request):
    """Given fields replace; so does each given option. An option that is null is taken back."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"options": {"mode": "apply"}}]})

    name: Line | None = None
    options: Options | None = None
    schedule: When | None = None
    ordinal: Ordinal | None = None
    enabled: bool | None = None
    overlap: int | None = Field(
        None,
        ge=0,
        le=endpoints.LONGEST_OVERLAP,
        description="Of a webhook: seconds for which the old secret stays good; a day if absent.",
    )


class ShownConnection(Shown):
    """Secrets are shown as `********`; sending that back keeps them."""

    id: UUID
    name: str
    plugin: str
    uses: list[str]
    options: dict[str, Any]
    schedule: str | None
    ordinal: int
    enabled: bool
    revision: int
    created_at: datetime
    updated_at: datetime
    webhook_url: str | None = None


class Trial(Request):
    """A hook is tried on an observation; a source needs none."""

    observation: dict[str, Any] | None = Field(
        None, examples=[{"qualified_name": "shop.people#email", "asset_name": "email"}]
    )


class TrialOutcome(BaseModel):
    """What the hook would do, or the first that the source finds; nothing is stored."""

    outcome: Literal["returned", "dropped", "refused", "read"]
    found: list[str] = []
    observation: dict[str, Any] | None = None
    changed: bool = False
    reason: str = ""


@router.post("", status_code=201, summary="Enable a plug-in")
def create(
    body: NewConnection, response: Response, caller: Manager, services: ServicesDep
) -> ShownConnection:
    """A hook sees the next observation that is sent; a source is read when it is due, or asked."""
    _storable(body.options)
    core, id = services.core, uuid4()
    kind = "source" if "source" in body.uses else body.uses[0]
    if len(set(body.uses)) != len(body.uses):
        raise Invalid("names a use twice; name each once", "uses")
    if "enrichment" in body.uses:
        raise Invalid("of an enrichment is a rule: POST /api/v1/propagation-rules", "uses")
    for each in sorted(body.uses, key=lambda use: use == kind):  # that one's options are kept
        checked = _checked(core, caller.tenant, each, body.plugin, body.options)
    options, secrets = _sealed(core, caller.tenant, id, checked)
    now, when = core.clock.now(), _schedule(kind, body.schedule)
    made = Connection(
        id, body.name, body.plugin, list(body.uses), options, secrets, when, body.ordinal,
        body.enabled, 1, now, now,
    )  # fmt: skip
    if kind == "webhook":
        endpoints.claimed(core, caller.tenant, id, body.plugin, checked)
    with core.database.unit(caller.tenant) as unit:
        connections.create(unit, made, actor_of(caller))
        endpoints.made(unit, made)
        urls = endpoints.addresses(core, unit, [made])
    response.headers["Location"] = f"{router.prefix}/{id}"
    return _shown(made, response, urls)


@router.get("", summary="List connections in the order in which hooks run")
def listed(
    caller: Reader, services: ServicesDep, limit: Limit = 100, after: After | None = None
) -> Page[ShownConnection]:
    key = unmark(after, Place)
    with services.core.database.unit(caller.tenant) as unit:
        found = connections.page(unit, key, limit + 1)
        urls = endpoints.addresses(services.core, unit, found)
    more, found = len(found) > limit, found[:limit]
    following = mark(found[-1].ordinal, found[-1].name) if more else None
    return Page(items=[_shown(each, urls=urls) for each in found], next=following)


@router.get("/{id}", summary="Read a connection")
def read(id: Segment, response: Response, caller: Reader, services: ServicesDep) -> ShownConnection:
    with services.core.database.unit(caller.tenant) as unit:
        found = connections.get(unit, uuid_of("connection", id))
        urls = endpoints.addresses(services.core, unit, [found])
    return _shown(found, response, urls)


@router.patch("/{id}", summary="Change a connection")
def change(
    id: Segment,
    body: ConnectionPatch,
    response: Response,
    caller: Manager,
    services: ServicesDep,
    if_match: IfMatch = None,
) -> ShownConnection:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        before = connections.locked(unit, uuid_of("connection", id), revision_of(if_match))
        told = body.model_dump(exclude={"options", "overlap"})
        given = {k: v for k, v in told.items() if v is not None}
        if body.schedule is not None:
            given["schedule"] = _schedule(_kind(before), body.schedule)
        if body.options is not None:
            _storable(body.options)
            given |= _options(core, caller.tenant, before, body.options)
        wanted = msgspec.structs.replace(before, updated_at=core.clock.now(), **given)
        after = connections.change(unit, before, wanted, actor_of(caller))
        endpoints.changed(unit, core, before, after, body.overlap)
        urls = endpoints.addresses(core, unit, [after])
    return _shown(after, response, urls)


@router.delete("/{id}", status_code=204, summary="Delete a connection and its secrets")
def delete(
    id: Segment, caller: Manager, services: ServicesDep, if_match: IfMatch = None
) -> Response:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        gone = connections.locked(unit, uuid_of("connection", id), revision_of(if_match))
        connections.delete(unit, gone, actor_of(caller), core.clock.now())
    endpoints.unclaimed(core, caller.tenant, gone)
    return Response(status_code=204)


@router.post("/{id}/test", summary="Try a hook on an observation, or read from a source")
def test(
    id: Segment,
    body: Annotated[Trial, Body()],
    caller: Manager,
    services: ServicesDep,
) -> TrialOutcome:
    with services.core.database.unit(caller.tenant) as unit:
        found = connections.get(unit, uuid_of("connection", id))
    if _kind(found) == "source":
        return _glance(services.core, caller.tenant, found)
    if _kind(found) in ("target", "filter"):
        raise Invalid("is tried by the test of a subscription that uses it", "connection")
    if endpoints.is_webhook(found):
        raise Invalid("is tried by calling its webhook_url, signed", "connection")
    if body.observation is None:
        raise Invalid("is missing; a hook is tried on an observation", "observation")
    seen = stated.read(body.observation)
    if not isinstance(seen, AssetSeen | AssetGone):
        raise Invalid("must be AssetSeen or AssetGone; hooks see assets only", "observation.type")
    try:
        hook = _hook(services.core, caller.tenant, found)
    except PluginError as problem:
        return TrialOutcome(outcome="refused", reason=reason_of(problem))
    before = msgspec.to_builtins(seen)
    answer = run_hooks([hook], seen)
    if isinstance(answer, HookFailure):
        return TrialOutcome(outcome="refused", reason=answer.reason)
    if answer is None:
        return TrialOutcome(outcome="dropped", changed=True)
    after = msgspec.to_builtins(answer)
    return TrialOutcome(outcome="returned", observation=after, changed=after != before)


def revision_of(if_match: str | None) -> int | None:
    """The revision that a caller has read; none asked for means whichever is there."""
    if if_match is None or if_match.strip() == "*":
        return None
    match = re.fullmatch(r'\s*"(\d{1,18})"\s*', if_match)
    # What cannot be an ETag of ours names another version: no revision is -1.
    return int(match[1]) if match else -1


def _glance(core: Core, tenant: Tenant, found: Connection) -> TrialOutcome:
    """The first few names that the source yields, or why it does not."""
    secrets = connections.opened(core.seal.open, tenant.number, found)
    try:
        source = plugins.build("source", found.plugin, plugins.join(found.options, secrets))
        plugins.reach(source, core.settings.egress_allow)
        read = (each for each in source.read(None) if not isinstance(each, Cursor))
        names = [each.qualified_name for each in islice(read, GLANCE)]
    except Exception as cause:  # noqa: BLE001  whatever a source does, the caller is told
        return TrialOutcome(outcome="refused", reason=reason_of(cause, plugins.hidden(secrets)))
    return TrialOutcome(outcome="read", found=names)


def _hook(core: Core, tenant: Tenant, found: Connection) -> NamedHook:
    secrets = connections.opened(core.seal.open, tenant.number, found)
    call = plugins.build("hook", found.plugin, plugins.join(found.options, secrets))
    return NamedHook(found.name, found.plugin, call, plugins.hidden(secrets))


def _options(
    core: Core, tenant: Tenant, before: Connection, given: dict[str, Any]
) -> dict[str, Any]:
    """The stored options with the given ones in their place; secrets that are not given stay."""
    kept = connections.opened(core.seal.open, tenant.number, before)
    merged = plugins.join({**before.options, **given}, kept)
    whole = {name: value for name, value in merged.items() if value is not None}
    if whole == plugins.join(before.options, kept):
        return {}  # sealed anew it would look changed
    for kind in _kinds(before):
        checked = _checked(core, tenant, kind, before.plugin, whole)
    if endpoints.is_webhook(before):
        endpoints.claimed(core, tenant, before.id, before.plugin, checked)
    options, secrets = _sealed(core, tenant, before.id, checked)
    return {"options": options, "secrets": secrets}


def _checked(
    core: Core, tenant: Tenant, kind: plugins.Kind, plugin: str, options: dict[str, Any]
) -> BaseModel:
    try:
        checked = plugins.check(kind, plugin, options)
    except PluginError as problem:
        raise Invalid(str(problem), "plugin") from problem
    plugins.confine(checked, source_folders(core.settings, tenant))
    if kind == "target":
        reachable(core.settings.egress_allow, plugins.build(kind, plugin, options))
    return checked


def _kind(connection: Connection) -> plugins.Kind:
    kinds: tuple[plugins.Kind, ...] = ("source", "webhook", "target", "filter", "enforcer")
    return next((kind for kind in kinds if kind in connection.uses), "hook")


def _kinds(connection: Connection) -> list[plugins.Kind]:
    return [kind for kind in plugins.KINDS if kind in connection.uses]


def _schedule(kind: plugins.Kind, given: str | None) -> str | None:
    """Of a source; a hook has none."""
    if kind != "source":
        if given is not None:
            raise Invalid(f"is for sources; a {kind} sees everything as it comes", "schedule")
        return None
    chosen = (given or schedule.DEFAULT).strip()
    schedule.parse(chosen)
    return chosen


def _sealed(
    core: Core, tenant: Tenant, id: UUID, options: BaseModel
) -> tuple[dict[str, Any], bytes | None]:
    try:
        public, secrets = plugins.split(options)
    except (ValueError, TypeError) as cause:
        raise Invalid("has a value that cannot be stored", "options") from cause
    about = connections.about(tenant.number, id)
    return public, core.seal.seal(secrets, about) if secrets else None


def _storable(options: dict[str, Any]) -> None:
    try:
        text = msgspec.json.encode(options)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Invalid("has text or a number that cannot be stored", "options") from None
    if b"\\u0000" in text.replace(b"\\\\", b""):
        raise Invalid("contains a NUL character; remove it", "options")


def _shown(
    connection: Connection,
    response: Response | None = None,
    urls: Mapping[UUID, str] | None = None,
) -> ShownConnection:
    if response is not None:
        response.headers["ETag"] = f'"{connection.revision}"'
    shown = ShownConnection.model_validate(connection)
    shown.webhook_url = (urls or {}).get(connection.id)
    return shown
