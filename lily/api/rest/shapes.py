"""How assets, versions and facts look in answers, with an example of each."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from lily.api.examples import ASSET, FACT


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


class ChildrenPage(AssetPage):
    """`fields_waiting` are observations of its fields that are not applied yet."""

    fields_waiting: int


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
