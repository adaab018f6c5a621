"""Edges, and who claims them: one word of a source meets what is known of its edge.

A claim is one register per edge and source, won by the latest (observed_at, log offset); so
arrival order does not matter. An edge lives while a claim on it lives; a person's newest word,
for or against it, stands above all sources.
"""

from datetime import datetime
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

import msgspec

from lily.clock import from_micros, micros
from lily.events.facts import Fact, FactKind
from lily.events.lineage import EdgeObservation
from lily.lineage.labels import turned

Level = Literal["table", "column"]
When = tuple[int, int]  # microseconds of observed_at, log offset

PERSON = "person"
PLACEHOLDER = "placeholder"
JOB = "job:"  # sources that state all their edges at once
CLAIMED = 1  # layers: all claims live in edge_claim

_STATED = ("process", "transformation", "masking", "properties")
_COMPARED = ("process", "transformation", "masking", "properties", "origin")


class Edge(msgspec.Struct):
    """The columns of table edge, in their order."""

    tenant: int
    id: UUID
    upstream: UUID
    downstream: UUID
    type: str
    level: Level
    up_top: UUID
    down_top: UUID
    implies: UUID | None
    process: str | None
    transformation: str | None
    masking: bool
    origin: str
    properties: dict[str, Any] | None
    source: str
    observed_at: datetime
    log_offset: int
    layers: int
    version: int
    deleted_by: str | None
    deleted_at: datetime | None
    created_at: datetime
    updated_at: datetime
    cause: str
    feed_position: int


COLUMNS = Edge.__struct_fields__


class Ends(msgspec.Struct, frozen=True):
    """Which edge it is: its id, both ends and their containers."""

    id: UUID
    upstream: UUID
    downstream: UUID
    type: str
    level: Level
    up_top: UUID
    down_top: UUID
    implies: UUID | None


class Claim(msgspec.Struct):
    """What one source last said of an edge."""

    source: str
    when: When
    gone: bool = False
    stated: dict[str, Any] = {}


class Word(msgspec.Struct, frozen=True):
    """One source's word on one edge, on its way in; `stated` of none is: gone."""

    source: str
    by: str
    cause: str
    when: When
    stated: dict[str, Any] | None
    traceparent: str = ""


class EdgeMessage(msgspec.Struct, frozen=True):
    """An observation of edges on its way in, with who claims it and where it stands in the log."""

    seen: EdgeObservation
    source: str
    by: str
    cause: str
    when: When
    traceparent: str = ""


class Known(msgspec.Struct):
    """All that is stored of one edge, and what of it has to be written back."""

    tenant: int
    ends: Ends
    edge: Edge | None = None
    claims: dict[str, Claim] = {}
    touched: bool = False
    touched_claims: set[str] = set()
    fresh: bool = False  # the row has to be made


def name_of(upstream: UUID | str, downstream: UUID | str, label: str) -> str:
    """What an edge's id is made of: a UUIDv5 of it under the tenant's id."""
    return f"edge:{upstream}:{downstream}:{label}"


def stated(
    process: str | None,
    transformation: str | None,
    masking: bool | None,
    properties: dict[str, Any] | None,
) -> dict[str, Any]:
    """What a statement says, as it is kept: nothing said, nothing kept."""
    said: dict[str, Any] = {}
    if process:
        said["process"] = process
    if transformation:
        said["transformation"] = transformation
    if masking:
        said["masking"] = masking
    if properties:
        said["properties"] = properties
    return said


def first_claim(edge: Edge) -> Claim:
    """The claim that lives in the edge's own row."""
    said = stated(edge.process, edge.transformation, edge.masking, edge.properties)
    when = (micros(edge.observed_at), edge.log_offset)
    return Claim(edge.source, when, edge.deleted_by is not None, said)


def take(known: Known, word: Word, now: datetime) -> list[Fact]:
    """Apply one word. Nothing changed means no version and no fact."""
    if known.edge is None and not known.claims and word.stated is not None:
        return _first_seen(known, word, word.stated, now)
    if known.edge is not None and not known.claims:
        known.claims[known.edge.source] = first_claim(known.edge)
    before = known.claims.get(word.source)
    if before is not None and word.when <= before.when:
        return []
    claim = Claim(word.source, word.when, word.stated is None, word.stated or {})
    if claim.gone and before is not None:
        claim.stated = before.stated  # what it was stays readable
    known.claims[word.source] = claim
    known.touched_claims.add(word.source)
    if known.edge is None and all(each.gone for each in known.claims.values()):
        return []  # gone before it was ever seen: remembered, but there is nothing to show
    known.touched = True
    return _reshow(known, word, now)


