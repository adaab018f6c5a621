"""Every version of an asset, whole, from what it is now and the facts that led there."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec

STATE = (
    "qualified_name", "asset_id", "asset_name", "asset_type", "asset_owner", "description",
    "parent_id", "data_source", "external_id", "tags", "business_terms", "metadata", "details",
    "is_deleted", "archived",
)  # fmt: skip
# The facts that make a version.
KINDS = (
    "AssetCreated", "AssetChanged", "TagsChanged", "AssetDeleted", "AssetRestored",
    "AssetArchived", "AssetPurged",
)  # fmt: skip
_EMPTY: Mapping[str, Any] = {
    "tags": [], "business_terms": [], "metadata": {}, "is_deleted": False, "archived": False,
}  # fmt: skip

State = dict[str, Any]


class Told(msgspec.Struct, frozen=True):
    """A fact of one asset, as far as its versions need it."""

    position: int
    kind: str
    at: datetime
    version: int
    cause: str
    by: str = ""
    qualified_name: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


class Version(msgspec.Struct, frozen=True):
    version: int
    position: int
    at: datetime
    kind: str
    by: str
    cause: str
    state: State


def backward(now: State, facts: Sequence[Told]) -> tuple[list[Version], State]:
    """Undo facts one after the other, newest first; also what was before the first of them."""
    state, found = dict(now), []
    for _, group in _by_version(facts, newest_first=True):
        found.append(_version(group, state))
        for fact in reversed(group):
            state = _with(state, fact.before)
    return found[::-1], state


def forward(facts: Sequence[Told]) -> list[Version]:
    """Follow facts from the beginning: all that is left of an asset that was purged."""
    state: State = {name: _EMPTY.get(name) for name in STATE}
    found = []
    for _, group in _by_version(facts):
        for fact in group:
            if fact.kind == "AssetCreated":
                state = {name: _EMPTY.get(name) for name in STATE}
            state = _with({**state, "qualified_name": fact.qualified_name}, fact.after)
        if group[-1].kind == "AssetPurged":
            state = {**state, "is_deleted": True}
        found.append(_version(group, state))
    return found


def _by_version(
    facts: Iterable[Told], newest_first: bool = False
) -> Iterable[tuple[int, list[Told]]]:
    ordered = sorted(facts, key=lambda fact: fact.position)
    if len(ordered) == 1:  # as nearly all of them
        return [(ordered[0].version, ordered)]
    groups = [(number, list(group)) for number, group in groupby(ordered, lambda f: f.version)]
    return reversed(groups) if newest_first else groups


def _version(group: Sequence[Told], state: State) -> Version:
    first, last = group[0], group[-1]
    return Version(
        first.version, last.position, first.at, first.kind, first.by, first.cause, dict(state)
    )


def _with(state: State, told: Mapping[str, Any] | None) -> State:
    """Only what a version shows; what was empty is left out of facts."""
    known = {name: value for name, value in (told or {}).items() if name in STATE}
    return {**state, **known}
