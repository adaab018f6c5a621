"""An edit as a person writes it: read strictly, every mistake named with its cure."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from lily.assets.edits import Edit
from lily.assets.model import Asset
from lily.assets.rules import problems
from lily.errors import FieldError, Invalid
from lily.events.observations import AssetSeen

TEXTS = ("asset_name", "asset_type", "asset_owner", "description", "parent_id", "external_id")
EDITABLE = (*TEXTS, "business_terms", "tags", "metadata")
# An answer may be sent back as it came; what Lily or a source decides must then be as it was.
FIXED = ("guid", "qualified_name", "asset_id", "data_source", "lane", "is_deleted", "archived")
IGNORED = (
    "version", "created_at", "updated_at", "observed_at", "applied_at", "tenant_id", "details",
    "shadowed", "incidents", "health",
)  # fmt: skip

Find = Callable[[str], str]
_PLACE = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)


def read(body: Mapping[str, Any], whole: bool) -> Edit:
    """The edit in a request's body. A field that nobody knows is metadata, never dropped."""
    unknown = {k: v for k, v in body.items() if k not in (*EDITABLE, *FIXED, *IGNORED)}
    given = {k: v for k, v in body.items() if k in EDITABLE}
    if unknown:
        metadata = given.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise Invalid("must be an object", "metadata")
        given["metadata"] = {**unknown, **metadata}
    _check(given)
    fields = {k: v for k, v in given.items() if k not in ("tags", "metadata")}
    if whole:  # an asset always has a name and a type
        fields = {k: v for k, v in fields.items() if v is not None or k not in TEXTS[:2]}
    return Edit(
        fields=fields,
        metadata=given.get("metadata", UNSET),
        tags=given.get("tags", UNSET),
        whole=whole,
    )


def refuse_fixed(body: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
    """Raise Invalid where a body would change what an edit cannot change."""
    wrong = [
        FieldError(name, _cure(name))
        for name in FIXED
        if name in body and body[name] is not None and not _same(body[name], shown.get(name))
    ]
    if wrong:
        raise Invalid(wrong)


def placed(wanted: Edit, asset: Asset, find: Find) -> Edit:
    """The same edit, with the parent as a guid; an asset cannot be its own parent."""
    parent = wanted.fields.get("parent_id")
    if parent is None:
        return wanted
    guid = find(parent)
    if guid == str(asset.guid):
        raise Invalid("is the asset itself; name its container, or leave it out", "parent_id")
    return msgspec.structs.replace(wanted, fields={**wanted.fields, "parent_id": guid})


def _check(given: Mapping[str, Any]) -> None:
    stated = {name: value for name, value in given.items() if value is not None}
    try:
        # Through bytes, as it would travel: what cannot be written is refused here.
        whole = msgspec.json.encode({**stated, "type": "AssetSeen", "qualified_name": "-"})
        seen = msgspec.json.decode(whole, type=AssetSeen)
    except msgspec.ValidationError as cause:
        where = _PLACE.match(str(cause))
        raise Invalid(where[1] if where else str(cause), where[2] if where else "body") from None
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Invalid("has text or a number that cannot be stored", "body") from None
    if wrong := problems(seen):
        raise Invalid(wrong)


def _same(given: object, shown: object) -> bool:
    return given == shown or (isinstance(given, str) and given == str(shown))


def _cure(name: str) -> str:
    if name in ("is_deleted", "archived"):
        return "cannot be edited; use DELETE, or POST to restore"
    if name == "data_source":
        return "cannot be edited; its source says it"
    return "cannot be edited; it is the asset's identity"