def _first_seen(known: Known, word: Word, said: dict[str, Any], now: datetime) -> list[Fact]:
    """Nobody ever spoke of it: its row follows from the one word."""
    ends, source = known.ends, word.source
    by_person = source == PERSON
    known.claims[source] = Claim(source, word.when, False, said)
    known.touched_claims.add(source)
    known.touched = known.fresh = True
    edge = known.edge = Edge(
        known.tenant, ends.id, ends.upstream, ends.downstream, ends.type, ends.level, ends.up_top,
        ends.down_top, ends.implies, said.get("process"), said.get("transformation"),
        "masking" in said, PERSON if by_person else "source", said.get("properties"), source,
        _moment(word.when[0]), word.when[1], CLAIMED if by_person else 0, 1, None, None, now, now,
        word.cause, 0,
    )  # fmt: skip
    return [fact("EdgeCreated", edge, word, now, None, whole(edge, said))]


_moment = lru_cache(maxsize=1024)(from_micros)  # what came together has one time


def _reshow(known: Known, word: Word, now: datetime) -> list[Fact]:
    before = known.edge
    after = _shown(known, word, now)
    known.edge = after
    if before is None:
        known.fresh = True
        said = stated(after.process, after.transformation, after.masking, after.properties)
        return [fact("EdgeCreated", after, word, now, None, whole(after, said))]
    facts = changes(before, after, word, now)
    if facts:
        after.version += 1
        after.updated_at, after.cause = now, word.cause
        for each in facts:
            each.version = after.version
    return facts


def _shown(known: Known, word: Word, now: datetime) -> Edge:
    ranked = rank(known.claims.values())
    top, ends, before = ranked[0], known.ends, known.edge
    said = {name: _first(name, ranked) for name in _STATED}
    said["masking"] = top.stated.get("masking")  # an older word for it protects nothing now
    deleted_by = (PERSON if top.source == PERSON else "source") if top.gone else None
    more = len(known.claims) > 1 or top.source == PERSON
    deleted_at = None
    if deleted_by:
        deleted_at = before.deleted_at if before and before.deleted_at else now
    return Edge(
        known.tenant, ends.id, ends.upstream, ends.downstream, ends.type, ends.level, ends.up_top,
        ends.down_top, ends.implies, said["process"], said["transformation"],
        bool(said["masking"]), PERSON if top.source == PERSON else "source", said["properties"],
        top.source, from_micros(top.when[0]), top.when[1], CLAIMED if more else 0,
        before.version if before else 1, deleted_by, deleted_at,
        before.created_at if before else now, before.updated_at if before else now,
        before.cause if before else word.cause, before.feed_position if before else 0,
    )  # fmt: skip


def rank(claims: Any) -> list[Claim]:
    """The claims that count, strongest first: a person's, then the living, the newest first."""
    ranked: list[Claim] = sorted(claims, key=lambda c: (c.when, c.source), reverse=True)
    if any(not c.gone for c in ranked):
        ranked = [c for c in ranked if not c.gone or c.source == PERSON]
    return sorted(ranked, key=lambda c: c.source != PERSON)


def _first(name: str, ranked: list[Claim]) -> Any:
    return next((c.stated[name] for c in ranked if c.stated.get(name) is not None), None)


def changes(before: Edge, after: Edge, word: Word, now: datetime) -> list[Fact]:
    """The facts that lead from one state of an edge to another; none if nothing shows."""
    found: list[Fact] = []
    changed = [n for n in _COMPARED if getattr(before, n) != getattr(after, n)]
    if changed and not (before.deleted_by and after.deleted_by):
        old = {name: getattr(before, name) for name in changed}
        new = {name: getattr(after, name) for name in changed}
        found.append(fact("EdgeChanged", after, word, now, old, new))
    was = {"is_deleted": bool(before.deleted_by)}
    if before.deleted_by:
        was["deleted_by"] = before.deleted_by  # type: ignore[assignment]
    if after.deleted_by and before.deleted_by != after.deleted_by:
        is_now = {"is_deleted": True, "deleted_by": after.deleted_by}
        found.append(fact("EdgeDeleted", after, word, now, was, is_now))
    elif before.deleted_by and not after.deleted_by:
        found.append(fact("EdgeRestored", after, word, now, was, {"is_deleted": False}))
    return found


def fact(
    kind: FactKind,
    edge: Edge,
    word: Word,
    now: datetime,
    before: dict[str, Any] | None,
    after: dict[str, Any],
) -> Fact:
    """A fact of the downstream end: that is where a change of lineage is felt."""
    return Fact(
        kind=kind, at=now, by=word.by, cause=word.cause, guid=edge.downstream,
        asset_id=str(edge.downstream), version=edge.version, before=before,
        after={**named(edge), **after}, traceparent=word.traceparent,
    )  # fmt: skip


def named(edge: Edge) -> dict[str, Any]:
    """Which edge it is, for everybody who reads of it."""
    start, end = turned(edge.type, edge.upstream, edge.downstream)
    return {
        "edge_id": edge.id, "from": start, "to": end, "upstream": edge.upstream,
        "downstream": edge.downstream, "relationship_type": edge.type,
    }  # fmt: skip


def whole(edge: Edge, said: dict[str, Any]) -> dict[str, Any]:
    """All that is to be told of an edge that is new."""
    return {"level": edge.level, "origin": edge.origin, "source": edge.source, **said}
