"""Differences become rows, versions and facts, in the caller's transaction.

Tags alone change most of the time: then only a few columns of the asset are written, set-based. An
asset of which more is known than one source's words is folded whole, as by any other change.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.assets import words
from lily.assets.change import Context, Known, changes, settle, view_of
from lily.assets.labels import origins
from lily.assets.model import ASSIGNMENTS, MORE_SOURCES, PROPAGATED, Asset, Propagated, View
from lily.events.chain import forge
from lily.events.facts import Fact
from lily.lineage.stirred import BY
from lily.lineage.travel import SETS
from lily.store import assets, feed
from lily.store.copying import Stage, by_key, through
from lily.store.outcome import write_links
from lily.store.propagation_plan import Difference
from lily.telemetry import PROPAGATED as PROPAGATED_ASSETS
from lily.types import Lane

STEP = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS step (guid uuid, field text, name text, value text,"
    " root uuid, depth int, via uuid, rule uuid, change text) ON COMMIT DELETE ROWS",
    "COPY step FROM STDIN",
    "SELECT 1",  # all of it stays until it is used
    "SELECT 1",
)
REMOVE = """
DELETE FROM propagated WHERE tenant = %(tenant)s AND ctid = ANY (ARRAY(
  SELECT p.ctid FROM step s CROSS JOIN LATERAL (
    SELECT x.ctid FROM propagated x
     WHERE x.tenant = %(tenant)s AND x.guid = s.guid AND x.field = s.field AND x.name = s.name
       AND md5(x.value) = md5(s.value) AND x.rule IS NOT DISTINCT FROM s.rule OFFSET 0) p
   WHERE s.change = 'gone'))
"""
STORE = """
INSERT INTO propagated (tenant, guid, field, name, value, root, depth, via, rule)
SELECT %(tenant)s, s.guid, s.field, s.name, s.value, s.root, s.depth, s.via, s.rule
  FROM step s WHERE s.change <> 'gone'
    ON CONFLICT (tenant, guid, field, name, md5(value), rule)
    DO UPDATE SET root = excluded.root, depth = excluded.depth, via = excluded.via
"""
LOCK = """
SELECT guid, lane, qualified_name, caller_id, asset_type, tags, own_tags, layers, version
  FROM asset WHERE tenant = %s AND lane = %s AND guid = ANY(%s) ORDER BY guid FOR UPDATE
