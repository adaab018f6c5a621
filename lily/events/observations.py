"""What sources claim. Versioned by adding optional fields; unknown fields are refused upstream."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from lily.events.lineage import Edge, EdgeGone, EdgeSeen, LineageStated
from lily.events.signals import SignalSeen


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
    aliases: list[str] | None = None  # other names; given, the own name may be an alias as well


class AssetGone(
    msgspec.Struct, tag_field="type", tag="AssetGone", omit_defaults=True, kw_only=True
):
    """A source says that the asset is no longer there."""

    qualified_name: str
    asset_id: str | None = None


class RunDataset(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A dataset that a run reads or writes; of an output how its columns come about."""

    name: str
    facets: dict[str, Any] = {}
    edges: list[Edge] | None = None


class RunSeen(msgspec.Struct, tag_field="type", tag="RunSeen", omit_defaults=True, kw_only=True):
    """An event of a job's run; what it says of assets and lineage counts if the run completes."""

    run: UUID
    job_namespace: str
    job_name: str
    event: str
    producer: str = ""
    parent: dict[str, Any] | None = None
    facets: dict[str, Any] = {}
    error: str | None = None
    inputs: list[RunDataset] = []
    outputs: list[RunDataset] = []
    assets: list[AssetSeen | AssetGone] = []

    @property
    def qualified_name(self) -> str:
        """Under what it travels through the log: with the job."""
        return f"job:{self.job_namespace}/{self.job_name}".replace("#", "%23")

    @property
    def asset_id(self) -> None:
        return


class Nothing(msgspec.Struct, tag_field="type", tag="Nothing", kw_only=True):
    """Carries no claim; the pipeline sends it to itself to warm up before it says ready."""


Observation = AssetSeen | AssetGone
AnyObservation = (
    AssetSeen | AssetGone | Nothing | SignalSeen | EdgeSeen | EdgeGone | LineageStated | RunSeen
)
