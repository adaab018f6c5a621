"""What persons say of an asset, over what its sources say. Pure: no clock, no store."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from lily.assets.change import Assignment, Context, Known, changes, settle, view_of
from lily.assets.claims import fields as said_by
from lily.assets.model import Asset, View
from lily.assets.view import expiry
from lily.events.facts import Fact

_SHOWN = View.__struct_fields__
PERSON = "person"
_ABSENT: Any = object()


class Who(msgspec.Struct, frozen=True):
    """Whose decision it is, and what it is a part of."""

    name: str
    cause: str
    traceparent: str = ""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wants of an asset.

    Merged, a null takes back what persons said, so that the source's value shows again.
    `whole` replaces: of what is not given the source's value shows, and what is given is kept
    only where it differs from what the sources say, so that reading, changing a line and putting
    it back does not freeze the other lines.
    """

    fields: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] | UnsetType | None = UNSET
    tags: Sequence[str] | UnsetType | None = UNSET
    whole: bool = False
    inherited: Collection[str] = ()  # tags of the containers: shown here, but nobody's own


class Outcome(msgspec.Struct):
    """What has to be written: nothing at all, the row, and tags that came and went."""

    facts: list[Fact] = []
    changed: bool = False
    assigned: list[Assignment] = []
    withdrawn: list[Assignment] = []


def edit(known: Known, wanted: Edit, who: Who, context: Context) -> Outcome:
    """Take a person's edit into the asset."""
    before = known.asset
    assert before is not None
    outcome = Outcome()
    after = known.asset = msgspec.structs.replace(before)
    sources = _sources_view(known, context)
    wanted = _without_brought(wanted, known, sources)
    after.edited = _layer(before.edited or {}, wanted, who, context.now, sources) or None
    owned = _own_tags(known, who)
    _assign(known, wanted, who, outcome)
    show(after, view_of(known, context))
    outcome.facts = changes(before, after, who.name, who.cause, context.now, who.traceparent)
    told = any(each.kind == "TagsChanged" for each in outcome.facts)
    if (outcome.assigned or outcome.withdrawn) and not told:
        outcome.facts.append(_hidden_tags(after, owned, _own_tags(known, who), who, context.now))
    outcome.changed = bool(outcome.facts) or after.edited != before.edited
    stamp(after, outcome.facts, who, context.now)
    settle(known, context)
    return outcome


def delete(known: Known, who: Who, now: datetime) -> Outcome:
    """A person's delete, which outlives that sources see the asset again."""
    return mark(known, PERSON, who, now)


def mark(known: Known, deleted_by: str, who: Who, now: datetime) -> Outcome:
    """Delete softly; a person's delete replaces any other, nothing else does."""
    before = known.asset
    assert before is not None
    if before.deleted_by == deleted_by or (before.deleted_by and deleted_by != PERSON):
        return Outcome()
    after = known.asset = msgspec.structs.replace(before, deleted_by=deleted_by, deleted_at=now)
    facts = changes(before, after, who.name, who.cause, now, who.traceparent)
    if before.deleted_by:
        facts = [_retold(after, before.deleted_by, who, now)]
    stamp(after, facts, who, now)
    return Outcome(facts, True)


def restore(known: Known, who: Who, now: datetime) -> Outcome:
    """Bring back what was deleted or archived; its retention period begins anew."""
    before = known.asset
    assert before is not None
    if before.deleted_by is None and before.archived_at is None:
        return Outcome()
    after = known.asset = msgspec.structs.replace(
        before, deleted_by=None, deleted_at=None, archived_at=None,
        expires_at=expiry(before.details, now),
    )  # fmt: skip
    facts = changes(before, after, who.name, who.cause, now, who.traceparent)
    stamp(after, facts, who, now)
    return Outcome(facts, True)


