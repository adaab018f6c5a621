"""Reads of assets, for everybody who shows them."""

from collections.abc import Sequence
from typing import Any, LiteralString
from uuid import UUID

import msgspec

from lily.assets.model import COLUMNS, Asset
from lily.assets.names import candidates, guid_of
from lily.errors import NotFound
from lily.store.database import Unit
from lily.types import Lane

_COLUMNS = ", ".join(f"a.{name}" for name in COLUMNS)

# A field follows its direct parent: it is gone while its parent is deleted or purged. A parent
# that nobody has seen yet takes nothing with it.
ORPHANED: LiteralString = """
(a.lane = 'fields' AND a.deleted_by IS NULL AND a.parent IS NOT NULL AND coalesce(
   (SELECT p.deleted_by IS NOT NULL FROM asset p WHERE p.tenant = a.tenant AND p.guid = a.parent),
   EXISTS (SELECT FROM tombstone t WHERE t.tenant = a.tenant AND t.guid = a.parent)))
"""
# Reads rows for `shown`: an asset's columns, and whether it follows a parent that is gone.
SHOWN = f"SELECT {_COLUMNS}, {ORPHANED} FROM asset a"
BY_GUIDS = f"{SHOWN} WHERE a.tenant = %s AND a.guid = ANY(%s)"
BY_ALIAS = (
    f"{SHOWN} JOIN asset_alias l ON l.tenant = a.tenant AND l.guid = a.guid"
    " WHERE l.tenant = %s AND l.alias = %s"
)
CHILDREN = (
    f"SELECT {_COLUMNS}, a.lane = 'fields' AND a.deleted_by IS NULL AND %(gone)s FROM asset a"
    " WHERE a.tenant = %(tenant)s AND a.parent = %(parent)s AND a.guid > %(after)s"
    " AND (%(kinds)s::text[] IS NULL OR a.asset_type = ANY(%(kinds)s))"
    " AND (%(part)s::text IS NULL OR position(%(part)s IN lower(a.asset_name)) > 0)"
    " AND (%(deleted)s OR (a.deleted_by IS NULL AND NOT (a.lane = 'fields' AND %(gone)s)))"
    " ORDER BY a.guid LIMIT %(limit)s"
)
FIRST = UUID(int=0)


def shown(row: Sequence[Any]) -> Asset:
    """A row of SHOWN; a field whose parent is gone reads as deleted with it."""
    asset = Asset(*row[:-1])
    if row[-1]:
        asset.deleted_by = f"parent:{asset.parent}"
    return asset


def find(unit: Unit, given: str) -> Asset:
    """The asset that `{id}` means: its guid, its qualified name, or one of its aliases."""
    if (asset := seek(unit, given)) is None:
        raise NotFound("asset", given)
    return asset


def seek(unit: Unit, given: str) -> Asset | None:
    guids = candidates(unit.tenant, given)
    rows = unit.conn.execute(BY_GUIDS, [unit.tenant.number, guids]).fetchall()
    if not rows:
        rows = unit.conn.execute(BY_ALIAS, [unit.tenant.number, given]).fetchall()
    found = [shown(row) for row in rows]
    found.sort(key=lambda asset: guids.index(asset.guid) if asset.guid in guids else 0)
    return found[0] if found else None


def by_name(unit: Unit, qualified_name: str) -> Asset:
    guid = guid_of(unit.tenant.id, qualified_name)
    row = unit.conn.execute(BY_GUIDS, [unit.tenant.number, [guid]]).fetchone()
    if row is None:
        raise NotFound("asset", qualified_name)
    return shown(row)


def children(
    unit: Unit,
    parent: Asset,
    after: UUID = FIRST,
    limit: int = 100,
    kinds: Sequence[str] = (),
    deleted: bool = False,
    part: str = "",
) -> list[Asset]:
    """What lies directly in a container, by guid: however many there are, a page costs a page.

    Only those with `part` in their names, if it is given: then all of them are looked at.
    """
    values = {
        "tenant": unit.tenant.number,
        "parent": parent.guid,
        "after": after,
        "limit": limit,
        "kinds": list(kinds) or None,
        "part": part.lower() or None,
        "deleted": deleted,
        "gone": parent.deleted_by is not None,
    }
    return [shown(row) for row in unit.conn.execute(CHILDREN, values).fetchall()]


class Place(msgspec.Struct, frozen=True):
    """What an edit has to know to lock an asset."""

    guid: UUID
    lane: Lane
    qualified_name: str


def locate(unit: Unit, given: str) -> Place:
    asset = find(unit, given)
    return Place(asset.guid, asset.lane, asset.qualified_name)