"""
SHOWN = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS shown (guid uuid, lane text, tags text[], own_tags text[],"
    " layers smallint, version int, feed_position bigint, cause text, at timestamptz,"
    " lost text[], gained tsvector) ON COMMIT DELETE ROWS",
    "COPY shown FROM STDIN",
    "UPDATE asset a SET tags = s.tags, own_tags = s.own_tags, layers = s.layers,"
    " version = s.version, updated_at = s.at, feed_position = s.feed_position, cause = s.cause,"
    " search = ts_delete(a.search, s.lost) || s.gained"
    " FROM shown s WHERE a.tenant = (SELECT (lily.tenants())[1])"
    " AND a.guid = s.guid AND a.lane = s.lane",
    "TRUNCATE shown",
)
LANES: tuple[Lane, ...] = ("core", "fields")


class Cause(msgspec.Struct, frozen=True):
    """The change that started it."""

    cause: str
    traceparent: str = ""


Causes = Callable[[Sequence[Difference]], Cause]


class _Row(msgspec.Struct):
    """What a change of tags needs to know of an asset, and what becomes of it."""

    guid: UUID
    lane: Lane
    qualified_name: str
    caller_id: str | None
    asset_type: str
    tags: list[str]
    own_tags: list[str] | None
    layers: int
    version: int


class _Changed(msgspec.Struct):
    row: _Row
    tags: list[str]
    own_tags: list[str] | None
    layers: int
    fact: Fact


def apply(
    conn: psycopg.Connection,
    tenant: int,
    differences: Sequence[Difference],
    causes: Causes,
    context: Context,
    more: Callable[[], Sequence[Fact]] = list,
) -> int:
    """Make it so, once a transaction, which sees this tenant alone; how many show something new.

    `more` tells what else the transaction did; it is asked when the feed is about to be written.
    """
    by_guid: dict[UUID, list[Difference]] = defaultdict(list)
    for each in differences:
        if each.change != "moved":
            by_guid[each.guid].append(each)
    rows = _lock(conn, tenant, by_guid)
    _store(conn, tenant, differences)
    arrived = _arrived(conn, tenant, by_guid)
    simple: list[_Row] = []
    rest: list[_Row] = []
    for row in rows:
        if not _shows(by_guid[row.guid], arrived[row.guid]):
            continue
        plain = not row.layers & (MORE_SOURCES | ASSIGNMENTS)
        tags_alone = all(d.field == "tag" for d in by_guid[row.guid])
        (simple if plain and tags_alone else rest).append(row)
    changed = [_retagged(row, arrived[row.guid], context) for row in simple]
    folded = _folded(conn, tenant, rest, arrived, context)
    facts = [_signed(each.fact, causes(by_guid[each.row.guid])) for each in changed]
    facts += [_signed(fact, causes(by_guid[known.guid])) for known, told in folded for fact in told]
    facts += more()
    if facts:
        _write(conn, tenant, changed, [known for known, _ in folded], facts, context.now)
    PROPAGATED_ASSETS.inc(len(changed) + len(folded))
    return len(changed) + len(folded)


def _lock(conn: psycopg.Connection, tenant: int, guids: Collection[UUID]) -> list[_Row]:
    """Everybody locks assets in this order."""
    if not guids:
        return []
    wanted = sorted(guids)
    return [
        _Row(*row)
        for lane in LANES
        for row in conn.execute(LOCK, [tenant, lane, wanted]).fetchall()
    ]


def _store(conn: psycopg.Connection, tenant: int, differences: Sequence[Difference]) -> None:
    if not differences:
        return
    through(conn, STEP, differences, msgspec.structs.astuple)
    if any(each.change == "gone" for each in differences):
        conn.execute(REMOVE, {"tenant": tenant})
    if any(each.change != "gone" for each in differences):
        conn.execute(STORE, {"tenant": tenant})


def _arrived(
    conn: psycopg.Connection, tenant: int, guids: Collection[UUID]
) -> Mapping[UUID, list[Propagated]]:
    found: dict[UUID, list[Propagated]] = defaultdict(list)
    if guids:
        for _, guid, *rest in conn.execute(assets.BROUGHT, [[tenant], list(guids)]):
            found[guid].append(Propagated(*rest))
    return found


def _shows(differences: Sequence[Difference], arrived: Sequence[Propagated]) -> bool:
    """Whether a label came or went: another rule may bring the same one."""
    new = {(d.field, d.name, d.value, d.rule) for d in differences if d.change == "new"}
    before = {(a.field, a.name) for a in arrived if (a.field, a.name, a.value, a.rule) not in new}
    return any(d.field not in SETS or (d.field, d.name) not in before for d in differences)


def _retagged(row: _Row, arrived: Sequence[Propagated], context: Context) -> _Changed:
    """The tags of an asset that one source alone speaks of."""
    own = row.tags if row.own_tags is None else row.own_tags
    brought = [each.name for each in arrived if each.field == "tag"]
    tags = context.fold_tags(context.groups, [own], (), brought)
    kept = None if tags == own else own
    layers = row.layers | PROPAGATED if arrived else row.layers & ~PROPAGATED
    fact = Fact(
        kind="TagsChanged", at=context.now, by=BY, cause="", guid=row.guid,
        asset_id=row.caller_id or str(row.guid), qualified_name=row.qualified_name,
        asset_type=row.asset_type, version=row.version + 1,
        before=_tags(row.tags, row.own_tags),
        after={**_tags(tags, kept), "propagated": origins(arrived)},
    )  # fmt: skip
    return _Changed(row, tags, kept, layers, fact)


def _tags(tags: list[str], own: list[str] | None) -> dict[str, Any]:
    return {"tags": tags} if own is None else {"tags": tags, "own": own}


def _folded(
    conn: psycopg.Connection,
    tenant: int,
    rows: Sequence[_Row],
    arrived: Mapping[UUID, list[Propagated]],
    context: Context,
) -> list[tuple[Known, list[Fact]]]:
    """Assets of which more is known: sources, persons and lineage together."""
    loaded = assets.load(conn, {(tenant, r.guid): (r.lane, r.qualified_name) for r in rows})
    found = []
    for known in loaded.values():
        before = known.asset
        if before is None:
            continue
        known.propagated = list(arrived[known.guid])
        after = known.asset = msgspec.structs.replace(before)
        view = view_of(known, context)
        for name in View.__struct_fields__:
            if name != "created_at":
                setattr(after, name, getattr(view, name))
        settle(known, context)
        facts = changes(before, after, BY, "", context.now) or [_untold(after, context.now)]
        for each in facts:
            each.after = {**(each.after or {}), "propagated": origins(known.propagated)}
            each.version = before.version + 1
        after.version += 1
        after.updated_at = context.now
        found.append((known, facts))
    return found


def _untold(asset: Asset, now: datetime) -> Fact:
    """What arrives under a stronger word does not show, but it counts for protection."""
    told = _tags(asset.tags, asset.own_tags)
    return Fact(
        kind="TagsChanged", at=now, by=BY, cause="", guid=asset.guid, asset_id=asset.asset_id,
        qualified_name=asset.qualified_name, asset_type=asset.asset_type, before=told, after=told,
    )  # fmt: skip


def _signed(fact: Fact, cause: Cause) -> Fact:
    fact.cause, fact.traceparent = cause.cause, cause.traceparent
    return fact


def _write(
    conn: psycopg.Connection,
    tenant: int,
    changed: Sequence[_Changed],
    folded: Sequence[Known],
    facts: Sequence[Fact],
    now: datetime,
) -> None:
    """Rows and facts; from here on the tenant's other writers wait."""
    position, previous = feed.take_head(conn, tenant)
    links = forge(tenant, position, previous, facts)
    places = {link.guid: link.position for link in links if link.guid is not None}
    told = {fact.guid: fact.cause for fact in facts if fact.guid is not None}
    if changed:
        by_key(conn, local=True)
        through(conn, SHOWN, changed, lambda each: _shown(each, places, now))
    if folded:
        whole = [known.asset for known in folded if known.asset is not None]
        for asset in whole:
            asset.feed_position, asset.cause = places[asset.guid], told[asset.guid]
        assets.save(conn, whole)
    write_links(conn, links)


def _shown(each: _Changed, places: Mapping[UUID, int], now: datetime) -> Sequence[Any]:
    row = each.row
    lost = [words.facet("tag", tag) for tag in row.tags if tag not in each.tags]
    gained = " ".join(
        words.quoted(words.facet("tag", tag)) for tag in each.tags if tag not in row.tags
    )
    return (
        row.guid, row.lane, each.tags, each.own_tags, each.layers, each.fact.version,
        places[row.guid], each.fact.cause, now, lost, gained,
    )  # fmt: skip
