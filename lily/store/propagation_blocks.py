"""What does not pass an edge: said by persons, and by transformations that hide their input."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.errors import NotFound
from lily.events.facts import Fact, FactKind
from lily.identity.actor import Actor
from lily.lineage.hiding import STOPPED, hides
from lily.lineage.stirred import BY
from lily.store import feed
from lily.store.database import Unit

EDGES = """
SELECT id, upstream, downstream, up_top, down_top, type, implies, transformation, masking, level,
       deleted_by IS NOT NULL
  FROM edge WHERE tenant = %s AND id = ANY(%s)
"""
# All that speak for the edge between two tables.
TOGETHER = """
SELECT e.transformation, e.masking FROM edge e
 WHERE e.tenant = %s AND e.up_top = %s AND e.down_top = %s AND e.type = %s
   AND e.level = 'column' AND e.deleted_by IS NULL
"""
STATED = "SELECT id FROM edge WHERE tenant = %s AND id = ANY(%s) AND deleted_by IS NULL"
KNOWN = (
    "SELECT edge, name, origin, lifted FROM block WHERE tenant = %s AND edge = ANY(%s)"
    " AND name = ANY(%s)"
)
SET = """
INSERT INTO block (tenant, edge, name, origin, by, reason, at)
VALUES (%s, %s, %s, 'rule', %s, %s, %s) ON CONFLICT DO NOTHING
"""
UNSET = "DELETE FROM block WHERE tenant = %s AND edge = %s AND name = %s AND origin = 'rule'"
# Who cannot see both ends does not know the edge.
ENDS = """
SELECT x.upstream, x.downstream
  FROM (SELECT upstream, downstream FROM edge WHERE tenant = %(tenant)s AND id = %(id)s
        UNION ALL
        SELECT up_top, down_top FROM edge WHERE tenant = %(tenant)s AND implies = %(id)s
         LIMIT 1) x
  JOIN asset u ON u.tenant = %(tenant)s AND u.guid = x.upstream
  JOIN asset d ON d.tenant = %(tenant)s AND d.guid = x.downstream
"""
LIST = """
SELECT name, origin, by, reason, at, lifted FROM block
 WHERE tenant = %s AND edge = %s ORDER BY name
"""
PUT = """
INSERT INTO block (tenant, edge, name, origin, by, reason, at, lifted)
VALUES (%(tenant)s, %(edge)s, %(name)s, 'person', %(by)s, %(reason)s, %(at)s, false)
ON CONFLICT (tenant, edge, name) DO UPDATE
   SET origin = 'person', by = excluded.by, reason = excluded.reason, at = excluded.at,
       lifted = false
