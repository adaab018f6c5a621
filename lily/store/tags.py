"""Who gives an asset its tags and terms, which of them show, and why."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from lily.assets import claims as registers
from lily.assets.change import Assignment, Context, Known
from lily.assets.claims import NEVER
from lily.assets.claims import fields as said_by
from lily.assets.labels import STEWARD
from lily.assets.model import Asset, Propagated
from lily.assets.view import ranked
from lily.store import assets, inheritance
from lily.store.database import Unit
from lily.store.inheritance import Container
from lily.store.paths import path_of
from lily.tags.definitions import Book, Kind
from lily.tags.effective import BUILT_IN, conflicts, inherited

FIELDS: dict[Kind, str] = {"tag": "tags", "term": "business_terms"}


class Given(msgspec.Struct):
    """One label by one origin, and whether it shows."""

    tag: str
    origin: str
    by: str
    at: datetime | None = None
    value: str = ""
    state: str = "active"
    reason: str = ""
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    root: UUID | None = None
    depth: int | None = None
    path: list[UUID] | None = None
    effective: bool = False
    why: str = ""


class Conflicting(msgspec.Struct):
    """Tags of one group that different origins give, and nobody has chosen between."""

    group: str
    tags: list[str]
    shown: str | None


class Labelled(msgspec.Struct):
    effective: list[str]
    protective: list[str]
    conflicts: list[Conflicting]
    assignments: list[Given]


def of(unit: Unit, asset: Asset, kind: Kind, context: Context, book: Book) -> Labelled:
    """Everything there is to tell of an asset's tags, or of its terms."""
    known = assets.known(unit.conn, asset)
    chain = inheritance.above(asset, inheritance.read(unit, [asset]))
    given = [
        *_by_sources(known, kind, context),
        *_by_people(known, kind),
        *(_propagated(unit, asset, each) for each in known.propagated if each.field == kind),
        *_inherited(asset, chain, kind, book),
    ]
    if kind == "tag":
        held = [book.travelling.intersection(each.tags) for each in chain]
        shown = inherited(book.groups, asset.tags, held)
        protective = set(asset.tags).union(
            asset.own, *(book.travelling & each.protective for each in chain)
        )
        steward = [a for a in known.assignments if (a.origin, a.state) == (STEWARD, "active")]
        open_ = conflicts(
            book.groups,
            [each.tag for each in given if each.state == "active" and each.origin != "inherited"],
            [(a.tag, a.settled) for a in steward],
        )
    else:
        handed = {each.tag for each in given if each.origin == "inherited"}
        shown, protective = sorted(handed.union(asset.business_terms)), set()
        steward, open_ = [], []
    for each in given:
        _explain(each, shown, kind, book, steward)
    return Labelled(
        shown,
        sorted(protective),
        [Conflicting(g.name, tags, _first(shown, g.tags)) for g, tags in open_],
        sorted(given, key=lambda each: (each.tag, _ORDER.index(each.origin), each.by)),
    )


_ORDER = ("source", "person", "rule", "propagated", "inherited")


def _by_sources(known: Known, kind: Kind, context: Context) -> Iterable[Given]:
    for claim in ranked(known.claims.values(), context.priority):
        at = None if claim.spoke == NEVER else registers.moment(claim.spoke)
        for tag in sorted(set(said_by(claim).get(FIELDS[kind]) or ())):
            yield Given(tag, "source", claim.source, at)


def _by_people(known: Known, kind: Kind) -> Iterable[Given]:
    for a in known.assignments:
        if a.kind == kind and a.origin != STEWARD:
            yield Given(
                a.tag, a.origin, a.by, a.at, a.value, a.state, a.reason, a.valid_from, a.valid_until
            )
    edited = known.asset.edited if known.asset else None
    if edited and (whole := edited.get(FIELDS[kind])):
        for tag in sorted(set(whole["value"] or ())):
            yield Given(tag, "person", whole["by"], datetime.fromisoformat(whole["at"]))


def _propagated(unit: Unit, asset: Asset, each: Propagated) -> Given:
    by = f"rule:{each.rule}" if each.rule else "lineage"
    path = path_of(unit, asset.guid, each)
    return Given(
        each.name, "propagated", by, value=each.value, root=each.root, depth=each.depth, path=path
    )


def _inherited(asset: Asset, chain: Sequence[Container], kind: Kind, book: Book) -> Iterable[Given]:
    path = [asset.guid]
    for depth, each in enumerate(chain, 1):
        path = [each.guid, *path]
        travelling = book.travelling if kind == "tag" else book.travelling_terms
        for tag in sorted(travelling.intersection(getattr(each, FIELDS[kind]))):
            yield Given(tag, "inherited", "container", root=each.guid, depth=depth, path=list(path))


def _explain(
    each: Given, shown: Sequence[str], kind: Kind, book: Book, steward: Sequence[Assignment]
) -> None:
    states = {
        "suggested": "proposed; nobody has accepted it yet",
        "rejected": "proposed, and rejected",
        "scheduled": "begins at valid_from",
        "expired": "has ended",
    }
    if each.state != "active":
        each.why = states[each.state]
    elif each.tag in shown:
        each.effective = True
        each.why = "shown"
        if kind == "tag" and (chosen := _chosen(each.tag, steward)):
            each.why = f"shown: {chosen.by} chose it"
    else:
        each.why = _hidden(each, shown, book, steward)


def _hidden(each: Given, shown: Sequence[str], book: Book, steward: Sequence[Assignment]) -> str:
    group = (book.groups or BUILT_IN).of.get(each.tag)
    winner = _first(shown, group.tags) if group else None
    if group is None or winner is None:
        return "an edit of the whole list hides it"
    if chosen := _chosen(winner, steward):
        return f"hidden: {chosen.by} chose {winner}"
    return f"hidden: of {group.name}, {winner} shows; it still protects"


def _chosen(tag: str, steward: Sequence[Assignment]) -> Assignment | None:
    return next((a for a in steward if a.tag == tag), None)


def _first(shown: Iterable[str], tags: Sequence[str]) -> str | None:
    return next((tag for tag in shown if tag in tags), None)
