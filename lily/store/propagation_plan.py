"""What should have arrived along lineage in a region of the graph, and how the store differs.

All of it happens in temporary tables, one set-based statement a step: the region (everything behind
the change), its edges, the seeds (own labels in the region, and what its neighbours outside have),
then breadth-first, one statement a level. Nearest root first; of two, the smaller; then the smaller
edge.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol
from uuid import UUID

import msgspec
import psycopg

from lily.lineage.labels import CARRIES_NOT
from lily.lineage.travel import (
    DEEPEST,
    SETS,
    Carrier,
    Direction,
    Filter,
    in_scope,
    of_direction,
)
from lily.store.copying import Stage, through

TABLES = (
    "CREATE TEMP TABLE IF NOT EXISTS region (guid uuid PRIMARY KEY) ON COMMIT DELETE ROWS",
    "CREATE TEMP TABLE IF NOT EXISTS hop (near uuid NOT NULL, far uuid NOT NULL,"
    " id uuid NOT NULL, type text NOT NULL, stops text[]) ON COMMIT DELETE ROWS",
    "CREATE INDEX IF NOT EXISTS hop_near ON hop (near)",
    "CREATE TEMP TABLE IF NOT EXISTS reach (n int NOT NULL, name text NOT NULL,"
    " slot text NOT NULL, guid uuid NOT NULL, value text NOT NULL, root uuid NOT NULL,"
    " depth int NOT NULL, via uuid, PRIMARY KEY (n, name, slot, guid)) ON COMMIT DELETE ROWS",
    "CREATE INDEX IF NOT EXISTS reach_depth ON reach (depth)",
)
CARRY = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS carry (n int PRIMARY KEY, field text NOT NULL, name text,"
    " rule uuid, kinds text[], max_depth int NOT NULL, always boolean NOT NULL,"
    " computed boolean NOT NULL,"
    " root_types text[], root_sources text[], root_under text,"
    " to_types text[], to_sources text[], to_under text) ON COMMIT DELETE ROWS",
    "COPY carry FROM STDIN",
    "SELECT 1",
    "TRUNCATE carry",
)
EMPTY = tuple(f"DELETE FROM {table}" for table in ("region", "hop", "reach", "carry", "seed"))

STILL = sorted(CARRIES_NOT)  # what by default carries nothing

# Everything behind the change, by every edge that anything could take. That a deleted asset lets
# nothing through is not asked here: a region that is too large is only slower.
REGION = """
INSERT INTO region
WITH RECURSIVE behind (guid) AS (
  SELECT unnest(%(starts)s::uuid[])
  UNION
  SELECT e.far FROM behind b CROSS JOIN LATERAL (
    SELECT {far} AS far FROM edge e
     WHERE e.tenant = %(tenant)s AND e.{near} = b.guid AND e.deleted_by IS NULL
       AND (e.type <> ALL(%(still)s) OR e.type = ANY(%(kinds)s))
    UNION ALL
    SELECT {far_top} FROM edge e
     WHERE e.tenant = %(tenant)s AND e.{near_top} = b.guid AND e.level = 'column'
       AND e.deleted_by IS NULL AND (e.type <> ALL(%(still)s) OR e.type = ANY(%(kinds)s))
  ) e
)
SELECT guid FROM behind LIMIT %(most)s
"""
WHOLE = """
INSERT INTO region
SELECT {far} FROM edge WHERE tenant = %(tenant)s AND deleted_by IS NULL
UNION SELECT {far_top} FROM edge WHERE tenant = %(tenant)s AND deleted_by IS NULL
UNION SELECT guid FROM propagated WHERE tenant = %(tenant)s
LIMIT %(most)s
"""
HOPS = """
INSERT INTO hop
SELECT e.{near}, e.{far}, e.id, e.type, b.stops
  FROM region r
 CROSS JOIN LATERAL (
   SELECT l.{near}, l.{far}, l.id, l.type FROM live_edge l
    WHERE l.tenant = %(tenant)s AND l.{far} = r.guid
      AND (l.type <> ALL(%(still)s) OR l.type = ANY(%(kinds)s)) OFFSET 0) e
  LEFT JOIN LATERAL (
   SELECT array_agg(b.name) AS stops FROM block b
    WHERE b.tenant = %(tenant)s AND b.edge = e.id AND NOT b.lifted) b ON true
