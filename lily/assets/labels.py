"""Tags and terms on an asset: assigned, withdrawn, accepted, chosen, begun and ended.

Pure: no clock, no store. Each function decides on one asset and says what has to be written.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from lily.assets.change import Assignment, Context, Known, changes, settle, view_of
from lily.assets.claims import fields as said_by
from lily.assets.edits import PERSON, Outcome, Who, show, stamp
from lily.assets.model import Asset, Propagated
from lily.assets.view import ranked
from lily.errors import Conflict, NotFound
from lily.events.facts import Fact, FactKind

RULE, STEWARD = "rule", "steward"


class Label(msgspec.Struct, frozen=True):
    """What a person wants to say of an asset: a tag or a term, and for how long."""

    tag: str
    value: str = ""
    valid_from: datetime | None = None
    valid_until: datetime | None = None


def assign(known: Known, kind: str, wanted: Sequence[Label], who: Who, context: Context) -> Outcome:
    """The person says these too; what was said before stays."""
    outcome = Outcome()
    for label in wanted:
        _say(known, _made(kind, label, who, context.now), outcome)
    return _told(known, kind, who, context, outcome)


def replace(
    known: Known, kind: str, wanted: Sequence[Label], who: Who, context: Context
) -> Outcome:
    """The person says these and nothing else; what others say stays."""
    outcome = Outcome()
    names = {label.tag for label in wanted}
    _drop(
        known,
        [a for a in _own(known, kind, who.name) if a.tag not in names and a.state != "expired"],
        outcome,
    )
    for label in wanted:
        _say(known, _made(kind, label, who, context.now), outcome)
    return _told(known, kind, who, context, outcome)


def withdraw(
    known: Known, kind: str, tag: str, by: str | None, who: Who, context: Context
) -> Outcome:
    """Take back what a person said, the caller if nobody is named, or what a rule proposed.

    Raises Conflict for what others say: it goes when they stop saying it.
    """
    outcome = Outcome()
    gone = [a for a in _own(known, kind, by or who.name) if a.tag == tag]
    _drop(known, gone, outcome)
    facts: list[Fact] = []
    if by is None:
        for each in _proposed(known, kind, tag, ("active",)):
            facts.append(_decide(known, each, "rejected", who, context, outcome))
    if not outcome.withdrawn and not outcome.assigned:
        raise _not_yours(known, kind, tag, by)
    return _told(known, kind, who, context, outcome, facts)


def settle_suggestions(
    known: Known, tags: Iterable[str] | None, accept: bool, by: str | None, who: Who,
    context: Context,
) -> Outcome:  # fmt: skip
    """Accept or reject what rules propose: some tags, or all that wait."""
    outcome = Outcome()
    facts: list[Fact] = []
    state = "active" if accept else "rejected"
    open_states = ("suggested",) if tags is None else ("suggested", "rejected", "active")
    for tag in sorted(set(tags)) if tags is not None else [None]:
        found = [a for a in _proposed(known, "tag", tag, open_states) if by in (None, a.by)]
        if tag is not None and not found:
            raise NotFound("suggestion", tag)
        facts += [
            _decide(known, each, state, who, context, outcome)
            for each in found
            if each.state != state
        ]
    return _told(known, "tag", who, context, outcome, facts)


def resolve(
    known: Known, chosen: str, among: Sequence[str], group: str, reason: str, who: Who,
    context: Context,
) -> Outcome:  # fmt: skip
    """A steward's choice between tags of one group; it holds until another one joins them."""
    outcome = Outcome()
    old = [a for a in known.assignments if a.origin == STEWARD and set(a.settled) & set(among)]
    made = Assignment(
        chosen, STEWARD, who.name, "active", reason, settled=sorted(among), at=context.now
    )
    if any(_same(made, each) for each in old):
        return outcome
    _drop(known, old, outcome)
    outcome.assigned.append(made)
    known.assignments = [*known.assignments, made]
    detail = {"group": group, "tag": chosen, "among": sorted(among), "reason": reason}
    fact = _fact(known, "TagResolved", who, context.now, after=detail)
    return _told(known, "tag", who, context, outcome, [fact])


def come_due(known: Known, who: Who, context: Context) -> Outcome:
    """Begin what was to begin, end what was to end."""
    outcome = Outcome()
    for each in list(known.assignments):
        if each.state == "scheduled" and each.valid_from and each.valid_from <= context.now:
            _turn(known, each, "active", outcome)
    for each in list(known.assignments):
        if each.state == "active" and each.valid_until and each.valid_until <= context.now:
            _turn(known, each, "expired", outcome)
    return _told(known, "tag", who, context, outcome, quiet=True)


def refold(known: Known, who: Who, context: Context) -> list[Fact]:
    """Show what the tenant's groups make of it now; none if that is what shows."""
    before = known.asset
    assert before is not None
    after = known.asset = msgspec.structs.replace(before)
    show(after, view_of(known, context))
    facts = changes(before, after, who.name, who.cause, context.now, who.traceparent)
    for each in facts:
        if each.kind == "TagsChanged" and before.own == after.own:  # nothing new travels from here
            each.after = {**(each.after or {}), "propagated": origins(known.propagated)}
    stamp(after, facts, who, context.now)
    settle(known, context)
    return facts


def by_source(known: Known, context: Context) -> list[tuple[str, Sequence[str]]]:
    """The tags of each source that counts, strongest first."""
    claims = ranked(known.claims.values(), context.priority)
    return [(claim.source, said_by(claim).get("tags") or ()) for claim in claims]


# How assignments change ---------------------------------------------------------------------


