"""What a fact stirs in the graph: which assets have to look upstream again, and for what. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

BY = "propagation"

# Nothing else changes what travels.
KINDS = (
    "TagsChanged", "AssetCreated", "FieldsCreated", "AssetChanged", "AssetDeleted", "AssetRestored",
    "AssetArchived", "AssetPurged", "EdgeCreated", "EdgeChanged", "EdgeDeleted", "EdgeRestored",
    "BlockCreated", "BlockDeleted", "PropagationRuleCreated", "PropagationRuleChanged",
    "PropagationRuleDeleted", "TagDefined", "TagDefinitionChanged", "TagDefinitionDeleted",
)  # fmt: skip
MANY_EDGES = "EdgesCreated"  # no fact of the feed: it stands for many that the reader has seen
# Of new fields their parent is told: edges may have outlived fields that were purged.
_LIFE = (
    "AssetCreated",
    "FieldsCreated",
    "AssetDeleted",
    "AssetRestored",
    "AssetArchived",
    "AssetPurged",
)
_PLACES = ("asset_type", "data_source", "qualified_name")  # what rules filter by
_TRAVEL = ("propagates", "edge_kinds", "max_depth")


class Told(msgspec.Struct, frozen=True):
    """A fact, as far as propagation needs it."""

    position: int
    kind: str
    guid: UUID | None
    cause: str
    by: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    traceparent: str = ""


class Stirred(msgspec.Struct):
    """Where to begin. `names` are the tags, terms and fields concerned; null is every one."""

    nodes: dict[UUID, Told] = {}  # what they have of their own has changed
    lives: dict[UUID, Told] = {}  # they came or went: their neighbours are concerned too
    edges: dict[UUID, Told] = {}
    ends: set[tuple[UUID, UUID]] = set()  # upstream and downstream of those edges
    names: set[str] | None = set()
    whole: Told | None = None  # everything of the tenant is concerned

    @property
    def is_calm(self) -> bool:
        return not (self.nodes or self.lives or self.edges or self.whole)


def stirred(facts: Sequence[Told], computed: Collection[str] = ()) -> Stirred:
    """All facts of a batch together: twice the same asset is one look.

    Of `computed` fields the value may depend on everything that is said of an asset.
    """
    found = Stirred()
    for fact in facts:
        if is_echo(fact):
            continue
        names = _take(found, fact, computed)
        if names is None or found.names is None:
            found.names = None
        else:
            found.names |= names
    return found


def is_echo(fact: Told) -> bool:
    """Propagation's own work comes by as facts too: with a key that no person can put there."""
    told = fact.after or fact.before or {}
    if fact.kind.startswith("Block"):
        return told.get("origin") == "rule" and fact.by == BY
    return "propagated" in told and fact.kind in ("TagsChanged", "AssetChanged")


def _take(found: Stirred, fact: Told, computed: Collection[str]) -> set[str] | None:
    before, after = fact.before or {}, fact.after or {}
    if fact.kind == "TagsChanged" and fact.guid:
        found.nodes[fact.guid] = fact
        names = _differ(_own(before), _own(after))
        return names.union(computed) if names else None
    if fact.kind == "AssetChanged" and fact.guid:
        fields = _fields(before, after)
        if fields is not None:
            fields |= set(computed)
        if fields is None or fields:
            found.nodes[fact.guid] = fact
        return fields
    if fact.kind in _LIFE and fact.guid:
        found.lives[fact.guid] = fact
        return None
    if fact.kind == MANY_EDGES:
        found.whole = fact
        return None
    if fact.kind.startswith("Edge") and (edge := _uuid(after, before, "edge_id")):
        found.edges[edge] = fact
        _ends(found, before, after)
        return None
    if fact.kind.startswith("Block") and (edge := _uuid(after, before, "edge_id")):
        found.edges[edge] = fact
        _ends(found, before, after)
        return {str(after.get("name") or before.get("name"))}
    if fact.kind.startswith("PropagationRule"):
        found.whole = fact
        return _of_rule(before, after)
    if _redefined(before, after):
        found.whole = fact
        return {str(after.get("name") or before.get("name"))}
    return set()


def _ends(found: Stirred, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    upstream, downstream = _uuid(after, before, "upstream"), _uuid(after, before, "downstream")
    if upstream is not None and downstream is not None:
        found.ends.add((upstream, downstream))


def _own(tags: Mapping[str, Any]) -> Iterable[str]:
    own: Iterable[str] = tags["own"] if tags.get("own") is not None else tags.get("tags") or ()
    return own


def _differ(old: Iterable[str], new: Iterable[str]) -> set[str]:
    return set(old) ^ set(new)


def _fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str] | None:
    """The names under which changed fields travel; null where a filter may see it otherwise."""
    names: set[str] = set()
    for field in {*before, *after}:
        old, new = before.get(field), after.get(field)
        if field in _PLACES:
            return None
        if field == "metadata":
            old, new = old or {}, new or {}
            keys = {key for key in {*old, *new} if old.get(key) != new.get(key)}
            names |= {f"metadata.{key}" for key in keys}
        elif field in ("business_terms", "own_terms"):
            names |= _differ(old or (), new or ())
        elif field in ("asset_owner", "description"):
            names.add(field)
    return names


def _of_rule(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str] | None:
    names: set[str] = set()
    for rule in (before, after):
        field = rule.get("field")
        if field in ("tag", "term"):
            if not rule.get("names"):
                return None
            names.update(rule["names"])
        elif field:
            names.add(field)
    return names


def _redefined(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a definition says something else of its travels than before."""
    return any((before.get(n) or None) != (after.get(n) or None) for n in _TRAVEL)


def _uuid(after: Mapping[str, Any], before: Mapping[str, Any], name: str) -> UUID | None:
    value = after.get(name) or before.get(name)
    return UUID(str(value)) if value else None
