"""A line of a file, or an item of a list, as a statement, the quick way: most are plain, and plain
is cheap.

What is not plain in any respect is left to `documents.statement`, which also words every refusal.
A plain line always gives the same statement either way (tested).
"""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from lily.assets.documents import FUTURE, Statement, moment
from lily.assets.names import canonical
from lily.assets.rules import LIST_LIMIT, TAG_LIMIT
from lily.errors import FieldError
from lily.events.limits import DEPTH_LIMIT, NAME_LIMIT
from lily.events.observations import AssetSeen

Text = str | UnsetType | None


class Plain(msgspec.Struct, forbid_unknown_fields=True):
    """The fields that most observations are made of."""

    qualified_name: str
    asset_id: str | None = None
    asset_name: Text = UNSET
    asset_type: Text = UNSET
    asset_owner: Text = UNSET
    description: Text = UNSET
    parent_id: Text = UNSET
    data_source: Text = UNSET
    external_id: Text = UNSET
    tags: list[str] | None = None
    business_terms: list[str] | None = None
    metadata: dict[str, Any] | None = None
    source: str | None = None
    observed_at: str | None = None
    updated_at: str | None = None


_decode = msgspec.json.Decoder(Plain).decode


def plain(line: bytes, now: datetime) -> Statement | None:
    """The statement of a plain line; None for one that needs a closer look."""
    # No text can then be too long for most fields, hold a NUL, or nest too deeply.
    if len(line) > NAME_LIMIT or b"\\u0000" in line:
        return None
    if line.count(b"{") + line.count(b"[") >= DEPTH_LIMIT:
        return None
    try:
        given = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not _fits(given):
        return None
    observed = given.observed_at if given.observed_at is not None else given.updated_at
    at = None
    if observed is not None:
        found: list[FieldError] = []
        at = moment(observed, "observed_at", found)
        if at is None or at > now + FUTURE:
            return None
    seen = AssetSeen(
        qualified_name=canonical(given.qualified_name),
        asset_id=given.asset_id,
        asset_name=given.asset_name,
        asset_type=given.asset_type,
        asset_owner=given.asset_owner,
        description=given.description,
        parent_id=given.parent_id,
        data_source=given.data_source,
        external_id=given.external_id,
        tags=UNSET if given.tags is None else given.tags,
        business_terms=UNSET if given.business_terms is None else given.business_terms,
        metadata=UNSET if given.metadata is None else given.metadata,
    )
    return Statement(seen, given.source or given.data_source or "default", at)


def _fits(given: Plain) -> bool:
    """Whether the rules that a length of the line does not settle are kept."""
    if not given.qualified_name.strip():
        return False
    if given.asset_id is not None and not given.asset_id.strip():
        return False
    if ((name := given.asset_name) and not name.strip()) or name == "":
        return False
    if (kind := given.asset_type) is not UNSET and kind is not None and not 0 < len(kind) <= 256:
        return False
    if kind and not kind.strip():
        return False
    for text in (given.asset_owner, given.data_source, given.source):
        if text and len(text) > 1_000:
            return False
    return _labels_fit(given.tags) and _labels_fit(given.business_terms)


def _labels_fit(labels: list[str] | None) -> bool:
    if not labels:
        return True
    return len(labels) <= LIST_LIMIT and all(
        label.strip() and len(label) <= TAG_LIMIT for label in labels
    )
