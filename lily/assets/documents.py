"""From a canonical JSON document to an observation. Unknown fields go into metadata."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import msgspec

from lily.assets.names import canonical, invented
from lily.assets.rules import problems
from lily.errors import FieldError, Forbidden, Invalid
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.types import Tenant

FUTURE = timedelta(minutes=5)

TEXTS = (
    "asset_name", "asset_type", "asset_owner", "description", "parent_id", "data_source",
    "external_id",
)  # fmt: skip
LABELS = ("tags", "business_terms")
DETAILS = ("retention_policy", "downstream_notifications", "downstream_status")
# Stated by Lily, not by a source: accepted because people post back what they were given.
OURS = (
    "guid", "version", "applied_at", "lane", "archived", "shadowed", "incidents", "health",
)  # fmt: skip
_KNOWN = frozenset(
    (*TEXTS, *LABELS, *DETAILS, *OURS, "asset_id", "qualified_name", "metadata", "details",
     "partial", "source", "observed_at", "updated_at", "created_at", "is_deleted", "tenant_id")
)  # fmt: skip


class Statement(msgspec.Struct, frozen=True):
    """An observation, who claims it, and when it was true."""

    seen: Observation
    source: str
    observed_at: datetime | None


def statement(document: object, tenant: Tenant, now: datetime) -> Statement:
    """Raises Invalid with every field that is wrong, or Forbidden for another tenant's id."""
    if not isinstance(document, dict):
        raise Invalid("must be a JSON object that describes one asset")
    own_tenant(document.get("tenant_id"), tenant)
    found: list[FieldError] = []
    fields = _fields(document, found)
    observed_at = _observed(document, now, found)
    source = _text(document, "source", found) or fields.get("data_source") or "default"
    if found:
        raise Invalid(found)
    seen = _observation(document, fields)
    if wrong := problems(seen):
        raise Invalid(wrong)
    if len(source) > 1_000 or "\0" in source:
        raise Invalid("is longer than 1000 characters or contains NUL; shorten it", "source")
    return Statement(seen, source, observed_at)


def own_tenant(stated: object, tenant: Tenant) -> None:
    """A tenant in a body may only be the caller's own: by UUID, name or number."""
    if stated is None:
        return
    if str(stated).lower() not in (str(tenant.id), tenant.name.lower(), str(tenant.number)):
        raise Forbidden("tenant_id: is not your own tenant; leave it out, your token says it")


def moment(value: object, field: str, found: list[FieldError]) -> datetime | None:
    """An ISO 8601 date or time; without an offset it is UTC."""
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise ValueError
        if len(value) == 10:
            return datetime.combine(date.fromisoformat(value), time(), UTC)
        at = datetime.fromisoformat(value)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        found.append(FieldError(field, "must be a time like 2026-01-31T12:00:00Z"))
        return None


def _observed(
    document: Mapping[str, Any], now: datetime, found: list[FieldError]
) -> datetime | None:
    field = "observed_at" if document.get("observed_at") is not None else "updated_at"
    at = moment(document.get(field), field, found)
    if at is not None and at > now + FUTURE:
        found.append(FieldError(field, "is more than 5 minutes in the future; check the clock"))
    return at


def _fields(document: Mapping[str, Any], found: list[FieldError]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in TEXTS:
        if name in document:
            fields[name] = _text(document, name, found)
    for name in LABELS:
        if document.get(name) is not None:
            fields[name] = _labels(document[name], name, found)
    if document.get("created_at") is not None:
        fields["created_at"] = moment(document["created_at"], "created_at", found)
    metadata = _object(document, "metadata", found)
    unknown = {name: value for name, value in document.items() if name not in _KNOWN}
    if metadata is not None or unknown:
        fields["metadata"] = {**unknown, **(metadata or {})}
    details = _object(document, "details", found)
    stated = {name: document[name] for name in DETAILS if document.get(name) is not None}
    if details is not None or stated:
        fields["details"] = {**(details or {}), **stated}
    for name in ("partial", "is_deleted"):
        if not isinstance(document.get(name), bool | None):
            found.append(FieldError(name, "must be true or false"))
    return fields


def _observation(document: Mapping[str, Any], fields: dict[str, Any]) -> Observation:
    own = document.get("asset_id")
    name = document.get("qualified_name")
    for field, value in (("asset_id", own), ("qualified_name", name)):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise Invalid("must be a text that is not empty", field)
    if name is None:
        name = own
    if name is None:
        if not fields.get("asset_name"):
            raise Invalid("is missing; give qualified_name, asset_id or asset_name", "asset_name")
        name = invented(fields.get("data_source"), fields.get("asset_type"), fields["asset_name"])
    name = canonical(name)
    if document.get("is_deleted"):
        return AssetGone(qualified_name=name, asset_id=own)
    return AssetSeen(
        qualified_name=name, asset_id=own, partial=bool(document.get("partial")), **fields
    )


def _text(document: Mapping[str, Any], field: str, found: list[FieldError]) -> str | None:
    value = document.get(field)
    if value is None or isinstance(value, str):
        return value
    found.append(FieldError(field, f"must be a text, not {_kind(value)}"))
    return None


def _labels(value: object, field: str, found: list[FieldError]) -> list[str]:
    if not isinstance(value, list):
        found.append(FieldError(field, f"must be a list of texts, not {_kind(value)}"))
        return []
    for index, label in enumerate(value):
        if not isinstance(label, str):
            found.append(FieldError(f"{field}[{index}]", f"must be a text, not {_kind(label)}"))
    return value


def _object(
    document: Mapping[str, Any], field: str, found: list[FieldError]
) -> dict[str, Any] | None:
    value = document.get(field)
    if value is None or isinstance(value, dict):
        return value
    found.append(FieldError(field, f"must be an object, not {_kind(value)}"))
    return None


def _kind(value: object) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text"}
    kinds |= {list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), type(value).__name__)
