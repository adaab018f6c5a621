"""What a decision must know of assets: their containers, and every tag that protects them."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec
import psycopg

from lily.access.model import Target
from lily.store.database import Unit

DEEPEST = 32  # containers above an asset; a longer chain is a circle

ROWS = (
    "SELECT guid, asset_type, parent, tags, own_tags FROM asset"
    " WHERE tenant = %s AND guid = ANY(%s)"
)


class Place(msgspec.Struct, frozen=True):
    """One asset by itself."""

    asset_type: str
    parent: UUID | None
    tags: frozenset[str]


def load(unit: Unit, guids: Iterable[UUID]) -> dict[UUID, Target]:
    """Those of the assets that exist."""
    return targets(unit.conn, unit.tenant.number, guids)


def targets(
    conn: psycopg.Connection,
    tenant: int,
    guids: Iterable[UUID],
    known: dict[UUID, Place] | None = None,
) -> dict[UUID, Target]:
    """Level by level upwards: columns of one table ask for their table once."""
    wanted = list(guids)
    places = {} if known is None else known
    missing: Sequence[UUID] = [guid for guid in wanted if guid not in places]
    for _ in range(DEEPEST):
        if not missing:
            break
        for guid, asset_type, parent, tags, own in conn.execute(ROWS, [tenant, list(missing)]):
            places[guid] = Place(asset_type, parent, frozenset((*tags, *(own or ()))))
        missing = list(
            {p.parent for g in missing if (p := places.get(g)) and p.parent} - places.keys()
        )
    return {guid: _target(guid, places) for guid in wanted if guid in places}


def _target(guid: UUID, places: dict[UUID, Place]) -> Target:
    chain: list[UUID] = []
    tags: set[str] = set()
    at: UUID | None = guid
    while at is not None and at not in chain and len(chain) < DEEPEST:
        chain.append(at)
        place = places.get(at)
        if place is None:
            break  # a container that nobody has seen yet can still be named by a policy
        tags |= place.tags
        at = place.parent
    return Target(guid, places[guid].asset_type, tuple(chain), frozenset(tags))


def fields(unit: Unit, table: UUID) -> list[UUID]:
    """The columns of a table."""
    rows = unit.conn.execute(
        "SELECT guid FROM asset WHERE tenant = %s AND parent = %s AND lane = 'fields'"
        " AND deleted_by IS NULL",
        [unit.tenant.number, table],
    )
    return [guid for (guid,) in rows]
