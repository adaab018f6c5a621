"""From claims and edits to what everybody sees. Pure: no clock, no store."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from lily.assets.claims import Claim, fields
from lily.assets.model import View
from lily.clock import from_micros

FoldTags = Callable[[Sequence[Iterable[str]], Iterable[str]], list[str]]
Resolve = Callable[[str], UUID]


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
    person_tags: Iterable[str],
    fold_tags: FoldTags,
    resolve: Resolve,
    implied_parent: UUID | None,
) -> View:
    """One view of several claims, strongest first, under what persons edited."""
    said = [fields(claim) for claim in claims]
    merged = said[0] if len(said) == 1 else _merged(said)
    metadata = merged.get("metadata") or {}
    if edited:
        merged, metadata = _edited(merged, metadata, edited)
    parent = merged.get("parent_id")
    created = merged.get("created_at")
    return View(
        caller_id=merged.get("asset_id"),
        asset_name=merged.get("asset_name") or own_name(qualified_name),
        asset_type=merged.get("asset_type") or "entity",
        asset_owner=merged.get("asset_owner"),
        description=merged.get("description"),
        parent=resolve(parent) if parent else implied_parent,
        data_source=merged.get("data_source"),
        external_id=merged.get("external_id"),
        tags=fold_tags([s.get("tags") or () for s in said], person_tags),
        business_terms=sorted(set(merged.get("business_terms") or ())),
        metadata=metadata,
        details=merged.get("details"),
        created_at=from_micros(created) if created is not None else None,
    )


def _merged(said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for source in reversed(said):
        merged.update((k, v) for k, v in source.items() if v is not None and v != [])
        metadata.update(source.get("metadata") or {})
    merged["metadata"] = metadata
    return merged


def _edited(
    merged: Mapping[str, Any], metadata: Mapping[str, Any], edited: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    over, keys = dict(merged), dict(metadata)
    for name, edit in edited.items():
        value = edit["value"]
        target, key = (keys, name[9:]) if name.startswith("metadata.") else (over, name)
        if value is None and target is keys:
            target.pop(key, None)
        else:
            target[key] = value
    return over, keys


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
