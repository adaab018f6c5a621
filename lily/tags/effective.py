"""Effective tags: a fold over assignments, declared per exclusive group. Pure: no clock, no store.

Of one exclusive group an asset shows one tag. Which one says the group's precedence: what sources
say goes before what persons say, or the other way round, or the most restrictive of all. What
lineage brings never hides anything: it shows where nothing stricter does. A steward's decision
between the tags that are there beats all of it, until another tag of the group joins them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

Precedence = Literal["source", "person", "restrictive"]
Settled = tuple[str, Sequence[str]]  # the tag that a steward chose, and those it was chosen from


class Group(msgspec.Struct, frozen=True):
    """Tags of which one is shown, from the least to the most restrictive."""

    name: str
    tags: tuple[str, ...]
    precedence: Precedence = "source"

    def strictest(self, tags: Iterable[str]) -> str:
        return max(tags, key=self.tags.index)


class Groups(msgspec.Struct, frozen=True):
    """The exclusive groups of a tenant, by tag."""

    of: Mapping[str, Group] = {}


def grouped(groups: Iterable[Group]) -> Groups:
    return Groups({tag: group for group in groups for tag in group.tags})


BUILT_IN = grouped([Group("sensitivity", ("public", "internal", "confidential", "PII"))])


def effective(
    groups: Groups | None,
    by_source: Sequence[Iterable[str]],
    by_person: Iterable[str] = (),
    propagated: Iterable[str] = (),
    settled: Sequence[Settled] = (),
) -> list[str]:
    """What is shown: tags of the sources, strongest source first, of persons, and of lineage."""
    shown = set(by_person).union(propagated, *by_source)
    for group in _concerned(groups, shown):
        present = shown.intersection(group.tags)
        if len(present) > 1:
            shown -= present
            shown.add(
                _decided(group, present, settled)
                or _winner(group, by_source, by_person, propagated)
            )
    return sorted(shown)


def own(
    groups: Groups | None,
    by_source: Sequence[Iterable[str]],
    by_person: Iterable[str] = (),
    settled: Sequence[Settled] = (),
) -> list[str]:
    """What counts and spreads: everything that anybody says of the asset itself.

    A conflict never weakens: both tags are in it until a steward has chosen one.
    """
    said = set(by_person).union(*by_source)
    if settled:
        for group in _concerned(groups, said):
            present = said.intersection(group.tags)
            if len(present) > 1 and (chosen := _decided(group, present, settled)):
                said -= present - {chosen}
    return sorted(said)


def conflicts(
    groups: Groups | None, assigned: Iterable[str], settled: Sequence[Settled] = ()
) -> list[tuple[Group, list[str]]]:
    """Groups of which several tags are assigned, and nobody has chosen; each with its tags."""
    tags = set(assigned)
    found = []
    for group in _concerned(groups, tags):
        present = tags.intersection(group.tags)
        if len(present) > 1 and _decided(group, present, settled) is None:
            found.append((group, sorted(present, key=group.tags.index)))
    return sorted(found, key=lambda each: each[0].name)


def inherited(
    groups: Groups | None, shown: Iterable[str], containers: Sequence[Iterable[str]]
) -> list[str]:
    """What is shown with what the containers hold, nearest first.

    The nearest that says one of an exclusive group is heard; what the asset has itself goes first.
    """
    return effective(groups, [set(shown), *containers])


def _concerned(groups: Groups | None, tags: Iterable[str]) -> list[Group]:
    of = (groups or BUILT_IN).of
    return list({of[tag].name: of[tag] for tag in tags if tag in of}.values())


def _decided(group: Group, present: set[str], settled: Sequence[Settled]) -> str | None:
    """What a steward chose, if it was chosen from all that are there now."""
    chosen = [tag for tag, among in settled if tag in present and present.issubset(among)]
    return group.strictest(chosen) if chosen else None


def _winner(
    group: Group,
    by_source: Sequence[Iterable[str]],
    by_person: Iterable[str],
    propagated: Iterable[str],
) -> str:
    origins = [*by_source, by_person] if group.precedence == "source" else [by_person, *by_source]
    said = [mine for origin in origins if (mine := set(origin).intersection(group.tags))]
    brought = set(propagated).intersection(group.tags)
    if group.precedence == "restrictive":
        return group.strictest(brought.union(*said))
    return group.strictest(brought.union(said[0] if said else ()))
