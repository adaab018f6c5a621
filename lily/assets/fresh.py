"""The first statement of an asset that nobody knew: the row it makes, without the detour.

`change.take` decides for everything that is stored already. For an asset without a row, a claim
or a tombstone there is nothing to decide, so its row follows from the statement alone. Both give
the same row and the same facts (tested).
"""

from functools import lru_cache
from uuid import UUID

from msgspec import UNSET

from lily.assets import claims as registers
from lily.assets.change import Context, Message, fact, plain, whole
from lily.assets.claims import Claim
from lily.assets.model import Asset
from lily.assets.view import expiry, own_name
from lily.clock import from_micros
from lily.events.facts import Fact
from lily.events.lanes import lane_of, parent_of
from lily.events.observations import AssetSeen


def suits(message: Message) -> bool:
    """Whether the statement says all by itself: complete, and without suggestions."""
    seen = message.seen
    return isinstance(seen, AssetSeen) and not seen.partial and not seen.suggestions


def created(tenant: int, guid: UUID, message: Message, context: Context) -> Asset:
    """The asset as this statement makes it."""
    seen, now = message.seen, context.now
    assert isinstance(seen, AssetSeen)
    name = seen.qualified_name
    parent = None
    if seen.parent_id:
        parent = context.resolve(seen.parent_id)
    elif (container := parent_of(name)) is not None:
        parent = context.resolve(container)
    tags, own = _folded(seen.tags, context) if seen.tags else ([], None)
    terms = sorted(set(seen.business_terms)) if seen.business_terms else []
    observed_at = _moment(message.when[0])
    details = None if seen.details is UNSET else seen.details
    first = seen.created_at or None
    asset = Asset(
        tenant, lane_of(name), guid, name, seen.asset_id, seen.asset_name or own_name(name),
        seen.asset_type or "entity", _said(seen.asset_owner),
        _said(seen.description), parent,
        _said(seen.data_source), _said(seen.external_id),
        tags, terms, seen.metadata or {}, details, 1, None, None, None,
        expiry(details, observed_at) if details else None, first or now, now, observed_at, now,
        0, message.cause, message.source, message.when[1], 0, None, None, own,
    )  # fmt: skip
    if seen.asset_name and seen.asset_type and not first:
        return asset
    claim = Claim(message.source, message.when, registers.given(seen))
    if not plain(asset, claim):
        asset.statement = registers.dump(claim)
    return asset


def _folded(said: list[str], context: Context) -> tuple[list[str], list[str] | None]:
    shown = context.fold_tags(context.groups, (said,))
    own = set(said)  # nobody has chosen between any of them yet
    return shown, None if len(own) == len(shown) else sorted(own)


def told(asset: Asset, message: Message, context: Context) -> Fact:
    """The fact that it exists now."""
    return fact("AssetCreated", asset, message, context.now, after=whole(asset))


def _said(value: object) -> str | None:
    """An empty text stays one; what was not said, or null, is null."""
    return value if isinstance(value, str) else None


_moment = lru_cache(maxsize=1024)(from_micros)  # lines without a time of their own share one