def unmark(known: Known, who: Who, now: datetime) -> Outcome:
    """Bring back what was deleted with its container, unless its own sources say gone too."""
    before = known.asset
    assert before is not None
    if known.claims and all(claim.is_gone for claim in known.claims.values()):
        known.asset = msgspec.structs.replace(before, deleted_by="source")
        return Outcome([], True)
    after = known.asset = msgspec.structs.replace(
        before, deleted_by=None, deleted_at=None,
        expires_at=None if before.archived_at else expiry(before.details, before.observed_at),
    )  # fmt: skip
    facts = changes(before, after, who.name, who.cause, now, who.traceparent)
    stamp(after, facts, who, now)
    return Outcome(facts, True)


def expire(known: Known, who: Who, now: datetime) -> Outcome:
    """Do what the retention policy says; nothing twice, so the date goes."""
    before = known.asset
    assert before is not None
    after = known.asset = msgspec.structs.replace(before, expires_at=None)
    if before.deleted_by is None and before.archived_at is None:
        policy = (before.details or {}).get("retention_policy") or {}
        if policy.get("action_after_expiry") == "delete":
            after.deleted_by, after.deleted_at = "retention", now
        else:
            after.archived_at = now
    facts = changes(before, after, who.name, who.cause, now)
    stamp(after, facts, who, now)
    return Outcome(facts, True)


def purged(asset: Asset, who: Who, now: datetime) -> Fact:
    """The last fact of an asset; it tells no content."""
    return _fact(asset, "AssetPurged", who, now, version=asset.version + 1)


def shadowed(known: Known, context: Context) -> list[str]:
    """The fields where a person's word hides what the sources say."""
    edited = known.asset.edited if known.asset else None
    if not edited:
        return []
    sources = _sources_view(known, context)
    return sorted(name for name, each in edited.items() if _differs(name, each["value"], sources))


def _sources_view(known: Known, context: Context) -> View:
    """What would show if nobody had edited; of terms, what the sources say."""
    assert known.asset is not None
    bare = msgspec.structs.replace(known.asset, edited=None)
    fields = [each for each in known.propagated if each.field != "term"]
    return view_of(
        msgspec.structs.replace(known, asset=bare, assignments=[], propagated=fields), context
    )


def _without_brought(wanted: Edit, known: Known, sources: View) -> Edit:
    """A whole edit repeats the terms that it read; those that others assigned stay theirs."""
    terms = wanted.fields.get("business_terms")
    if not wanted.whole or not terms or not (known.assignments or known.propagated):
        return wanted
    brought = {each.name for each in known.propagated if each.field == "term"}
    brought = brought.union(known.labels.terms).difference(sources.business_terms)
    own = [term for term in terms if term not in brought]
    return msgspec.structs.replace(wanted, fields={**wanted.fields, "business_terms": own})


def _layer(
    old: Mapping[str, Any], wanted: Edit, who: Who, now: datetime, sources: View
) -> dict[str, Any]:
    given = _given(wanted, sources)
    layer = {} if wanted.whole else dict(old)
    if not wanted.whole and wanted.metadata is None:
        layer = {name: each for name, each in layer.items() if not _is_key(name)}
    for name, value in given.items():
        if value is None and not wanted.whole:
            layer.pop(name, None)
        elif not wanted.whole or _differs(name, value, sources):
            same = name in old and old[name]["value"] == value
            layer[name] = old[name] if same else _signed(value, who, now)
    return layer


def _given(wanted: Edit, sources: View) -> dict[str, Any]:
    """Names as the layer keeps them: each metadata key stands alone."""
    given = dict(wanted.fields)
    if isinstance(wanted.metadata, Mapping):
        if wanted.whole:
            given.update((f"metadata.{key}", None) for key in sources.metadata)
        given.update((f"metadata.{key}", value) for key, value in wanted.metadata.items())
    return given


def _signed(value: Any, who: Who, now: datetime) -> dict[str, Any]:
    return {"value": value, "by": who.name, "at": now.isoformat()}


