"""From claims and edits to what everybody sees. Pure: no clock, no store."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import msgspec

from lily.assets.claims import Claim, fields
from lily.assets.model import Propagated, View
from lily.clock import from_micros
from lily.lineage.names import VAGUE

Resolve = Callable[[str], UUID]
Settled = tuple[str, Sequence[str]]


class FoldTags(Protocol):
    """Which tags are shown. `groups` are the tenant's own, as the room of tags knows them."""

    def __call__(
        self,
        groups: Any,
        by_source: Sequence[Iterable[str]],
        by_person: Iterable[str] = (),
        propagated: Iterable[str] = (),
        settled: Sequence[Settled] = (),
    ) -> list[str]: ...


class OwnTags(Protocol):
    """Which tags spread from an asset, and protect it."""

    def __call__(
        self,
        groups: Any,
        by_source: Sequence[Iterable[str]],
        by_person: Iterable[str] = (),
        settled: Sequence[Settled] = (),
    ) -> list[str]: ...


class Labels(msgspec.Struct, frozen=True):
    """What is assigned beside the sources' statements, and what lineage brings."""

    tags: Sequence[str] = ()
    terms: Sequence[str] = ()
    settled: Sequence[Settled] = ()
    propagated: Sequence[Propagated] = ()


class Folding(msgspec.Struct, frozen=True):
    """How labels fold, for one tenant."""

    tags: FoldTags
    own: OwnTags
    groups: Any = None


def everything(
    groups: Any,
    by_source: Sequence[Iterable[str]],
    by_person: Iterable[str] = (),
    settled: Sequence[Settled] = (),
) -> list[str]:
    """The own tags where nobody has chosen between any."""
    return sorted(set(by_person).union(*by_source))


BARE = Labels()


def ranked(claims: Iterable[Claim], priority: Mapping[str, int]) -> list[Claim]:
    """The sources that count, strongest first: by the tenant's priority, then the newest."""
    claims = list(claims)
    living = [claim for claim in claims if not claim.is_gone] or claims
    living.sort(key=lambda claim: claim.source)
    living.sort(key=lambda claim: claim.spoke, reverse=True)
    living.sort(key=lambda claim: priority.get(claim.source, len(priority)))
    return living


def fold(
    qualified_name: str,
    claims: Sequence[Claim],
    edited: Mapping[str, Any] | None,
    labels: Labels,
    folding: Folding,
    resolve: Resolve,
    implied_parent: UUID | None,
) -> View:
    """One view of several claims, strongest first, under what persons edited."""
    said = [fields(claim) for claim in claims]
    merged = said[0] if len(said) == 1 else _merged(said)
    metadata = merged.get("metadata") or {}
    if labels.propagated:
        merged, metadata = _derived(merged, metadata, labels.propagated)
    if edited:
        merged, metadata = _edited(merged, metadata, edited)
    parent = merged.get("parent_id")
    created = merged.get("created_at")
    tags, own_tags = _tags([s.get("tags") or () for s in said], labels, folding)
    terms, own_terms = _terms(merged.get("business_terms") or (), labels)
    return View(
        caller_id=merged.get("asset_id"),
        asset_name=merged.get("asset_name") or own_name(qualified_name),
        asset_type=merged.get("asset_type") or "entity",
        asset_owner=merged.get("asset_owner"),
        description=merged.get("description"),
        parent=resolve(parent) if parent else implied_parent,
        data_source=merged.get("data_source"),
        external_id=merged.get("external_id"),
        tags=tags,
        business_terms=terms,
        metadata=metadata,
        details=merged.get("details"),
        created_at=from_micros(created) if created is not None else None,
        own_tags=own_tags,
        own_terms=own_terms,
    )


def _tags(
    by_source: Sequence[Sequence[str]], labels: Labels, folding: Folding
) -> tuple[list[str], list[str] | None]:
    """What is shown, and what is the asset's own, if that is not the same."""
    if labels is BARE:
        said = set().union(*by_source)
        if not said:
            return [], None
        shown = folding.tags(folding.groups, by_source)
        return shown, None if len(shown) == len(said) else sorted(said)
    brought = [each.name for each in labels.propagated if each.field == "tag"]
    shown = folding.tags(folding.groups, by_source, labels.tags, brought, labels.settled)
    own = folding.own(folding.groups, by_source, labels.tags, labels.settled)
    return shown, None if own == shown else own


def _terms(said: Iterable[str], labels: Labels) -> tuple[list[str], list[str] | None]:
    if labels is BARE:
        return sorted(set(said)), None
    own = sorted({*said, *labels.terms})
    brought = {each.name for each in labels.propagated if each.field == "term"}
    return (own, None) if brought.issubset(own) else (sorted(brought.union(own)), own)


def _derived(
    merged: Mapping[str, Any], metadata: Mapping[str, Any], propagated: Sequence[Propagated]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What lineage gives to fields: the nearest root's value, where the sources say nothing."""
    over, keys = dict(merged), dict(metadata)
    given: dict[str, Propagated] = {}
    for each in sorted(propagated, key=_nearness):
        if each.field not in ("tag", "term"):
            given.setdefault(each.field, each)
    for field, each in given.items():
        target, key = (keys, field[9:]) if _is_key(field) else (over, field)
        if each.always or target.get(key) in (None, ""):
            target[key] = msgspec.json.decode(each.value) if target is keys else each.value
    return over, keys


def _merged(said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for source in reversed(said):
        merged.update((k, v) for k, v in source.items() if v is not None and v != [])
        metadata.update(source.get("metadata") or {})
    merged["metadata"] = metadata
    if merged.get("asset_type") == VAGUE:
        kinds = (source.get("asset_type") for source in said)
        merged["asset_type"] = next((kind for kind in kinds if kind and kind != VAGUE), VAGUE)
    return merged


def _edited(
    merged: Mapping[str, Any], metadata: Mapping[str, Any], edited: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    over, keys = dict(merged), dict(metadata)
    for name, edit in edited.items():
        value = edit["value"]
        target, key = (keys, name[9:]) if _is_key(name) else (over, name)
        if value is None and target is keys:
            target.pop(key, None)
        else:
            target[key] = value
    return over, keys


def _nearness(each: Propagated) -> tuple[int, str, str, str]:
    return each.depth, str(each.root), str(each.via), str(each.rule)


def _is_key(name: str) -> bool:
    return name.startswith("metadata.")


def own_name(qualified_name: str) -> str:
    """The last part of a qualified name, for assets that nobody named."""
    tail = qualified_name.rsplit("#", 1)[-1].rstrip("/").rsplit("/", 1)[-1]
    return tail.replace("%23", "#") or qualified_name


def expiry(details: Mapping[str, Any] | None, observed_at: datetime) -> datetime | None:
    """When the retention policy ends an asset that is not observed again."""
    policy = (details or {}).get("retention_policy")
    if not isinstance(policy, dict) or not policy.get("enabled"):
        return None
    days = policy.get("retention_period_days")
    return observed_at + timedelta(days=days) if isinstance(days, int) else None
