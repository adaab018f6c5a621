"""Who says what of an asset."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from lily.assets import claims as registers
from lily.assets.change import Context, Known, first_claim
from lily.assets.claims import NEVER, Claim
from lily.assets.edits import shadowed
from lily.assets.model import Asset
from lily.assets.names import as_guid, guid_of
from lily.assets.view import FoldTags
from lily.clock import from_micros
from lily.store.assets import SOURCES
from lily.store.database import Unit


class Said(msgspec.Struct):
    source: str
    observed_at: datetime | None
    gone: bool
    fields: dict[str, Any]


class Edited(msgspec.Struct):
    field: str
    value: Any
    by: str
    at: str


class Layers(msgspec.Struct):
    items: list[Said]
    edits: list[Edited]
    shadowed: list[str]


def of(unit: Unit, asset: Asset, fold_tags: FoldTags) -> Layers:
    """Each source's statement, newest first, and what people put over them."""
    known = Known(asset.tenant, asset.guid, asset.qualified_name, asset)
    known.claims = {asset.source: first_claim(asset)}
    for _, _, source, statement in unit.conn.execute(SOURCES, [[asset.tenant], [asset.guid]]):
        known.claims[source] = registers.load(statement)
    claims = sorted(known.claims.values(), key=lambda claim: claim.spoke, reverse=True)
    edits = [Edited(name, each["value"], each["by"], each["at"])
             for name, each in sorted((asset.edited or {}).items())]  # fmt: skip
    return Layers(
        [_said(claim) for claim in claims], edits, shadowed(known, _context(unit, asset, fold_tags))
    )


def _said(claim: Claim) -> Said:
    fields = dict(registers.fields(claim))
    if "created_at" in fields:
        fields["created_at"] = from_micros(fields["created_at"])
    spoke = None if claim.spoke == NEVER else registers.moment(claim.spoke)
    return Said(claim.source, spoke, claim.is_gone, fields)


def _context(unit: Unit, asset: Asset, fold_tags: FoldTags) -> Context:
    tenant_id = unit.tenant.id

    def resolve(name: str) -> UUID:
        return as_guid(name) or guid_of(tenant_id, name)

    return Context(asset.applied_at, fold_tags, resolve)
