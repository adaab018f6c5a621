"""How assets, versions and facts look in answers, with an example of each."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

GUID = "5f0c1a9e-6c0e-5f0a-9d8e-0b1c2d3e4f50"
NAME = "postgres://db.example.com:5432/shop.public.people"
AT = "2026-01-31T12:00:00Z"
ASSET: dict[str, Any] = {
    "asset_id": GUID,
    "guid": GUID,
    "qualified_name": NAME,
    "asset_name": "people",
    "asset_type": "table",
    "asset_owner": "ann",
    "description": "Everybody we sell to.",
    "parent_id": "b1f7f7a2-3a9a-5a39-8d36-0d4f0a2b6c11",
    "data_source": "postgres://db.example.com:5432",
    "external_id": None,
    "tags": ["PII"],
    "business_terms": ["customer"],
    "metadata": {"rows": 1200},
    "version": 3,
    "is_deleted": False,
    "archived": False,
    "created_at": AT,
    "updated_at": AT,
    "observed_at": AT,
    "applied_at": AT,
    "lane": "core",
    "tenant_id": "0e6b2c1c-1111-4222-8333-444455556666",
}
FACT: dict[str, Any] = {
    "position": 42,
    "kind": "AssetChanged",
    "at": AT,
    "by": "ann",
    "cause": "b7c0a3f2-5d0a-4a52-a3d1-7a9e6f0e9f11",
    "asset_id": GUID,
    "guid": GUID,
    "qualified_name": NAME,
    "asset_type": "table",
    "version": 3,
    "before": {"asset_owner": None},
    "after": {"asset_owner": "ann"},
}


def _like(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="allow", json_schema_extra={"examples": [example]})


class AssetShown(BaseModel):
    """The canonical JSON of an asset."""

    model_config = _like(ASSET)

    asset_id: str
    guid: UUID
    qualified_name: str
    asset_name: str
    asset_type: str
    asset_owner: str | None
    description: str | None
    parent_id: UUID | None
    data_source: str | None
    external_id: str | None
    tags: list[str]
    business_terms: list[str]
    metadata: dict[str, Any]
    version: int
    is_deleted: bool
    archived: bool
    created_at: datetime
    updated_at: datetime
    observed_at: datetime
    applied_at: datetime
    lane: str
    tenant_id: UUID


class AssetPage(BaseModel):
    """`next` goes into `after`; null at the end."""

    items: list[AssetShown]
    next: str | None = None


class ChangeShown(BaseModel):
    field: str
    before: Any = None
    after: Any = None


class VersionShown(BaseModel):
    """One stored change, as a difference to the version before it."""

    version: int
    at: datetime
    by: str
    cause: str
    kind: str
    changes: list[ChangeShown]


class VersionPage(BaseModel):
    items: list[VersionShown]
    next: str | None = None


class FactShown(BaseModel):
    """A fact with its place in the feed."""

    model_config = _like(FACT)

    position: int
    kind: str
    at: datetime
    by: str
    cause: str
    asset_id: str
    guid: UUID | None
    qualified_name: str
    asset_type: str
    version: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class FactPage(BaseModel):
    """`next` is the position to ask behind; a feed has no last page."""

    items: list[FactShown]
    next: str


class AuditShown(FactShown):
    """`hash` binds this fact to all before it; `erased` ones keep only their header."""

    hash: str
    erased: bool


class AuditPage(BaseModel):
    items: list[AuditShown]
    next: str | None = None


class Verdict(BaseModel):
    """Whether the hash chain of the feed holds, and the first place where it does not."""

    verified: bool
    position: int
    broken_at: int | None = None
    reason: str | None = None


class SourceShown(BaseModel):
    source: str
    observed_at: datetime | None
    gone: bool
    fields: dict[str, Any]


class EditShown(BaseModel):
    field: str
    value: Any = None
    by: str
    at: datetime


class SourcesShown(BaseModel):
    """Who says what; `shadowed` are the fields where a person's word hides the sources'."""

    items: list[SourceShown]
    edits: list[EditShown]
    shadowed: list[str]