"""
LIFT = (
    "UPDATE block SET lifted = true, by = %s, at = %s WHERE tenant = %s AND edge = %s AND name = %s"
)
DROP = "DELETE FROM block WHERE tenant = %s AND edge = %s AND name = %s"


class Block(msgspec.Struct, frozen=True):
    name: str
    origin: str
    by: str
    reason: str
    at: datetime
    lifted: bool


class Ends(msgspec.Struct, frozen=True):
    upstream: UUID
    downstream: UUID


# By persons ---------------------------------------------------------------------------------------


def ends(unit: Unit, edge: UUID) -> Ends:
    """Of an edge that somebody stated, or that column edges imply."""
    row = unit.conn.execute(ENDS, {"tenant": unit.tenant.number, "id": edge}).fetchone()
    if row is None:
        raise NotFound("edge", edge)
    return Ends(*row)


def listed(unit: Unit, edge: UUID) -> list[Block]:
    ends(unit, edge)
    rows = unit.conn.execute(LIST, [unit.tenant.number, edge])
    return [Block(*row) for row in rows]


def put(
    unit: Unit, edge: UUID, name: str, reason: str, actor: Actor, now: datetime
) -> tuple[Block, bool]:
    """Stop a name on an edge; whether that is new."""
    between = ends(unit, edge)
    known = {each.name: each for each in listed(unit, edge)}.get(name)
    if known is not None and known.origin == "person" and known.reason == reason:
        return known, False
    values = {"tenant": unit.tenant.number, "edge": edge, "name": name, "by": actor.name,
              "reason": reason, "at": now}  # fmt: skip
    unit.conn.execute(PUT, values)
    made = Block(name, "person", actor.name, reason, now, False)
    feed.record(unit, [_told("BlockCreated", edge, between, made, actor, now)])
    return made, known is None


def lift(unit: Unit, edge: UUID, name: str, actor: Actor, now: datetime) -> None:
    """Let a name pass again; what a rule set is remembered as lifted, so that it stays so."""
    between = ends(unit, edge)
    known = {each.name: each for each in listed(unit, edge)}.get(name)
    if known is None or known.lifted:
        raise NotFound("block", name)
    number = unit.tenant.number
    if known.origin == "rule":
        unit.conn.execute(LIFT, [actor.name, now, number, edge, name])
    else:
        unit.conn.execute(DROP, [number, edge, name])
    feed.record(unit, [_told("BlockDeleted", edge, between, known, actor, now)])


def _told(
    kind: FactKind, edge: UUID, between: Ends, block: Block, actor: Actor, now: datetime
) -> Fact:
    return Fact(
        kind=kind, at=now, by=actor.name, cause=actor.cause, traceparent=actor.traceparent,
        guid=between.downstream, after=_shown(edge, between, block),
    )  # fmt: skip


def _shown(edge: UUID, between: Ends, block: Block) -> dict[str, Any]:
    return {
        "edge_id": edge, "name": block.name, "origin": block.origin, "reason": block.reason,
        "upstream": between.upstream, "downstream": between.downstream,
    }  # fmt: skip


# By transformations -------------------------------------------------------------------------------


class _Edge(msgspec.Struct, frozen=True):
    id: UUID
    upstream: UUID
    downstream: UUID
    up_top: UUID
    down_top: UUID
    type: str
    implies: UUID | None
    transformation: str | None
    masking: bool
    level: str
    deleted: bool


class Looked(msgspec.Struct):
    """What was found of edges that changed: blocks that came or went, and ends of implied ones."""

    facts: list[Fact] = []
    ends: set[tuple[UUID, UUID]] = set()


def automatic(
    conn: psycopg.Connection, tenant: int, changed: Mapping[UUID, str], now: datetime
) -> Looked:
    """Set and take back what transformations stop. `changed` are edges, each with its cause."""
    looked = Looked()
    edges = [_Edge(*row) for row in conn.execute(EDGES, [tenant, list(changed)])]
    wanted: dict[UUID, tuple[str | None, Ends, str]] = {}
    implied: dict[UUID, _Edge] = {}
    for each in edges:
        looked.ends.add((each.upstream, each.downstream))
        looked.ends.add((each.up_top, each.down_top))
        why = hides(each.transformation, each.masking)
        wanted[each.id] = (why, Ends(each.upstream, each.downstream), changed[each.id])
        if each.level == "column" and each.implies is not None:
            implied[each.implies] = each
    stated = {id for (id,) in conn.execute(STATED, [tenant, list(implied)])} if implied else set()
    for id, each in implied.items():
        if id not in stated:
            why = _all_hide(conn, tenant, each)
            wanted[id] = (why, Ends(each.up_top, each.down_top), changed[each.id])
    looked.facts = _settle(conn, tenant, wanted, now)
    return looked


def _all_hide(conn: psycopg.Connection, tenant: int, one: _Edge) -> str | None:
    """A table edge stops what each of its column edges hides."""
    rows = conn.execute(TOGETHER, [tenant, one.up_top, one.down_top, one.type]).fetchall()
    reasons = [hides(transformation, masking) for transformation, masking in rows]
    if reasons and all(reasons):
        return "every column edge hides its input"
    return None


def _settle(
    conn: psycopg.Connection,
    tenant: int,
    wanted: Mapping[UUID, tuple[str | None, Ends, str]],
    now: datetime,
) -> list[Fact]:
    if not wanted:
        return []
    rows = conn.execute(KNOWN, [tenant, list(wanted), list(STOPPED)])
    known = {(edge, name): (origin, lifted) for edge, name, origin, lifted in rows}
    facts = []
    for edge, (why, between, cause) in wanted.items():
        for name in STOPPED:
            origin, lifted = known.get((edge, name), (None, False))
            if why and origin is None:
                conn.execute(SET, [tenant, edge, name, BY, why, now])
                facts.append(_by_rule("BlockCreated", edge, between, name, why, cause, now))
            elif not why and origin == "rule":
                conn.execute(UNSET, [tenant, edge, name])
                if not lifted:
                    why = "the transformation no longer hides its input"
                    facts.append(_by_rule("BlockDeleted", edge, between, name, why, cause, now))
    return facts


def _by_rule(
    kind: FactKind, edge: UUID, between: Ends, name: str, why: str, cause: str, now: datetime
) -> Fact:
    block = Block(name, "rule", BY, why, now, False)
    return Fact(
        kind=kind, at=now, by=BY, cause=cause, guid=between.downstream,
        after=_shown(edge, between, block),
    )  # fmt: skip
