"""One observation meets what is known of its asset; out come a new state and the facts of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from lily.assets import claims as registers
from lily.assets.claims import Claim, When
from lily.assets.model import (
    ASSIGNMENTS,
    EDITS,
    FAILING,
    INCIDENTS,
    MORE_SOURCES,
    PROPAGATED,
    Asset,
    Propagated,
    View,
)
from lily.assets.view import (
    BARE,
    Folding,
    FoldTags,
    Labels,
    OwnTags,
    Resolve,
    everything,
    expiry,
    fold,
    ranked,
)
from lily.events.facts import Fact, FactKind
from lily.events.lanes import lane_of, parent_of
from lily.events.observations import AssetSeen, Observation, Suggestion

HOLDER = "lineage"  # who speaks of assets that nobody has seen, because an edge names them

_SHOWN = View.__struct_fields__
_LABELS = ("tags", "own_tags", "own_terms")
_NAMED = {"caller_id": "asset_id", "parent": "parent_id"}
_FIELDS = tuple(name for name in _SHOWN if name not in _LABELS)


class Assignment(msgspec.Struct):
    """A tag or term by a person or a rule; or a steward's choice between tags in `settled`."""

    tag: str
    origin: str
    by: str
    state: str
    reason: str = ""
    kind: str = "tag"
    value: str = ""
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    settled: list[str] = []
    at: datetime | None = None


class Known(msgspec.Struct):
    """All that is stored of one asset, and what of it has to be written back."""

    tenant: int
    guid: UUID
    qualified_name: str
    asset: Asset | None = None
    claims: dict[str, Claim] = {}
    assignments: list[Assignment] = []
    buried: When | None = None
    touched: bool = False
    touched_sources: set[str] = set()
    suggested: list[Assignment] = []
    propagated: list[Propagated] = []

    @property
    def labels(self) -> Labels:
        """What counts beside the sources' statements."""
        if not self.assignments and not self.propagated:
            return BARE
        active = [a for a in self.assignments if a.state == "active"]
        said = [a for a in active if a.origin != "steward"]
        return Labels(
            [a.tag for a in said if a.kind == "tag"],
            [a.tag for a in said if a.kind == "term"],
            [(a.tag, a.settled) for a in active if a.origin == "steward"],
            self.propagated,
        )


class Context(msgspec.Struct, frozen=True):
    """What a decision needs beside the asset itself."""

    now: datetime
    fold_tags: FoldTags
    resolve: Resolve
    priority: Mapping[str, int] = {}
    groups: Any = None
    own_tags: OwnTags = everything

    @property
    def folding(self) -> Folding:
        return Folding(self.fold_tags, self.own_tags, self.groups)


class Message(msgspec.Struct, frozen=True):
    """An observation on its way in, with who claims it and where it stands in the log."""

    seen: Observation
    source: str
    by: str
    cause: str
    when: When
    traceparent: str = ""


def first_claim(asset: Asset) -> Claim:
    """The statement that lives in the asset's own row."""
    if asset.statement is not None:
        return registers.load(asset.statement)
    base: dict[str, Any] = {"asset_name": asset.asset_name, "asset_type": asset.asset_type}
    for name in ("asset_owner", "description", "data_source", "external_id", "details"):
        if (value := getattr(asset, name)) is not None:
            base[name] = value
    if asset.caller_id is not None:
        base["asset_id"] = asset.caller_id
    if asset.parent is not None:
        base["parent_id"] = str(asset.parent)
    if tags := asset.own:
        base["tags"] = tags
    if terms := (asset.business_terms if asset.own_terms is None else asset.own_terms):
        base["business_terms"] = terms
    if asset.metadata:
        base["metadata"] = asset.metadata
    at = registers.when(asset.observed_at, asset.log_offset)
    return Claim(asset.source, at, base)


def take(known: Known, message: Message, context: Context) -> list[Fact]:
    """Apply one observation. Nothing changed means no version and no fact."""
    if known.buried is not None and message.when <= known.buried:
        return []
    if known.asset is not None and not known.claims:
        known.claims[known.asset.source] = first_claim(known.asset)
    claim = known.claims.get(message.source) or Claim(message.source)
    if not registers.heed(claim, message.seen, message.when):
        return []
    known.claims[message.source] = claim
    known.touched_sources.add(message.source)
    seen = message.seen if isinstance(message.seen, AssetSeen) else None
    if seen is not None and known.asset is not None and known.asset.source == HOLDER:
        _fill(known, message.source)
    if known.asset is None and all(c.base is None and not c.over for c in known.claims.values()):
        return []  # gone before it was ever seen: remembered, but there is nothing to show
    facts = _reshow(known, message, context, seen)
    if seen is not None and seen.suggestions:
        facts.extend(_suggest(known, message, context, seen.suggestions))
    return facts