def _made(kind: str, label: Label, who: Who, now: datetime) -> Assignment:
    later = label.valid_from is not None and label.valid_from > now
    return Assignment(
        label.tag, PERSON, who.name, "scheduled" if later else "active", kind=kind,
        value=label.value, valid_from=label.valid_from, valid_until=label.valid_until, at=now,
    )  # fmt: skip


def _say(known: Known, made: Assignment, outcome: Outcome) -> None:
    for old in _own(known, made.kind, made.by):
        if old.tag == made.tag:
            if _same(old, made):
                return
            known.assignments = [a for a in known.assignments if a is not old]
    outcome.assigned.append(made)
    known.assignments = [*known.assignments, made]


def _same(old: Assignment, made: Assignment) -> bool:
    return msgspec.structs.replace(old, at=None) == msgspec.structs.replace(made, at=None)


def _drop(known: Known, gone: Sequence[Assignment], outcome: Outcome) -> None:
    outcome.withdrawn = [*outcome.withdrawn, *gone]
    known.assignments = [a for a in known.assignments if not any(a is each for each in gone)]


def _turn(known: Known, old: Assignment, state: str, outcome: Outcome) -> None:
    made = msgspec.structs.replace(old, state=state)
    known.assignments = [made if a is old else a for a in known.assignments]
    outcome.assigned = [a for a in outcome.assigned if a is not old] + [made]


def _decide(
    known: Known, old: Assignment, state: str, who: Who, context: Context, outcome: Outcome
) -> Fact:
    _turn(known, old, state, outcome)
    kind: FactKind = "SuggestionAccepted" if state == "active" else "SuggestionRejected"
    detail = {"tag": old.tag, "by": old.by, "reason": old.reason}
    return _fact(known, kind, who, context.now, after=detail, before={"state": old.state})


def _own(known: Known, kind: str, by: str) -> list[Assignment]:
    return [a for a in known.assignments if (a.origin, a.by, a.kind) == (PERSON, by, kind)]


def _proposed(known: Known, kind: str, tag: str | None, states: Sequence[str]) -> list[Assignment]:
    return [
        a for a in known.assignments
        if a.origin == RULE and a.kind == kind and a.state in states and tag in (None, a.tag)
    ]  # fmt: skip


def _not_yours(known: Known, kind: str, tag: str, by: str | None) -> Exception:
    asset = known.asset
    assert asset is not None
    others = sorted({a.by for a in known.assignments if (a.kind, a.tag) == (kind, tag)})
    sources = sorted(
        claim.source for claim in known.claims.values()
        if tag in (said_by(claim).get("tags" if kind == "tag" else "business_terms") or ())
    )  # fmt: skip
    if by is None and others:
        named = ", ".join(others)
        return Conflict(
            f"{tag} was not set by you but by {named}; a steward takes it off with ?by=…"
        )
    if sources:
        named = ", ".join(sources)
        return Conflict(f"{tag} comes from the source {named}; it goes when the source drops it.")
    if any(each.name == tag and each.field == kind for each in known.propagated):
        return Conflict(f"{tag} comes by lineage; take it off at its root, or block an edge.")
    return NotFound(kind, tag)


# What is shown of it, and told --------------------------------------------------------------


def _told(
    known: Known, kind: str, who: Who, context: Context, outcome: Outcome,
    facts: Sequence[Fact] = (), quiet: bool = False,
) -> Outcome:  # fmt: skip
    """Fold again; an assignment that nobody sees is told too, unless it is told elsewhere."""
    if not (outcome.assigned or outcome.withdrawn):
        return outcome
    before = known.asset
    assert before is not None
    after = known.asset = msgspec.structs.replace(before)
    show(after, view_of(known, context))
    outcome.facts = changes(before, after, who.name, who.cause, context.now, who.traceparent)
    if not outcome.facts and not facts and not quiet:
        outcome.facts = [_unseen(known, kind, outcome, who, context.now)]
    outcome.facts = [*outcome.facts, *facts]
    outcome.changed = True
    stamp(after, outcome.facts, who, context.now)
    settle(known, context)
    return outcome


def _unseen(known: Known, kind: str, outcome: Outcome, who: Who, now: datetime) -> Fact:
    """What somebody assigned is audited even where something else shows."""
    asset = known.asset
    assert asset is not None
    shown: dict[str, Any] = (
        {"tags": asset.tags} if kind == "tag" else {"business_terms": asset.business_terms}
    )
    before = {**shown, "assigned": sorted(a.tag for a in outcome.withdrawn)}
    after = {**shown, "assigned": sorted(a.tag for a in outcome.assigned)}
    told: FactKind = "TagsChanged" if kind == "tag" else "AssetChanged"
    return _fact(known, told, who, now, after=after, before=before)


def _fact(
    known: Known, kind: FactKind, who: Who, now: datetime, *, after: dict[str, Any],
    before: dict[str, Any] | None = None,
) -> Fact:  # fmt: skip
    asset: Asset | None = known.asset
    assert asset is not None
    return Fact(
        kind=kind, at=now, by=who.name, cause=who.cause, guid=asset.guid, asset_id=asset.asset_id,
        qualified_name=asset.qualified_name, asset_type=asset.asset_type, version=asset.version,
        before=before, after=after, traceparent=who.traceparent,
    )  # fmt: skip


def origins(arrived: Iterable[Propagated]) -> dict[str, Any]:
    """From where each label that lineage brought comes."""
    return {
        each.name or each.field: {"root": each.root, "depth": each.depth}
        for each in sorted(arrived, key=lambda each: -each.depth)
    }
