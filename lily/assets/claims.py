"""What one source claims of one asset, kept so that arrival order does not matter.

A claim is three registers, each won by the latest (observed_at, log offset):
`base`, the newest complete statement; `over`, per field the newest partial one that is newer than
the base; `gone`, the newest word that the asset is no longer there.
"""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from lily.clock import from_micros, micros
from lily.events.observations import AssetGone, AssetSeen, Observation

When = tuple[int, int]  # microseconds of observed_at, log offset

NEVER: When = (-(2**62), -1)
SEEN = ""  # the field of a partial statement that says: it is there

SCALARS = (
    "asset_name", "asset_type", "asset_owner", "description", "parent_id", "data_source",
    "external_id", "created_at", "tags", "business_terms", "details",
)  # fmt: skip


class Claim(msgspec.Struct, omit_defaults=True):
    source: str
    at: When = NEVER
    base: dict[str, Any] | None = None
    over: dict[str, tuple[Any, int, int]] = {}
    gone: When | None = None

    @property
    def spoke(self) -> When:
        """When it last said something of the asset other than that it is gone."""
        return max([self.at, *((t, o) for _, t, o in self.over.values())]) if self.over else self.at

    @property
    def is_gone(self) -> bool:
        return self.gone is not None and self.gone > self.spoke

    @property
    def is_plain(self) -> bool:
        """Nothing but a complete statement: the asset's own columns can hold it."""
        return self.base is not None and not self.over and self.gone is None


def heed(claim: Claim, seen: Observation, when: When) -> bool:
    """Take an observation into the claim; false if it is older than what is known."""
    if isinstance(seen, AssetGone):
        if when <= claim.spoke or (claim.gone is not None and when <= claim.gone):
            return False
        claim.gone = when
        return True
    if when <= claim.at:
        return False
    if seen.partial:
        _overlay(claim, seen, when)
    else:
        claim.at = when
        claim.base = given(seen)
        if claim.over:
            claim.over = {k: v for k, v in claim.over.items() if (v[1], v[2]) > when}
    if claim.gone is not None and claim.gone <= claim.spoke:
        claim.gone = None  # outlived: what it said last only ever gets newer
    return True


def given(seen: AssetSeen) -> dict[str, Any]:
    """The fields that an observation states, as plain values."""
    fields: dict[str, Any] = {}
    for name in SCALARS:
        value = getattr(seen, name)
        if value is not UNSET and value is not None:
            fields[name] = micros(value) if isinstance(value, datetime) else value
    if seen.asset_id is not None:
        fields["asset_id"] = seen.asset_id
    if seen.metadata is not UNSET and seen.metadata:
        fields["metadata"] = seen.metadata
    return fields


def fields(claim: Claim) -> dict[str, Any]:
    """What the claim says now: the base, and over it the newer partial fields."""
    if not claim.over:
        return claim.base or {}
    said = dict(claim.base or {})
    metadata = dict(said.get("metadata", {}))
    for name, (value, _, _) in claim.over.items():
        if name == SEEN:
            continue
        target, key = (metadata, name[9:]) if name.startswith("metadata.") else (said, name)
        if value is None:
            target.pop(key, None)
        else:
            target[key] = value
    if metadata:
        said["metadata"] = metadata
    else:
        said.pop("metadata", None)
    return said


def _overlay(claim: Claim, seen: AssetSeen, when: When) -> None:
    over = dict(claim.over)
    for name, value in {**_stated(seen), SEEN: None}.items():
        known = over.get(name)
        if known is None or (known[1], known[2]) < when:
            over[name] = (value, *when)
    claim.over = over


def _stated(seen: AssetSeen) -> dict[str, Any]:
    """Like `given`, but a null clears its field, and each metadata key stands alone."""
    stated: dict[str, Any] = {}
    for name in SCALARS:
        value = getattr(seen, name)
        if value is not UNSET:
            stated[name] = micros(value) if isinstance(value, datetime) else value
    if seen.asset_id is not None:
        stated["asset_id"] = seen.asset_id
    if seen.metadata is not UNSET:
        stated.update((f"metadata.{key}", value) for key, value in seen.metadata.items())
    return stated


_decode = msgspec.convert


def dump(claim: Claim) -> dict[str, Any]:
    """As it is stored in jsonb."""
    plain: dict[str, Any] = msgspec.to_builtins(claim)
    return plain


def load(stored: dict[str, Any]) -> Claim:
    return _decode(stored, Claim)


def when(at: datetime, offset: int) -> When:
    return micros(at), offset


def moment(at: When) -> datetime:
    return from_micros(at[0])
