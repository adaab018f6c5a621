"""The documents' own request shapes, as canonical documents and back.

`entity`: {"entity_type", "attributes"}. `plain`: {"entity_id", "data"}.
`nested`: {"asset", "metadata_details"}, one metadata key at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid5

from lily.assets.model import Asset
from lily.errors import FieldError, Invalid
from lily.types import Tenant

Json = dict[str, Any]

NAMES = {"name": "asset_name", "description": "description", "tags": "tags"}
DETAILS_LIST = "downstream_notifications"
KEY_FIELDS = ("metadata_key", "metadata_value", "metadata_source")


def from_entity(body: Mapping[str, Any]) -> Json:
    """What somebody ingests as an entity with attributes; unknown attributes are metadata."""
    attributes = _attributes(body)
    wrong = []
    if not _is_text(body.get("entity_type")):
        wrong.append(FieldError("entity_type", "is missing; give a text like table"))
    if not _is_text(attributes.get("name")):
        wrong.append(FieldError("attributes.name", "is missing; give the entity a name"))
    if wrong:
        raise Invalid(wrong)
    named, metadata = _split(attributes)
    more = {k: v for k, v in body.items() if k not in ("entity_type", "attributes", "entity_id")}
    document = {**more, **named, "asset_type": body["entity_type"]}
    if body.get("entity_id") is not None:
        document["asset_id"] = body["entity_id"]
    if metadata:
        document["metadata"] = metadata
    return document


def entity_edit(body: Mapping[str, Any]) -> Json:
    """An update of attributes, as an edit: given ones replace, others stay."""
    named, metadata = _split(_attributes(body))
    if body.get("entity_type") is not None:
        named["asset_type"] = body["entity_type"]
    return {**named, "metadata": metadata} if metadata else named


def to_entity(asset: Asset, tenant: Tenant) -> Json:
    attributes = {
        **asset.metadata,
        "name": asset.asset_name,
        "description": asset.description,
        "created_by": asset.metadata.get("created_by"),
        "tags": asset.tags,
    }
    return {
        "metadata_id": asset.asset_id,
        "entity_type": asset.asset_type,
        "attributes": attributes,
        "tenant_id": tenant.id,
        "created_at": asset.created_at,
        "updated_at": asset.updated_at,
    }


def entity_field(field: str) -> str:
    """Where the documents' shape keeps what is wrong in the canonical one."""
    if field.startswith("metadata."):
        return f"attributes.{field[9:]}"
    if field == "asset_type":
        return "entity_type"
    for theirs, ours in NAMES.items():
        if field == ours or field.startswith(f"{ours}["):
            return f"attributes.{theirs}{field[len(ours) :]}"
    return field


def from_plain(body: Mapping[str, Any]) -> Json:
    """An own id with texts."""
    entity, data = body.get("entity_id"), body.get("data")
    wrong = []
    if not _is_text(entity):
        wrong.append(FieldError("entity_id", "is missing; give a text"))
    if not isinstance(data, dict):
        wrong.append(FieldError("data", "is missing; give an object of texts"))
    else:
        wrong += [
            FieldError(f"data.{key}", "must be a text")
            for key, value in data.items()
            if not isinstance(value, str)
        ]
    if wrong:
        raise Invalid(wrong)
    more = {key: value for key, value in body.items() if key not in ("entity_id", "data")}
    return {**more, "asset_id": entity, "metadata": data}


def plain_field(field: str) -> str:
    if field == "metadata" or field.startswith("metadata."):
        return f"data{field[8:]}"
    return "entity_id" if field in ("asset_id", "qualified_name") else field


def from_nested(item: object, tenant: Tenant) -> Json:
    """An asset and one key of its metadata; keys that came before stay."""
    if not isinstance(item, dict):
        raise Invalid("must be an object with asset and metadata_details")
    asset, details = item.get("asset"), item.get("metadata_details")
    wrong = []
    if not isinstance(asset, dict):
        wrong.append(FieldError("asset", "is missing; give an object"))
    if not isinstance(details, dict | None):
        wrong.append(FieldError("metadata_details", "must be an object"))
    if wrong:
        raise Invalid(wrong)
    assert isinstance(asset, dict)
    details = details or {}
    if wrong := [*_asset_problems(asset), *_details_problems(details)]:
        raise Invalid(wrong)
    return _nested(asset, details, tenant)


