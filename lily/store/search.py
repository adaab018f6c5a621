"""Search: which assets match, in which order, and what there is to narrow it by."""

from typing import Any
from uuid import UUID

import msgspec

from lily.assets.model import Asset
from lily.assets.query import Mode, Query, loosened, mark
from lily.store.assets import SELECT
from lily.store.database import Unit

SEARCH = """
SELECT mode, total, total_is_exact, facets, ranks, names, guids
  FROM search(%s::tsquery, %s::tsquery, %s::tsquery, %s::tsquery, %s, %s, %s, %s, %s, %s, %s)
"""
ROWS = f"{SELECT} WHERE tenant = %s AND lane = ANY(%s) AND guid = ANY(%s)"
FACETS = ("asset_type", "tag", "data_source", "owner")


class Found(msgspec.Struct):
    """One page. `total` is exact, or a lower bound; facets count the first matches."""

    assets: list[Asset]
    next: str | None
    total: int
    total_is_exact: bool
    facets: dict[str, dict[str, int]]


def search(unit: Unit, query: Query) -> Found:
    """A page; words that are found nowhere whole are looked for as prefixes."""
    if query.nothing:
        return Found([], None, 0, True, _facets({}))
    found = _search(unit, query)
    if found.total == 0 and query.looser is not None and query.after is None:
        return _search(unit, loosened(query))
    return found


def _search(unit: Unit, query: Query) -> Found:
    after = query.after
    key = (after.mode, after.rank, after.name, after.guid) if after else (None,) * 4
    row = unit.conn.execute(
        SEARCH,
        [query.wanted, query.exact, query.in_name, query.in_path, query.since, query.shown,
         *key, query.limit + 1],
    ).fetchone()  # fmt: skip
    assert row is not None
    mode, total, is_exact, facets, ranks, names, guids = row
    more = len(guids or ()) > query.limit
    following = _mark(query, mode, ranks, names, guids) if more else None
    found = _rows(unit, (guids or [])[: query.limit])
    return Found(found, following, total if is_exact else total - 1, is_exact, _facets(facets))


def _mark(query: Query, mode: Mode, ranks: list[int], names: list[str], guids: list[UUID]) -> str:
    last = query.limit - 1
    return mark(query, mode, ranks[last], names[last] if names else "", guids[last])


def _rows(unit: Unit, guids: list[UUID]) -> list[Asset]:
    """The rows themselves, read as the caller: row security looks at each of them again."""
    if not guids:
        return []
    rows = unit.conn.execute(ROWS, [unit.tenant.number, ["core", "fields"], guids])
    by_guid = {asset.guid: asset for asset in (Asset(*row) for row in rows)}
    return [by_guid[guid] for guid in guids if guid in by_guid]


def _facets(counted: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Most frequent first."""
    return {
        kind: dict(sorted(counted.get(kind, {}).items(), key=lambda item: (-item[1], item[0])))
        for kind in FACETS
    }