def _differs(name: str, value: Any, sources: View) -> bool:
    if _is_key(name):
        shown = sources.metadata.get(name[9:], _ABSENT)
        return bool(shown is not _ABSENT if value is None else shown != value)
    if name == "parent_id":
        return bool(value != (str(sources.parent) if sources.parent else None))
    if name == "business_terms":
        return bool(sorted(set(value or ())) != sources.business_terms)
    return bool(value != getattr(sources, name))


def _is_key(name: str) -> bool:
    return name.startswith("metadata.")


def _own_tags(known: Known, who: Who) -> list[str]:
    return sorted(
        a.tag for a in known.assignments if (a.origin, a.by) == (PERSON, who.name)
        and a.state == "active" and a.kind == "tag"
    )  # fmt: skip


def _assign(known: Known, wanted: Edit, who: Who, outcome: Outcome) -> None:
    """Make the person's own tags what they should be; those of others stay."""
    if wanted.tags is UNSET and not wanted.whole:
        return
    own = set(_own_tags(known, who))
    tags = set(wanted.tags) if isinstance(wanted.tags, Iterable) else set()
    if wanted.whole:
        others = _by_others(known, who).union(wanted.inherited)
        tags = {tag for tag in tags if tag in own or tag not in others}
    outcome.withdrawn = [
        a for a in known.assignments
        if (a.origin, a.by, a.kind) == (PERSON, who.name, "tag") and a.tag in own - tags
    ]  # fmt: skip
    outcome.assigned = [Assignment(tag, PERSON, who.name, "active") for tag in sorted(tags - own)]
    again = tags - own  # what was to begin later, or has ended, is said anew
    known.assignments = [
        a for a in known.assignments
        if a not in outcome.withdrawn
        and not (a.tag in again and (a.origin, a.by, a.kind) == (PERSON, who.name, "tag"))
    ]  # fmt: skip
    known.assignments += outcome.assigned


def _by_others(known: Known, who: Who) -> set[str]:
    tags = {
        a.tag for a in known.assignments
        if a.state == "active" and a.kind == "tag" and (a.origin, a.by) != (PERSON, who.name)
    }  # fmt: skip
    tags.update(each.name for each in known.propagated if each.field == "tag")
    for claim in known.claims.values():
        tags.update(said_by(claim).get("tags") or ())
    return tags


def show(after: Asset, view: View) -> None:
    """Take a view into the row."""
    created = after.created_at
    for name in _SHOWN:
        setattr(after, name, getattr(view, name))
    after.created_at = view.created_at or created


def stamp(after: Asset, facts: Sequence[Fact], who: Who, now: datetime) -> None:
    """A change that is told makes a version."""
    if not facts:
        return
    after.version += 1
    after.updated_at = now
    after.cause = who.cause
    for each in facts:
        each.version = after.version


def _hidden_tags(
    asset: Asset, old: Sequence[str], new: Sequence[str], who: Who, now: datetime
) -> Fact:
    """A tag that a source's tag hides still counts for protection, so it is told."""
    told = _fact(asset, "TagsChanged", who, now)
    told.before = {"tags": asset.tags, "assigned": list(old)}
    told.after = {"tags": asset.tags, "assigned": list(new)}
    return told


def _retold(asset: Asset, previously: str, who: Who, now: datetime) -> Fact:
    told = _fact(asset, "AssetDeleted", who, now)
    told.before = {"is_deleted": True, "deleted_by": previously}
    told.after = {"is_deleted": True, "deleted_by": asset.deleted_by}
    return told


def _fact(asset: Asset, kind: Any, who: Who, now: datetime, version: int = 0) -> Fact:
    return Fact(
        kind=kind, at=now, by=who.name, cause=who.cause, guid=asset.guid, asset_id=asset.asset_id,
        qualified_name=asset.qualified_name, asset_type=asset.asset_type, version=version,
        traceparent=who.traceparent,
    )  # fmt: skip