def nested_field(field: str) -> str:
    if field == "details" or field.startswith("details."):
        return f"metadata_details{field[7:]}"
    if field.startswith("metadata."):
        return "metadata_details.metadata_value"
    if field == "data_source":
        return "metadata_details.metadata_source"
    placed = not field or field == "asset" or field.startswith(("asset.", "metadata_details"))
    return field if placed else f"asset.{field}"


def fold(documents: Sequence[Json]) -> Json:
    """Partial documents of one asset, oldest first, as one."""
    folded: Json = {}
    for document in documents:
        metadata = {**folded.get("metadata", {}), **document.get("metadata", {})}
        folded = {**folded, **document}
        if metadata:
            folded["metadata"] = metadata
    return folded


def _nested(asset: Mapping[str, Any], details: Mapping[str, Any], tenant: Tenant) -> Json:
    document: Json = {**asset, "partial": True}
    if details.get("metadata_source") is not None:
        document["data_source"] = details["metadata_source"]
    if details.get("metadata_key") is not None:
        document["metadata"] = {
            **(asset.get("metadata") or {}),
            details["metadata_key"]: details.get("metadata_value"),
        }
    kept = {k: v for k, v in details.items() if k not in KEY_FIELDS and v is not None}
    if DETAILS_LIST in kept:
        kept[DETAILS_LIST] = _numbered(kept[DETAILS_LIST], document, tenant)
    if kept:
        document["details"] = kept
    return document


def _numbered(notifications: Sequence[Json], document: Json, tenant: Tenant) -> list[Json]:
    """Each notification with an id; the same one gets the same id when it is sent again."""
    about = [document.get(n) for n in ("data_source", "asset_type", "asset_name", "asset_id")]
    made = []
    for index, each in enumerate(notifications):
        what = [each.get(n) for n in ("system_name", "notification_type", "recipient")]
        own = each.get("notification_id") or str(uuid5(tenant.id, repr([*about, index, *what])))
        made.append({**each, "notification_id": own})
    return made


def _asset_problems(asset: Mapping[str, Any]) -> list[FieldError]:
    named = any(asset.get(name) is not None for name in ("asset_id", "qualified_name"))
    required = ("asset_type",) if named else ("asset_name", "asset_type")
    return [
        FieldError(f"asset.{name}", "is missing; give a text")
        for name in required
        if not _is_text(asset.get(name))
    ]


def _details_problems(details: Mapping[str, Any]) -> list[FieldError]:
    wrong = []
    key = details.get("metadata_key")
    if key is None and details.get("metadata_value") is not None:
        wrong.append(("metadata_key", "is missing; a value needs its key"))
    elif key is not None and not _is_text(key):
        wrong.append(("metadata_key", "must be a text that is not empty"))
    notifications = details.get(DETAILS_LIST)
    if not isinstance(notifications, list | None):
        wrong.append((DETAILS_LIST, "must be a list of objects"))
    for index, each in enumerate(notifications if isinstance(notifications, list) else []):
        if not isinstance(each, dict):
            wrong.append((f"{DETAILS_LIST}[{index}]", "must be an object"))
    return [FieldError(f"metadata_details.{field}", message) for field, message in wrong]


def _attributes(body: Mapping[str, Any]) -> Json:
    attributes = body.get("attributes")
    if not isinstance(attributes, dict):
        raise Invalid("is missing; give an object with at least a name", "attributes")
    return attributes


def _split(attributes: Mapping[str, Any]) -> tuple[Json, Json]:
    named = {ours: attributes[theirs] for theirs, ours in NAMES.items() if theirs in attributes}
    return named, {key: value for key, value in attributes.items() if key not in NAMES}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