"""
# Node by node: the planner knows nothing of temporary tables, and would read the whole estate.
_NODES = """
  (SELECT guid FROM region
   UNION SELECT h.near FROM hop h) node
 CROSS JOIN LATERAL (
   SELECT * FROM asset x WHERE x.tenant = %(tenant)s AND x.guid = node.guid
      AND x.deleted_by IS NULL AND x.archived_at IS NULL OFFSET 0) a
"""
_FROM = """
       (c.root_types IS NULL OR a.asset_type = ANY(c.root_types))
   AND (c.root_sources IS NULL OR a.data_source = ANY(c.root_sources))
   AND (c.root_under IS NULL OR starts_with(a.qualified_name, c.root_under))
"""
OWN = """
WITH mine AS MATERIALIZED (
  SELECT a.guid, a.layers, a.asset_type, a.data_source, a.qualified_name, own.name
    FROM {nodes} CROSS JOIN LATERAL unnest({own}) AS own (name)
   WHERE %(names)s::text[] IS NULL OR own.name = ANY(%(names)s))
INSERT INTO reach
SELECT c.n, a.name, coalesce(md5(x.value), ''), a.guid, coalesce(x.value, ''), a.guid, 0, NULL
  FROM mine a
  JOIN carry c ON c.field = '{field}' AND (c.name IS NULL OR c.name = a.name) AND {from_}
  LEFT JOIN tag_assignment x ON (a.layers & 4) > 0 AND x.tenant = %(tenant)s AND x.guid = a.guid
   AND x.kind = '{field}' AND x.tag = a.name AND x.state = 'active' AND x.value <> ''
    ON CONFLICT DO NOTHING
"""
# Of what lineage has brought nothing to, the columns are the own values. A rule that always applies
# starts from whom it names, and from what a person said.
VALUES = """
INSERT INTO reach
SELECT c.n, '', '', a.guid, {text}, a.guid, 0, NULL
  FROM {nodes}
  JOIN carry c ON c.field = %(field)s AND NOT c.computed
   AND (({from_}) OR c.always AND a.edited ? c.field)
 WHERE (a.layers & 8) = 0 AND {text} NOT IN ('', '""', 'null')
    ON CONFLICT DO NOTHING
"""
# The columns of these may show what lineage brought.
BROUGHT = """
SELECT a.guid, a.lane, a.qualified_name, array_agg(c.n)
  FROM {nodes}
  JOIN carry c ON c.field NOT IN ('tag', 'term') AND NOT c.computed
   AND (({from_}) OR c.always AND a.edited ? c.field)
 WHERE (a.layers & 8) > 0
 GROUP BY a.guid, a.lane, a.qualified_name
"""
# Where plug-ins are asked.
COMPUTED = """
SELECT a.guid, a.lane, a.qualified_name, array_agg(c.n)
  FROM {nodes}
  JOIN carry c ON c.computed AND {from_}
 GROUP BY a.guid, a.lane, a.qualified_name
"""
SEED = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS seed (n int, guid uuid, value text) ON COMMIT DELETE ROWS",
    "COPY seed FROM STDIN",
    "INSERT INTO reach SELECT n, '', '', guid, value, guid, 0, NULL FROM seed"
    " ON CONFLICT DO NOTHING",
    "TRUNCATE seed",
)
# What stands at the edge of the region came the nearest way already.
NEIGHBOURS = """
INSERT INTO reach
SELECT c.n, p.name,
       CASE WHEN p.field IN ('tag', 'term') AND p.value <> '' THEN md5(p.value) ELSE '' END,
       p.guid, p.value, p.root, p.depth, p.via
  FROM (SELECT DISTINCT h.near FROM hop h
         WHERE NOT EXISTS (SELECT FROM region g WHERE g.guid = h.near)) o
 CROSS JOIN LATERAL (
   SELECT * FROM propagated x WHERE x.tenant = %(tenant)s AND x.guid = o.near OFFSET 0) p
  JOIN carry c ON c.field = p.field AND (c.name IS NULL OR c.name = p.name)
   AND c.rule IS NOT DISTINCT FROM p.rule
 WHERE %(names)s::text[] IS NULL OR coalesce(nullif(p.name, ''), p.field) = ANY(%(names)s)
    ON CONFLICT DO NOTHING
