"""An asset as the store keeps it, and as everybody sees it."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from lily.types import Lane

MORE_SOURCES, EDITS, ASSIGNMENTS, PROPAGATED = 1, 2, 4, 8
INCIDENTS, FAILING = 16, 32  # open ones, and grave ones; kept up by whoever writes incidents


class Asset(msgspec.Struct):
    """The columns of table asset, in their order."""

    tenant: int
    lane: Lane
    guid: UUID
    qualified_name: str
    caller_id: str | None
    asset_name: str
    asset_type: str
    asset_owner: str | None
    description: str | None
    parent: UUID | None
    data_source: str | None
    external_id: str | None
    tags: list[str]
    business_terms: list[str]
    metadata: dict[str, Any]
    details: dict[str, Any] | None
    version: int
    deleted_by: str | None
    deleted_at: datetime | None
    archived_at: datetime | None
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    observed_at: datetime
    applied_at: datetime
    feed_position: int
    cause: str
    source: str
    log_offset: int
    layers: int
    statement: dict[str, Any] | None
    edited: dict[str, Any] | None
    own_tags: list[str] | None = None  # null: the same as tags
    own_terms: list[str] | None = None  # null: the same as business_terms

    @property
    def own(self) -> list[str]:
        """The tags that spread from here: all that anybody assigned to this very asset."""
        return self.tags if self.own_tags is None else self.own_tags

    @property
    def asset_id(self) -> str:
        return self.caller_id or str(self.guid)


COLUMNS = Asset.__struct_fields__


class View(msgspec.Struct):
    """What a change can change: compared field by field to tell whether anything did."""

    caller_id: str | None
    asset_name: str
    asset_type: str
    asset_owner: str | None
    description: str | None
    parent: UUID | None
    data_source: str | None
    external_id: str | None
    tags: list[str]
    business_terms: list[str]
    metadata: dict[str, Any]
    details: dict[str, Any] | None
    created_at: datetime | None
    own_tags: list[str] | None = None
    own_terms: list[str] | None = None


class Propagated(msgspec.Struct, frozen=True):
    """What lineage brings to an asset: the columns of table propagated, in their order.

    `field` is tag, term, asset_owner, description or metadata.<key>. A derived field gives way to
    what the sources say unless its rule says always.
    """

    field: str
    name: str
    value: str
    root: UUID
    depth: int
    via: UUID | None
    rule: UUID | None = None
    always: bool = False


def public(asset: Asset, tenant_id: UUID) -> dict[str, Any]:
    """The canonical JSON of an asset."""
    shown: dict[str, Any] = {
        "asset_id": asset.asset_id,
        "guid": asset.guid,
        "qualified_name": asset.qualified_name,
        "asset_name": asset.asset_name,
        "asset_type": asset.asset_type,
        "asset_owner": asset.asset_owner,
        "description": asset.description,
        "parent_id": asset.parent,
        "data_source": asset.data_source,
        "external_id": asset.external_id,
        "tags": asset.tags,
        "business_terms": asset.business_terms,
        "metadata": asset.metadata,
        "version": asset.version,
        "is_deleted": asset.deleted_by is not None,
        "archived": asset.archived_at is not None,
        "created_at": asset.created_at,
        "updated_at": asset.updated_at,
        "observed_at": asset.observed_at,
        "applied_at": asset.applied_at,
        "lane": asset.lane,
        "tenant_id": tenant_id,
    }
    if asset.details:
        shown["details"] = asset.details
    return shown
