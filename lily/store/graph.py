"""Reads of the graph: pages of a walk, what lies downstream in numbers, edges by id."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.lineage.edges import COLUMNS, Edge
from lily.lineage.graph import Asked, Line, Node, Page, counted
from lily.store.database import BOUND
from lily.store.edges import SELECT
from lily.store.reads import Reads

PAGE = f"""
SELECT p.nodes::text, p.edges::text, p.implied::text, p.more, p.cut
  FROM {BOUND} b
 CROSS JOIN LATERAL
       lineage_page(b.tenant, %(root)s, %(up)s, %(down)s, %(depth)s, %(fields)s, %(labels)s,
                    %(kinds)s, %(deleted)s, %(most)s, %(limit)s, %(after_depth)s, %(after_guid)s) p
"""
IMPACT = """
WITH w AS MATERIALIZED (
  SELECT guid, depth FROM lineage_walk(%(me)s, %(root)s, %(down)s, %(depth)s, %(fields)s,
                                       %(labels)s, false, %(most)s)),
a AS MATERIALIZED (
  SELECT a.asset_type, a.asset_owner, a.tags, w.depth FROM w
    JOIN asset a ON a.tenant = %(me)s AND a.guid = w.guid WHERE w.depth > 0)
SELECT 'total', NULL, count(*) FROM a
UNION ALL SELECT 'cut', NULL, count(*) FROM w WHERE guid IS NULL
UNION ALL SELECT 'kinds', asset_type, count(*) FROM a GROUP BY asset_type
UNION ALL SELECT 'owners', asset_owner, count(*) FROM a GROUP BY asset_owner
UNION ALL SELECT 'tags', t, count(*) FROM a, unnest(a.tags) t GROUP BY t
UNION ALL SELECT 'depths', depth::text, count(*) FROM a GROUP BY depth
"""
_COLUMNS = ", ".join(f"e.{name}" for name in COLUMNS)
WITHIN = f"""
SELECT {_COLUMNS}
  FROM unnest(%(ups)s::uuid[], %(downs)s::uuid[], %(types)s::text[]) AS p (up, down, type)
 CROSS JOIN LATERAL (
   SELECT * FROM edge x
    WHERE x.tenant = %(me)s AND x.up_top = p.up AND x.down_top = p.down AND x.type = p.type
      AND x.level = 'column' AND (%(deleted)s OR (x.deleted_by IS NULL
      AND EXISTS (SELECT FROM asset a WHERE a.tenant = x.tenant AND a.guid = x.upstream
                     AND a.deleted_by IS NULL AND a.archived_at IS NULL)
      AND EXISTS (SELECT FROM asset a WHERE a.tenant = x.tenant AND a.guid = x.downstream
                     AND a.deleted_by IS NULL AND a.archived_at IS NULL)))
    LIMIT 1000) e
"""
BY_IDS = f"{SELECT} WHERE tenant = %s AND id = ANY(%s)"

_nodes = msgspec.json.Decoder(list[Node]).decode
_lines = msgspec.json.Decoder(list[Line]).decode

Pair = tuple[str, str, str]  # upstream table, downstream table, type


def values(tenant: int, root: UUID, asked: Asked) -> dict[str, Any]:
    """What the walk's SQL wants to know."""
    return {
        "me": tenant, "root": root, "up": asked.direction != "downstream",
        "down": asked.direction != "upstream", "depth": asked.depth, "fields": asked.fields,
        "labels": list(asked.labels) or None, "kinds": list(asked.kinds) or None,
        "deleted": asked.deleted, "most": asked.most, "limit": asked.limit,
        "after_depth": asked.after[0], "after_guid": asked.after[1],
    }  # fmt: skip


def page_of(row: Sequence[Any]) -> Page:
    lines = _lines(row[1])
    if row[2] is not None:
        lines += _lines(row[2])
        lines.sort(key=lambda line: (line.upstream, line.downstream, line.id))
    return Page(_nodes(row[0]), lines, row[3], row[4])


async def page(reads: Reads, tenant: int, root: UUID, asked: Asked) -> Page:
    """Nodes by depth, then guid, and the edges that end among them."""
    return page_of(await reads.row(PAGE, values(tenant, root, asked)))


async def within(
    conn: psycopg.AsyncConnection, tenant: int, pairs: Sequence[Pair], deleted: bool
) -> dict[Pair, list[Edge]]:
    """The column edges behind table edges."""
    given = {
        "me": tenant, "ups": [p[0] for p in pairs], "downs": [p[1] for p in pairs],
        "types": [p[2] for p in pairs], "deleted": deleted,
    }  # fmt: skip
    done = await conn.execute(WITHIN, given, prepare=True)
    found: dict[Pair, list[Edge]] = defaultdict(list)
    for row in await done.fetchall():
        edge = Edge(*row)
        found[str(edge.up_top), str(edge.down_top), edge.type].append(edge)
    for edges in found.values():
        edges.sort(key=lambda edge: edge.id)
    return found


async def impact(
    conn: psycopg.AsyncConnection, tenant: int, root: UUID, asked: Asked
) -> dict[str, Any]:
    """How much depends on it, by kind, owner, tag and distance."""
    done = await conn.execute(IMPACT, values(tenant, root, asked), prepare=True)
    counts: dict[str, list[tuple[str | None, int]]] = defaultdict(list)
    for what, name, count in await done.fetchall():
        counts[what].append((name, count))
    shown: dict[str, Any] = {"total": counts["total"][0][1]}
    for what in ("kinds", "owners", "tags"):
        shown[what] = counted(counts[what])
    shown["depths"] = {
        n or "": c for n, c in sorted(counts["depths"], key=lambda p: int(p[0] or 0))
    }
    shown["truncated"] = counts["cut"][0][1] > 0
    return shown


async def by_ids(
    conn: psycopg.AsyncConnection, tenant: int, ids: Sequence[UUID]
) -> dict[UUID, Edge]:
    done = await conn.execute(BY_IDS, [tenant, list(ids)], prepare=True)
    return {edge.id: edge for edge in [Edge(*row) for row in await done.fetchall()]}