def _fill(known: Known, source: str) -> None:
    """A placeholder only held the place: as soon as a source sees the asset, it never was."""
    assert known.asset is not None
    if source != HOLDER:
        known.claims.pop(HOLDER, None)
        known.asset.source = source


def view_of(known: Known, context: Context) -> View:
    return fold(
        known.qualified_name,
        ranked(known.claims.values(), context.priority),
        known.asset.edited if known.asset else None,
        known.labels,
        context.folding,
        context.resolve,
        _implied_parent(known.qualified_name, context),
    )


def _reshow(known: Known, message: Message, context: Context, seen: AssetSeen | None) -> list[Fact]:
    before = known.asset
    view = view_of(known, context)
    spoke = max(claim.spoke for claim in known.claims.values())
    observed_at = registers.moment(spoke)
    gone = all(claim.is_gone for claim in known.claims.values())
    known.touched = True
    if before is None:
        asset = known.asset = _created(known, view, message, context, observed_at, gone)
        settle(known, context)
        return [fact("AssetCreated", asset, message, context.now, after=whole(asset))]
    after = _updated(before, view, context, observed_at)
    _mark_deleted(after, gone, seen is not None, context.now)
    facts = _facts(before, after, message, context)
    if facts:
        after.version += 1
        after.updated_at = context.now
        after.cause = message.cause
        for each in facts:
            each.version = after.version
    known.asset = after
    settle(known, context)
    return facts


def settle(known: Known, context: Context) -> None:
    """Put the first source's claim where the row keeps it: in the columns if they say it all."""
    asset = known.asset
    assert asset is not None
    own = known.claims.get(asset.source)
    if own is None:
        return
    asset.layers = (
        (MORE_SOURCES if len(known.claims) > 1 else 0)
        | (EDITS if asset.edited else 0)
        | (ASSIGNMENTS if known.assignments else 0)
        | (PROPAGATED if known.propagated else 0)
        | (asset.layers & (INCIDENTS | FAILING))
    )
    if len(known.claims) == 1 and not asset.edited and _unlabelled(known) and plain(asset, own):
        asset.statement = None
    else:
        asset.statement = registers.dump(own)
    asset.log_offset = own.at[1]


def _unlabelled(known: Known) -> bool:
    """Whether the own tags and terms are the source's, and lineage brings no other field."""
    return not any(a.state == "active" for a in known.assignments) and all(
        each.field in ("tag", "term") for each in known.propagated
    )


def plain(asset: Asset, claim: Claim) -> bool:
    """Whether the asset's own columns say exactly what the claim says."""
    base = claim.base
    return (
        base is not None
        and claim.is_plain
        and base.get("asset_name") == asset.asset_name
        and base.get("asset_type") == asset.asset_type
        and "created_at" not in base
        and set(base.get("tags", ())) == set(asset.own)
    )


def _created(
    known: Known, view: View, message: Message, context: Context, observed_at: datetime, gone: bool
) -> Asset:
    now = context.now
    return Asset(
        tenant=known.tenant, lane=lane_of(known.qualified_name), guid=known.guid,
        qualified_name=known.qualified_name, caller_id=view.caller_id, asset_name=view.asset_name,
        asset_type=view.asset_type, asset_owner=view.asset_owner, description=view.description,
        parent=view.parent, data_source=view.data_source, external_id=view.external_id,
        tags=view.tags, business_terms=view.business_terms, metadata=view.metadata,
        details=view.details, version=1, deleted_by="source" if gone else None,
        deleted_at=now if gone else None, archived_at=None,
        expires_at=expiry(view.details, observed_at), created_at=view.created_at or now,
        updated_at=now, observed_at=observed_at, applied_at=now, feed_position=0,
        cause=message.cause, source=message.source, log_offset=message.when[1], layers=0,
        statement=None, edited=None, own_tags=view.own_tags, own_terms=view.own_terms,
    )  # fmt: skip


def _updated(before: Asset, view: View, context: Context, observed_at: datetime) -> Asset:
    after = msgspec.structs.replace(before)
    for name in _SHOWN:
        setattr(after, name, getattr(view, name))
    after.created_at = view.created_at or before.created_at
    after.observed_at = observed_at
    after.applied_at = context.now
    after.expires_at = expiry(view.details, observed_at)
    if observed_at > before.observed_at:
        after.archived_at = None
    return after


