"""What sources claim. Versioned by adding optional fields; unknown fields are refused upstream."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class Suggestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tag that a hook proposes; a person accepts or rejects it."""

    tag: str
    by: str
    reason: str = ""


class AssetSeen(
    msgspec.Struct, tag_field="type", tag="AssetSeen", omit_defaults=True, kw_only=True
):
    """A source's statement of an asset: complete, or with `partial` only the given fields."""

    qualified_name: str
    asset_name: str | UnsetType | None = UNSET
    asset_type: str | UnsetType | None = UNSET
    asset_owner: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    parent_id: str | UnsetType | None = UNSET
    data_source: str | UnsetType | None = UNSET
    external_id: str | UnsetType | None = UNSET
    created_at: datetime | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    business_terms: list[str] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET
    asset_id: str | None = None
    partial: bool = False
    suggestions: list[Suggestion] = []


class AssetGone(
    msgspec.Struct, tag_field="type", tag="AssetGone", omit_defaults=True, kw_only=True
):
    """A source says that the asset is no longer there."""

    qualified_name: str
    asset_id: str | None = None


class Nothing(msgspec.Struct, tag_field="type", tag="Nothing", kw_only=True):
    """Carries no claim; the pipeline sends it to itself to warm up before it says ready."""


Observation = AssetSeen | AssetGone
AnyObservation = AssetSeen | AssetGone | Nothing