"""
LEVEL = """
INSERT INTO reach
SELECT DISTINCT ON (r.n, r.name, r.slot, h.far)
       r.n, r.name, r.slot, h.far, r.value, r.root, r.depth + 1, h.id
  FROM reach r JOIN hop h ON h.near = r.guid JOIN carry c ON c.n = r.n
 WHERE r.depth = %(level)s AND r.depth < c.max_depth
   AND CASE WHEN c.kinds IS NULL THEN h.type <> ALL(%(still)s) ELSE h.type = ANY(c.kinds) END
   AND (h.stops IS NULL OR coalesce(nullif(r.name, ''), c.field) <> ALL(h.stops))
   AND (c.to_types IS NULL AND c.to_sources IS NULL AND c.to_under IS NULL OR EXISTS (
     SELECT FROM asset a WHERE a.tenant = %(tenant)s AND a.guid = h.far
        AND (c.to_types IS NULL OR a.asset_type = ANY(c.to_types))
        AND (c.to_sources IS NULL OR a.data_source = ANY(c.to_sources))
        AND (c.to_under IS NULL OR starts_with(a.qualified_name, c.to_under))))
   AND NOT EXISTS (SELECT FROM reach t
     WHERE t.n = r.n AND t.name = r.name AND t.slot = r.slot AND t.guid = h.far)
 ORDER BY r.n, r.name, r.slot, h.far, r.root, h.id
    ON CONFLICT DO NOTHING
"""
# Ways that end only because they are the longest that are walked.
CUT = """
SELECT count(DISTINCT h.far)
  FROM reach r JOIN hop h ON h.near = r.guid
 WHERE r.depth = %(deepest)s AND NOT EXISTS (SELECT FROM reach t
     WHERE t.n = r.n AND t.name = r.name AND t.slot = r.slot AND t.guid = h.far)
"""
SEEDED = "SELECT count(*), coalesce(max(depth), -1) FROM reach"
# What a deleted asset had stays as it is: seen again, it is protected at once.
DIFFERENCE = """
WITH wanted AS (
  SELECT r.guid, c.field, r.name, r.value, r.root, r.depth, r.via, c.rule,
         coalesce(c.rule, '00000000-0000-0000-0000-000000000000') AS key
    FROM reach r JOIN carry c ON c.n = r.n
   WHERE r.depth > 0 AND EXISTS (SELECT FROM region g WHERE g.guid = r.guid)
), stored AS (
  SELECT p.*, coalesce(p.rule, '00000000-0000-0000-0000-000000000000') AS key
    FROM region g CROSS JOIN LATERAL (
      SELECT * FROM propagated x WHERE x.tenant = %(tenant)s AND x.guid = g.guid OFFSET 0) p
   WHERE (%(names)s::text[] IS NULL OR coalesce(nullif(p.name, ''), p.field) = ANY(%(names)s))
     AND CASE WHEN p.rule IS NULL THEN %(own)s ELSE {mine} END
     AND EXISTS (SELECT FROM asset a WHERE a.tenant = %(tenant)s AND a.guid = p.guid
                    AND a.deleted_by IS NULL AND a.archived_at IS NULL
                    AND (a.lane = 'core' OR NOT EXISTS (
                      SELECT FROM asset t WHERE t.tenant = %(tenant)s AND t.guid = a.parent
                         AND t.lane = 'core'
                         AND (t.deleted_by IS NOT NULL OR t.archived_at IS NOT NULL))))
)
SELECT coalesce(w.guid, s.guid), coalesce(w.field, s.field), coalesce(w.name, s.name),
       coalesce(w.value, s.value), coalesce(w.root, s.root), coalesce(w.depth, s.depth),
       coalesce(w.via, s.via), coalesce(w.rule, s.rule),
       CASE WHEN w.guid IS NULL THEN 'gone' WHEN s.guid IS NULL THEN 'new' ELSE 'moved' END
  FROM wanted w FULL JOIN stored s
    ON s.guid = w.guid AND s.field = w.field AND s.name = w.name AND s.value = w.value
   AND s.key = w.key
 WHERE w.guid IS NULL OR s.guid IS NULL OR (w.root, w.depth, w.via) <> (s.root, s.depth, s.via)
 ORDER BY 1
