"""What an asset has from its containers: worked out when it is read, never written."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from lily.assets.edits import Edit
from lily.assets.model import Asset
from lily.store import definitions
from lily.store.database import Database, Unit
from lily.tags.definitions import Book
from lily.tags.effective import inherited

# Containers that several assets share are read once; a container inside itself ends the way.
# LIMIT keeps the planner from joining: it must look up one row by its key, not scan a tenant.
CONTAINERS = """
WITH RECURSIVE up AS (
  SELECT guid, parent, deleted_by, tags, own_tags, business_terms FROM asset
   WHERE tenant = %(tenant)s AND guid = ANY(%(guids)s)
  UNION
  SELECT c.* FROM up CROSS JOIN LATERAL (
    SELECT guid, parent, deleted_by, tags, own_tags, business_terms FROM asset a
     WHERE a.tenant = %(tenant)s AND a.guid = up.parent LIMIT 1) c
)
SELECT * FROM up
"""


class Container(msgspec.Struct):
    guid: UUID
    parent: UUID | None
    deleted_by: str | None
    tags: list[str]
    own_tags: list[str] | None
    business_terms: list[str]

    @property
    def protective(self) -> set[str]:
        return set(self.tags).union(self.own_tags or ())


Containers = Mapping[UUID, Container]


def containers_of(rows: Iterable[Sequence[Any]]) -> dict[UUID, Container]:
    return {row[0]: Container(*row) for row in rows}


def above(asset: Asset, containers: Containers) -> list[Container]:
    """The containers that are there, nearest first."""
    found: list[Container] = []
    seen = {asset.guid}
    at = asset.parent
    while at is not None and at not in seen and (container := containers.get(at)) is not None:
        seen.add(at)
        if container.deleted_by is None:
            found.append(container)
        at = container.parent
    return found


def read(unit: Unit, assets: Iterable[Asset]) -> dict[UUID, Container]:
    """Everything above these assets."""
    guids = sorted({asset.parent for asset in assets if asset.parent is not None})
    if not guids:
        return {}
    values = {"tenant": unit.tenant.number, "guids": guids}
    return containers_of(unit.conn.execute(CONTAINERS, values, prepare=True))


def marked(wanted: Edit, asset: Asset, containers: Containers) -> Edit:
    """An edit that repeats what it read names the containers' tags too; they stay theirs."""
    held = {tag for each in above(asset, containers) for tag in each.protective}
    return msgspec.structs.replace(wanted, inherited=held) if held else wanted


def shown(unit: Unit, asset: Asset, database: Database) -> Asset:
    """One asset with what it has from its containers."""
    containers = read(unit, [asset])
    return enrich(asset, containers, definitions.book(database, unit)) if containers else asset


def enrich(asset: Asset, containers: Containers, book: Book) -> Asset:
    """The asset as it is shown: with the tags and terms that travel down to it."""
    chain = above(asset, containers)
    tags = [mine for each in chain if (mine := book.travelling.intersection(each.tags))]
    if tags:
        asset.tags = inherited(book.groups, asset.tags, tags)
    terms = book.travelling_terms.intersection(
        term for each in chain for term in each.business_terms
    )
    if terms:
        asset.business_terms = sorted(terms.union(asset.business_terms))
    return asset
