"""Versions of assets behind a position of the feed, for the archive: facts and rows together.

Fields that came untagged have no fact of their own; they are told in one `FieldsCreated` of their
parent. Their first version is found among the parent's children.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.assets.versions import KINDS, STATE, State, Told, Version, backward, forward
from lily.events.lanes import lane_of

WEIGHT = 20_000
TOGETHER = 20_000  # facts that one transaction may make

NEXT = (
    "SELECT position, kind, at, guid, version, cause, payload FROM fact"
    " WHERE tenant = %s AND position > %s AND position <= %s ORDER BY position LIMIT %s"
)
OF_ASSETS = (
    "SELECT position, kind, at, guid, version, cause, payload FROM fact"
    " WHERE tenant = %s AND guid = ANY(%s) AND position > %s AND kind = ANY(%s) ORDER BY position"
)
_ROW = (
    "guid, lane, version, feed_position, created_at, updated_at, cause, parent, qualified_name,"
    " caller_id, asset_name, asset_type, asset_owner, description, parent::text, data_source,"
    " external_id, tags, business_terms, metadata, details, deleted_by IS NOT NULL,"
    " archived_at IS NOT NULL"
)
ROWS = f"SELECT {_ROW} FROM asset WHERE tenant = %s AND guid = ANY(%s)"
CHILDREN = (
    f"SELECT {_ROW} FROM asset WHERE tenant = %(tenant)s AND lane = 'fields'"
    " AND parent = ANY(%(parents)s) AND ((version = 1 AND feed_position > %(start)s"
    " AND feed_position <= %(end)s) OR (version > 1 AND feed_position > %(start)s))"
)

Knows = Callable[[Sequence[str]], set[str]]  # of which fields the archive has a first version


class Row(msgspec.Struct, frozen=True):
    guid: UUID
    lane: str
    version: int
    position: int
    created_at: datetime
    updated_at: datetime
    cause: str
    parent: UUID | None
    state: tuple[Any, ...]

    def now(self) -> State:
        return dict(zip(STATE, self.state, strict=True))


class _Payload(msgspec.Struct):
    by: str = ""
    qualified_name: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Payload).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def versions_after(
    conn: psycopg.Connection, tenant: int, start: int, head: int, knows: Knows
) -> tuple[list[tuple[Any, ...]], int]:
    """Rows for the archive of the next versions, and the position up to which they go.

    `conn` sees one moment: rows and facts must fit together. A version belongs to the position of
    its last fact; that is the same in every reading, so none is told twice.
    """
    facts, end = _next(conn, tenant, start, head)
    told: dict[UUID, list[Told]] = defaultdict(list)
    created: list[tuple[UUID, Told]] = []
    for guid, fact in facts:
        if fact.kind == "FieldsCreated" and guid is not None:
            created.append((guid, fact))
        elif guid is not None and fact.kind in KINDS:
            told[guid].append(fact)
    made = _told(conn, tenant, told, start, end)
    made += _quiet(conn, tenant, created, start, end, knows)
    made.sort(key=lambda each: each[1].position)
    return [_archived(tenant, *each) for each in made], end


def _next(
    conn: psycopg.Connection, tenant: int, start: int, head: int
) -> tuple[list[tuple[UUID | None, Told]], int]:
    """The next facts, as many as make a reasonable number of rows.

    Those of one transaction share their time and stay together: a field may have come and changed
    in it, and then its change stands before its coming.
    """
    taken: list[tuple[UUID | None, Told]] = []
    weight = 0
    most = WEIGHT + TOGETHER
    for guid, fact in _facts(conn.execute(NEXT, [tenant, start, head, most])):
        count = fact.after.get("count", 1) if fact.kind == "FieldsCreated" and fact.after else 1
        if taken and weight + count > WEIGHT and fact.at != taken[-1][1].at:
            break
        taken.append((guid, fact))
        weight += count
    if len(taken) == most:
        taken = [each for each in taken if each[1].at != taken[-1][1].at] or taken
    return taken, taken[-1][1].position if taken else head


def _facts(rows: Iterable[Sequence[Any]]) -> Iterable[tuple[UUID | None, Told]]:
    for position, kind, at, guid, version, cause, payload in rows:
        said = _decode(payload) if payload is not None else _Payload()
        yield guid, Told(
            position, kind, at, version, cause, said.by, said.qualified_name, said.before,
            said.after,
        )  # fmt: skip


def _told(
    conn: psycopg.Connection, tenant: int, told: Mapping[UUID, list[Told]], start: int, end: int
) -> list[tuple[UUID, Version]]:
    """Versions that facts tell: undone from the row, or followed to where the row was purged."""
    guids = list(told)
    if not guids:
        return []
    rows = {row.guid: row for row in _rows(conn.execute(ROWS, [tenant, guids]))}
    # What was told up to here is at hand; what came after is little, and often nothing.
    after = _of_assets(conn, tenant, guids, end)
    later = {guid: told[guid] + after.get(guid, []) for guid in guids}
    purged = [g for g in guids if g not in rows or any(_ends(f) for f in later[g])]
    whole = _of_assets(conn, tenant, purged, 0) if purged else {}
    found = []
    for guid in guids:
        row = rows.get(guid)
        versions = forward(whole[guid]) if guid in whole else []
        if row is not None:
            living = _living(later[guid])
            newest = backward(row.now(), living)[0]
            first = living[0].position if living else end + 1
            versions = [v for v in versions if v.position < first] + newest
        found += [(guid, v) for v in versions if start < v.position <= end]
    return found


def _quiet(
    conn: psycopg.Connection,
    tenant: int,
    created: Sequence[tuple[UUID, Told]],
    start: int,
    end: int,
    knows: Knows,
) -> list[tuple[UUID, Version]]:
    """First versions of fields that were told with their siblings between two positions."""
    if not created:
        return []
    parents = list(dict.fromkeys(parent for parent, _ in created))
    values = {"tenant": tenant, "parents": parents, "start": start, "end": end}
    rows = _rows(conn.execute(CHILDREN, values))
    at_position = {fact.position: fact for _, fact in created}
    found, changed = [], []
    for row in rows:
        if row.version > 1:
            changed.append(row)
        elif (fact := at_position.get(row.position)) is not None:
            found.append((row.guid, _first(row.now(), fact, row.cause)))
    return found + _changed_since(conn, tenant, changed, parents, start, end, knows)


def _changed_since(
    conn: psycopg.Connection,
    tenant: int,
    rows: Sequence[Row],
    parents: Sequence[UUID],
    start: int,
    end: int,
    knows: Knows,
) -> list[tuple[UUID, Version]]:
    """Of fields that have changed by now: was their first version told here, or before?

    A field is as old as the fact that told it. If its source gave another date, the archive is
    asked whether it has the first version already.
    """
    if not rows:
        return []
    later = _of_assets(conn, tenant, [row.guid for row in rows], start)
    births = {
        (parent, fact.at): fact
        for parent, facts in _of_assets(conn, tenant, parents, 0, ["FieldsCreated"]).items()
        for fact in facts
    }
    found, dated = [], []
    for row in rows:
        facts = later[row.guid]
        if not facts or facts[0].version != 2 or any(_ends(fact) for fact in facts):
            continue  # told before, or by itself
        fact = births.get((row.parent, row.created_at)) if row.parent else None
        first = backward(row.now(), facts)[1]
        if fact is None:
            if facts[0].position <= end:
                dated.append((row, first, facts[0]))
        elif start < fact.position <= end:
            found.append((row.guid, _first(first, fact, fact.cause)))
    known = knows([str(row.guid) for row, _, _ in dated]) if dated else set()
    found += [
        (row.guid, _first(first, fact, fact.cause))
        for row, first, fact in dated
        if str(row.guid) not in known
    ]
    return found


def _first(state: State, fact: Told, cause: str) -> Version:
    return Version(1, fact.position, fact.at, "AssetCreated", fact.by, cause, state)


def _rows(rows: Iterable[Sequence[Any]]) -> Iterable[Row]:
    for row in rows:
        guid, lane, version, position, created_at, updated_at, cause, parent, *state = row
        yield Row(
            guid, lane, version, position, created_at, updated_at, cause, parent, tuple(state)
        )


def _of_assets(
    conn: psycopg.Connection,
    tenant: int,
    guids: Sequence[UUID],
    start: int,
    kinds: Sequence[str] = KINDS,
) -> dict[UUID, list[Told]]:
    found: dict[UUID, list[Told]] = defaultdict(list)
    rows = conn.execute(OF_ASSETS, [tenant, list(guids), start, list(kinds)])
    for guid, fact in _facts(rows):
        assert guid is not None
        found[guid].append(fact)
    return found


def _ends(fact: Told) -> bool:
    return fact.kind == "AssetPurged"


def _living(facts: Sequence[Told]) -> list[Told]:
    """The facts of the asset that exists now, not of one that was purged under its name."""
    last = max((index for index, fact in enumerate(facts) if _ends(fact)), default=-1)
    return list(facts[last + 1 :])


def _archived(tenant: int, guid: UUID, version: Version) -> tuple[Any, ...]:
    state = version.state
    own = {
        **state,
        "asset_id": state["asset_id"] or str(guid),
        "metadata": _text(state["metadata"] or {}),
        "details": _text(state["details"]) if state["details"] else None,
    }
    return (
        tenant, str(guid), version.version, version.position, version.at, version.kind,
        version.by, version.cause, lane_of(state["qualified_name"] or ""),
        *(own[name] for name in STATE),
    )  # fmt: skip


def _text(value: Any) -> str:
    return _encode(value).decode()