"""

WAYS: dict[Direction, dict[str, str]] = {
    "downstream": {"near": "upstream", "far": "downstream", "near_top": "up_top",
                   "far_top": "down_top", "mine": "NOT p.rule = ANY(%(others)s)"},
    "upstream": {"near": "downstream", "far": "upstream", "near_top": "down_top",
                 "far_top": "up_top", "mine": "p.rule = ANY(%(others)s)"},
}  # fmt: skip

DIRECTIONS: tuple[Direction, ...] = ("downstream", "upstream")
MANY = 2_000  # from here on the planner is told how many rows there are,
GROWN = 4  # and again when they are so many times as many
Change = Literal["new", "moved", "gone"]


class Difference(msgspec.Struct, frozen=True):
    """One row of `propagated` as it should be; of one that should not be, as it is."""

    guid: UUID
    field: str
    name: str
    value: str
    root: UUID
    depth: int
    via: UUID
    rule: UUID | None
    change: Change


class Scope(msgspec.Struct, frozen=True):
    """What has to be looked at again: behind these assets, or everything; these names, or all."""

    starts: tuple[UUID, ...] = ()
    up_starts: tuple[UUID, ...] = ()  # for what travels upstream
    whole: bool = False
    names: frozenset[str] | None = None


class Plan(msgspec.Struct):
    """How the store differs from what should be. `size` is how many assets were looked at."""

    differences: list[Difference]
    size: int = 0
    cut: int = 0  # assets that a longer way would have reached
    guids: frozenset[UUID] = frozenset()  # of a small region: all of it


class TooLarge(Exception):
    """The region has more assets than one transaction should change."""


class Own(Protocol):
    """What assets, by guid, lane and name, have of their own: whatever lineage brought there."""

    def values(
        self, wanted: Sequence[tuple[UUID, Any, str]], fields: Collection[str]
    ) -> Mapping[UUID, Mapping[str, str]]:
        """What sources and persons say of fields."""

    def computed(
        self, wanted: Sequence[tuple[UUID, Any, str]], carriers: Sequence[Carrier]
    ) -> Mapping[UUID, Sequence[str | None]]:
        """What plug-ins make of all that, for each carrier."""


def plan(
    conn: psycopg.Connection,
    tenant: int,
    scope: Scope,
    found: Sequence[Carrier],
    own: Own,
    most: int | None = None,
) -> Plan:
    """Compare what should be with what is, in this transaction. Raises TooLarge beyond `most`."""
    others = sorted({c.rule for c in of_direction(found, "upstream") if c.rule}, key=str)
    for statement in (*TABLES, CARRY.make, SEED.make):
        conn.execute(statement)
    whole = Plan([])
    guids: set[UUID] = set()
    for direction in DIRECTIONS:
        carriers = in_scope(of_direction(found, direction), scope.names)
        if direction == "upstream" and not others:
            continue
        if direction == "upstream":
            _empty(conn)
        try:
            made = _Way(conn, tenant, scope, direction, carriers, others).plan(own, most)
        except TooLarge:
            _empty(conn)  # this transaction may plan something smaller
            raise
        whole.differences += made.differences
        whole.size += made.size
        whole.cut += made.cut
        guids |= made.guids
    whole.guids = frozenset(guids)
    return whole


def _empty(conn: psycopg.Connection) -> None:
    for statement in EMPTY:
        conn.execute(statement)


class _Way:
    """One direction."""

    def __init__(
        self,
        conn: psycopg.Connection,
        tenant: int,
        scope: Scope,
        direction: Direction,
        carriers: Sequence[Carrier],
        others: Sequence[UUID],
    ) -> None:
        self._conn = conn
        self._scope = scope
        self._carriers = carriers
        self._words = {**WAYS[direction], "nodes": _NODES, "from_": _FROM}
        self._values: dict[str, Any] = {
            "tenant": tenant,
            "starts": list(scope.starts if direction == "downstream" else scope.up_starts),
            "names": sorted(scope.names) if scope.names is not None else None,
            "still": STILL,
            "kinds": sorted({kind for c in carriers for kind in c.kinds or ()}),
            "others": list(others),
            "own": direction == "downstream",
        }

    def plan(self, own: Own, most: int | None) -> Plan:
        size = self._run(WHOLE if self._scope.whole else REGION, most=most and most + 1)
        if most is not None and size > most:
            raise TooLarge
        if size > MANY:
            self._conn.execute("ANALYZE region")
        through(self._conn, CARRY, list(enumerate(self._carriers)), _row)
        if self._carriers and self._run(HOPS) > MANY:
            self._conn.execute("ANALYZE hop")
        self._seed(own)
        self._walk()
        cut = self._ask(CUT, deepest=DEEPEST)[0][0]
        rows = self._ask(DIFFERENCE)
        guids: frozenset[UUID] = frozenset()
        if most is not None:
            guids = frozenset(guid for (guid,) in self._ask("SELECT guid FROM region"))
        return Plan([Difference(*row) for row in rows], size, cut, guids)

    def _seed(self, own: Own) -> None:
        fields = {each.field for each in self._carriers if not each.plugin}
        if "tag" in fields:
            self._run(OWN, field="tag", own="coalesce(a.own_tags, a.tags)")
        if "term" in fields:
            self._run(OWN, field="term", own="coalesce(a.own_terms, a.business_terms)")
        derived = fields.difference(SETS)
        for field in sorted(derived):
            text = f"a.{field}" if field in COLUMNS else "(a.metadata -> %(key)s)::text"
            self._run(VALUES, field=field, text=text, key=field.removeprefix("metadata."))
        if derived:
            self._seed_brought(derived, own)
        if any(each.plugin for each in self._carriers):
            self._seed_computed(own)
        self._run(NEIGHBOURS)

    def _seed_computed(self, own: Own) -> None:
        """What plug-ins make of the assets that their rules start from."""
        rows = self._ask(COMPUTED)
        seeds = []
        for start in range(0, len(rows), MANY):
            chunk = rows[start : start + MANY]
            made = own.computed([row[:3] for row in chunk], self._carriers)
            seeds += [
                (n, guid, value)
                for guid, _, _, numbers in chunk
                for n in numbers
                if (value := made[guid][n])
            ]
        through(self._conn, SEED, seeds, lambda seed: seed)

    def _seed_brought(self, fields: Collection[str], own: Own) -> None:
        """Of what lineage has brought something to, only sources and persons say what is own."""
        rows = self._ask(BROUGHT)
        if not rows:
            return
        said = own.values([(guid, lane, name) for guid, lane, name, _ in rows], fields)
        seeds = [
            (n, guid, value)
            for guid, _, _, numbers in rows
            for n in numbers
            if (value := said[guid].get(self._carriers[n].field))
        ]
        through(self._conn, SEED, seeds, lambda seed: seed)

    def _walk(self) -> None:
        level, known = 0, MANY // GROWN
        [(size, farthest)] = self._ask(SEEDED)
        while level <= farthest:
            if size > known * GROWN:
                self._conn.execute("ANALYZE reach")
                known = size
            if made := self._run(LEVEL, level=level):
                farthest = max(farthest, level + 1)
                size += made
            level += 1

    def _run(self, statement: str, **more: Any) -> int:
        return self._execute(statement, more).rowcount

    def _ask(self, statement: str, **more: Any) -> list[Any]:
        return self._execute(statement, more).fetchall()

    def _execute(self, statement: str, more: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        """Words of our own go into the text, values of others are bound."""
        text = statement.format_map({**self._words, **more})
        return self._conn.execute(text, {**self._values, **more}, prepare=False)


COLUMNS = ("asset_owner", "description")


def _row(numbered: tuple[int, Carrier]) -> Sequence[Any]:
    n, each = numbered
    return (
        n, each.field, each.name, each.rule, each.kinds, each.max_depth, each.always,
        bool(each.plugin), *_parts(each.roots), *_parts(each.receivers),
    )  # fmt: skip


def _parts(wanted: Filter) -> tuple[Any, Any, Any]:
    return wanted.asset_type or None, wanted.data_source or None, wanted.under or None