def _mark_deleted(after: Asset, gone: bool, seen: bool, now: datetime) -> None:
    if gone and after.deleted_by is None:
        after.deleted_by, after.deleted_at = "source", now
    elif not gone and (after.deleted_by == "source" or (after.deleted_by == "retention" and seen)):
        after.deleted_by = after.deleted_at = None


def _facts(before: Asset, after: Asset, message: Message, context: Context) -> list[Fact]:
    return changes(before, after, message.by, message.cause, context.now, message.traceparent)


def changes(
    before: Asset, after: Asset, by: str, cause: str, now: datetime, traceparent: str = ""
) -> list[Fact]:
    """The facts that lead from one state of an asset to another; none if nothing shows."""
    found: list[tuple[FactKind, dict[str, Any], dict[str, Any]]] = []
    changed = [n for n in _FIELDS if getattr(before, n) != getattr(after, n)]
    if not changed and before.own_terms != after.own_terms:
        changed = ["own_terms"]  # nothing else to see, but it spreads from here now, or no longer
    if changed:
        found.append(
            ("AssetChanged", {_public(n): getattr(before, n) for n in changed},
             {_public(n): getattr(after, n) for n in changed})
        )  # fmt: skip
    if before.tags != after.tags or before.own != after.own:
        found.append(("TagsChanged", _told_tags(before), _told_tags(after)))
    if after.deleted_by and not before.deleted_by:
        found.append(
            ("AssetDeleted", {"is_deleted": False},
             {"is_deleted": True, "deleted_by": after.deleted_by})
        )  # fmt: skip
    if after.archived_at and not before.archived_at:
        found.append(("AssetArchived", {"archived": False}, {"archived": True}))
    elif (before.deleted_by and not after.deleted_by) or (
        before.archived_at and not after.archived_at
    ):
        found.append(
            ("AssetRestored",
             {"is_deleted": bool(before.deleted_by), "archived": bool(before.archived_at),
              "deleted_by": before.deleted_by},
             {"is_deleted": bool(after.deleted_by), "archived": False})
        )  # fmt: skip
    return [
        Fact(kind=kind, at=now, by=by, cause=cause, guid=after.guid, asset_id=after.asset_id,
             qualified_name=after.qualified_name, asset_type=after.asset_type, before=old,
             after=new, traceparent=traceparent)
        for kind, old, new in found
    ]  # fmt: skip


def fact(
    kind: FactKind, asset: Asset, message: Message, now: datetime, after: dict[str, Any]
) -> Fact:
    return Fact(
        kind=kind, at=now, by=message.by, cause=message.cause, guid=asset.guid,
        asset_id=asset.asset_id, qualified_name=asset.qualified_name, asset_type=asset.asset_type,
        version=asset.version, after=after, traceparent=message.traceparent,
    )  # fmt: skip


def _told_tags(asset: Asset) -> dict[str, Any]:
    """The effective tags, and the own ones where they are not the same."""
    own = {} if asset.own_tags is None else {"own": asset.own_tags}
    return {"tags": asset.tags, **own}


def _public(name: str) -> str:
    return _NAMED.get(name, name)


def whole(asset: Asset) -> dict[str, Any]:
    shown = {_public(n): v for n in _SHOWN if n != "created_at" and (v := getattr(asset, n))}
    if asset.deleted_by:
        shown["is_deleted"] = True
    return shown


def _suggest(
    known: Known, message: Message, context: Context, suggestions: list[Suggestion]
) -> list[Fact]:
    asset = known.asset
    assert asset is not None
    settled = {a.tag for a in known.assignments if a.kind == "tag"}.union(asset.tags, asset.own)
    fresh = [s for s in suggestions if s.tag not in settled]
    if not fresh:
        return []
    made = [Assignment(s.tag, "rule", s.by, "suggested", s.reason) for s in fresh]
    known.assignments.extend(made)
    known.suggested.extend(made)
    asset.layers |= ASSIGNMENTS
    tags = {s.tag: s.reason for s in fresh}
    return [fact("TagsSuggested", asset, message, context.now, after={"tags": tags})]


def _implied_parent(qualified_name: str, context: Context) -> UUID | None:
    parent = parent_of(qualified_name)
    return context.resolve(parent) if parent is not None else None
