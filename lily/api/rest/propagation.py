"""What travels along lineage beside tags, and what does not pass an edge."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import msgspec
from fastapi import APIRouter, Header, Response
from pydantic import Field, StringConstraints

from lily import plugins, wiring
from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Line, Loose, Page, Request, Shown, example
from lily.api.rest.connections import revision_of
from lily.api.rest.pages import mark, unmark
from lily.errors import Invalid, PluginError
from lily.lineage.travel import SETS, Filter
from lily.store import propagation_blocks, propagation_preview, propagation_rules
from lily.store.propagation_rules import Rule
from lily.types import Caller

rules = APIRouter(prefix="/api/v1/propagation-rules", tags=["lineage"])
blocks = APIRouter(prefix="/api/v1/lineage", tags=["lineage"])

Reader = Annotated[Caller, requires("lineage:read")]
Manager = Annotated[Caller, requires("tags:manage")]
IfMatch = Annotated[str | None, Header(description='The ETag that was read, e.g. `"3"`.')]
Field_ = Annotated[
    str,
    StringConstraints(max_length=300, pattern=r"^(tag|term|asset_owner|description|metadata\..+)$"),
    Field(description="`tag`, `term`, `asset_owner`, `description` or `metadata.<key>`."),
]
Names = Annotated[
    list[Line],
    Field(max_length=100, description="Which tags or terms; none given: all of them."),
]
Kinds = Annotated[
    list[Line] | None,
    Field(max_length=100, description="Along edges of these types; null: as tags travel."),
]
Depth = Annotated[int | None, Field(ge=1, le=100, description="How many edges far at most.")]
Way = Literal["downstream", "upstream"]
Conflict = Annotated[
    Literal["when_empty", "always"],
    Field(
        description="`when_empty`: a source's own value stays. `always`: it is overruled; then"
        " `roots` says where values come from. What a person said always stays."
    ),
]
Plugin = Annotated[
    Loose,
    Field(description="An installed enrichment: it makes the value of each root. Without one the"
          " root's own value travels."),
]  # fmt: skip
Options = Annotated[dict[str, Any], Field(max_length=100, description="Of the plug-in.")]

EXAMPLE: dict[str, Any] = {
    "name": "owners follow lineage",
    "field": "asset_owner",
    "roots": {"asset_type": ["table"]},
    "max_depth": 3,
}


class Which(Request):
    """Assets of these kinds, of these sources, below this name."""

    asset_type: list[Line] = Field(default_factory=list, max_length=100)
    data_source: list[Line] = Field(default_factory=list, max_length=100)
    under: Loose = Field(default="", description="How their qualified names begin.")


def _everything() -> Which:
    return Which()


class NewRule(Request):
    model_config = example(EXAMPLE)

    name: Line
    field: Field_
    names: Names = Field(default_factory=list)
    edge_kinds: Kinds = None
    direction: Way = "downstream"
    max_depth: Depth = None
    roots: Which = Field(default_factory=_everything, description="Where it starts.")
    receivers: Which = Field(
        default_factory=_everything, description="Where it may arrive; others end the way."
    )
    on_conflict: Conflict = "when_empty"
    enabled: bool = True
    plugin: Plugin = ""
    options: Options = Field(default_factory=dict)


class RulePatch(Request):
    """Given fields replace."""

    model_config = example({"enabled": False})

    name: Line | None = None
    names: Names | None = None
    edge_kinds: Kinds = None
    direction: Way | None = None
    max_depth: Depth = None
    roots: Which | None = None
    receivers: Which | None = None
    on_conflict: Conflict | None = None
    enabled: bool | None = None
    options: Options | None = None


class ShownRule(Shown):
    id: UUID
    name: str
    field: str
    names: list[str]
    edge_kinds: list[str] | None
    direction: Way
    max_depth: int | None
    roots: dict[str, Any]
    receivers: dict[str, Any]
    on_conflict: str
    enabled: bool
    plugin: str
    options: dict[str, Any]
    version: int
    created_at: datetime
    created_by: str
    updated_at: datetime


class WouldChange(Shown):
    """One value that would arrive, leave, or come another way."""

    guid: UUID
    qualified_name: str
    field: str
    name: str
    value: str
    change: Literal["new", "moved", "gone"]
    root: UUID
    depth: int


class Preview(Shown):
    """What a rule would do, if it were stored like this; nothing is changed."""

    looked_at: int = Field(description="Assets in reach.")
    changes: int
    items: list[WouldChange] = Field(description="The first of them.")


@rules.post("", status_code=201, summary="Make a rule of what travels along lineage")
def create(body: NewRule, response: Response, caller: Manager, services: ServicesDep) -> ShownRule:
    """What it brings arrives within seconds; of a large estate in chunks."""
    made = _new(body, caller, services)
    with services.core.database.unit(caller.tenant) as unit:
        propagation_rules.create(unit, made, actor_of(caller))
    response.headers["Location"] = f"{rules.prefix}/{made.id}"
    return _shown(made, response)


@rules.get("", summary="List rules by name")
def listed(
    caller: Reader, services: ServicesDep, limit: Limit = 100, after: After | None = None
) -> Page[ShownRule]:
    key = unmark(after, tuple[str])
    start = key[0].replace("\0", "") if key else None
    with services.core.database.unit(caller.tenant) as unit:
        found = propagation_rules.page(unit, start, limit + 1)
    more, found = len(found) > limit, found[:limit]
    return Page(items=[_shown(r) for r in found], next=mark(found[-1].name) if more else None)


@rules.post("/dry-run", summary="What a rule would change, before it exists")
def dry_run(body: NewRule, caller: Manager, services: ServicesDep, limit: Limit = 100) -> Preview:
    return _preview(_new(body, caller, services), caller, services, limit)


@rules.get("/{id}", summary="Read a rule")
def read(id: Segment, response: Response, caller: Reader, services: ServicesDep) -> ShownRule:
    with services.core.database.unit(caller.tenant) as unit:
        found = propagation_rules.get(unit, uuid_of("propagation rule", id))
    return _shown(found, response)


@rules.patch("/{id}", summary="Change a rule, or switch it on or off")
def change(
    id: Segment, body: RulePatch, response: Response, caller: Manager, services: ServicesDep,
    if_match: IfMatch = None,
) -> ShownRule:  # fmt: skip
    with services.core.database.unit(caller.tenant) as unit:
        key = uuid_of("propagation rule", id)
        before = propagation_rules.locked(unit, key, revision_of(if_match))
        wanted = _patched(before, body, services.core.clock.now())
        after = propagation_rules.change(unit, before, wanted, actor_of(caller))
    return _shown(after, response)


@rules.post("/{id}/dry-run", summary="What a change of a rule would change")
def dry_run_of(
    id: Segment, body: RulePatch, caller: Manager, services: ServicesDep, limit: Limit = 100
) -> Preview:
    """With `{}`: what the rule would still change as it is, or would, if it were switched on."""
    with services.core.database.unit(caller.tenant) as unit:
        found = propagation_rules.get(unit, uuid_of("propagation rule", id))
    given = body.model_copy(update={"enabled": True}) if body.enabled is None else body
    return _preview(_patched(found, given, found.updated_at), caller, services, limit)


@rules.delete("/{id}", status_code=204, summary="Delete a rule; what it brought goes")
def delete(
    id: Segment, caller: Manager, services: ServicesDep, if_match: IfMatch = None
) -> Response:
    with services.core.database.unit(caller.tenant) as unit:
        key = uuid_of("propagation rule", id)
        gone = propagation_rules.locked(unit, key, revision_of(if_match))
        propagation_rules.delete(unit, gone, actor_of(caller), services.core.clock.now())
    return Response(status_code=204)


def _new(body: NewRule, caller: Caller, services: ServicesDep) -> Rule:
    now = services.core.clock.now()
    return _sensible(
        Rule(
            uuid4(), body.name, body.field, body.names, body.edge_kinds, body.direction,
            body.max_depth, _filter(body.roots), _filter(body.receivers), body.on_conflict,
            body.enabled, 1, now, caller.name, now, body.plugin, body.options,
        )
    )  # fmt: skip


def _patched(before: Rule, body: RulePatch, now: datetime) -> Rule:
    given = {
        name: value
        for name in body.model_fields_set
        if (value := getattr(body, name)) is not None or name in ("edge_kinds", "max_depth")
    }
    for name in ("roots", "receivers"):
        if name in given:
            given[name] = _filter(given[name])
    return _sensible(msgspec.structs.replace(before, updated_at=now, **given))


def _filter(which: Which) -> Filter:
    return Filter(which.asset_type, which.data_source, which.under)


def _sensible(rule: Rule) -> Rule:
    if rule.names and rule.field not in SETS:
        raise Invalid("are given for tags and terms only; leave them out", "names")
    if rule.on_conflict == "always" and rule.field in SETS:
        raise Invalid("is for fields with one value; tags and terms add up", "on_conflict")
    if rule.on_conflict == "always" and rule.roots.is_empty:
        raise Invalid("must say where values come from that overrule others", "roots")
    if rule.plugin and rule.field in SETS:
        raise Invalid("is for fields with one value, not for tags and terms", "plugin")
    if rule.options and not rule.plugin:
        raise Invalid("are those of a plug-in; name it", "options")
    return _enriched(rule) if rule.plugin else rule


def _enriched(rule: Rule) -> Rule:
    """With the options as its plug-in understands them; a rule is no place for secrets."""
    try:
        checked = plugins.check("enrichment", rule.plugin, rule.options)
    except PluginError as problem:
        raise Invalid(str(problem), "plugin") from problem
    options, secrets = plugins.split(checked)
    if secrets is not None:
        raise Invalid("of an enrichment cannot be secrets: everybody may read a rule", "options")
    return msgspec.structs.replace(rule, options=options)


def _shown(rule: Rule, response: Response | None = None) -> ShownRule:
    if response is not None:
        response.headers["ETag"] = f'"{rule.version}"'
    return ShownRule.model_validate(msgspec.to_builtins(rule))


def _preview(rule: Rule, caller: Caller, services: ServicesDep, limit: int) -> Preview:
    core = services.core
    found = propagation_preview.preview(
        core.database, core.clock, caller.tenant, rule, limit, wiring.enrichments()
    )
    items = [WouldChange.model_validate(each) for each in found.items]
    return Preview(looked_at=found.looked_at, changes=found.changes, items=items)


# Blocks -------------------------------------------------------------------------------------------


class NewBlock(Request):
    model_config = example({"name": "PII", "reason": "only totals pass here"})

    name: Line = Field(description="A tag or term; or the field that a rule carries.")
    reason: Loose = ""


class ShownBlock(Shown):
    """`lifted`: a transformation says so, and a person said otherwise."""

    name: str
    origin: Literal["person", "rule"]
    by: str
    reason: str
    at: datetime
    lifted: bool


class Blocks(Shown):
    items: list[ShownBlock]


@blocks.get("/{edge}/blocks", summary="What does not pass an edge")
def list_blocks(edge: Segment, caller: Reader, services: ServicesDep) -> Blocks:
    with services.core.database.unit(caller.tenant) as unit:
        found = propagation_blocks.listed(unit, uuid_of("edge", edge))
    return Blocks(items=[ShownBlock.model_validate(each) for each in found])


@blocks.post("/{edge}/blocks", status_code=201, summary="Stop a tag on an edge")
def block(
    edge: Segment, body: NewBlock, response: Response, caller: Manager, services: ServicesDep
) -> ShownBlock:
    """By name: it holds when the tag is set again, and when the edge comes back."""
    now = services.core.clock.now()
    with services.core.database.unit(caller.tenant) as unit:
        key = uuid_of("edge", edge)
        made, new = propagation_blocks.put(unit, key, body.name, body.reason, actor_of(caller), now)
    if not new:
        response.status_code = 200
    return ShownBlock.model_validate(made)


@blocks.delete("/{edge}/blocks/{name}", status_code=204, summary="Let a tag pass again")
def unblock(edge: Segment, name: Segment, caller: Manager, services: ServicesDep) -> Response:
    now = services.core.clock.now()
    with services.core.database.unit(caller.tenant) as unit:
        propagation_blocks.lift(unit, uuid_of("edge", edge), name, actor_of(caller), now)
    return Response(status_code=204)
