"""Who wants to hear of a fact. What a subscription does not name matches everything."""

from collections.abc import Mapping, Sequence, Set
from typing import Any
from uuid import UUID

import msgspec

from lily.events.facts import Fact

RANK = {"critical": 4, "high": 3, "medium": 2, "low": 1}
DEEPEST = 10
# What everybody may subscribe to; the rest needs the right to read the audit trail.
OPEN = (
    "Asset",
    "Fields",
    "Tags",
    "Edge",
    "Incident",
    "Notification",
    "Delivery",
    "Target",
    "Crawl",
    "Test",
)


class Match(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a subscription names. Assets are guids here: ids were resolved when it was saved."""

    facts: list[str] = []
    asset_id: UUID | None = None
    under: UUID | None = None
    tag: str | None = None
    kinds: list[str] = []
    severity: str | None = None  # this, or worse
    owner: str | None = None
    downstream_of: UUID | None = None
    depth: int = 3
    owners_downstream: int = 0  # tell the owners of what lies so far downstream, too


class Subject(msgspec.Struct, frozen=True):
    """The asset of a fact as it is now, with what lies around it."""

    guid: UUID
    asset_id: str
    qualified_name: str
    name: str
    type: str
    owner: str
    tags: list[str]
    within: frozenset[UUID] = frozenset()  # the containers around it


def matches(
    wanted: Match, fact: Fact, subject: Subject | None, reach: Mapping[UUID, Set[UUID]]
) -> bool:
    """Whether it does. `reach` holds what lies downstream of the assets that matches name."""
    if wanted.facts and fact.kind not in wanted.facts:
        return False
    if wanted.kinds and _type(fact, subject) not in wanted.kinds:
        return False
    if wanted.asset_id is not None and fact.guid != wanted.asset_id:
        return False
    if wanted.under is not None and not _under(wanted.under, fact, subject):
        return False
    if wanted.tag is not None and wanted.tag not in _tags(fact, subject):
        return False
    if wanted.severity is not None and not _severe(wanted.severity, fact):
        return False
    if wanted.owner is not None and (subject is None or subject.owner != wanted.owner):
        return False
    return wanted.downstream_of is None or fact.guid in reach.get(wanted.downstream_of, ())


def interested(subscriptions: Sequence[Match]) -> set[str] | None:
    """The kinds of facts that somebody names; None when somebody wants all of them."""
    kinds: set[str] = set()
    for wanted in subscriptions:
        if not wanted.facts:
            return None
        kinds.update(wanted.facts)
    return kinds


def severity_of(fact: Fact) -> str | None:
    stated: Any = (fact.after or {}).get("severity")
    return stated if stated in RANK else None


def _type(fact: Fact, subject: Subject | None) -> str:
    return subject.type if subject is not None else fact.asset_type


def _under(container: UUID, fact: Fact, subject: Subject | None) -> bool:
    return fact.guid == container or (subject is not None and container in subject.within)


def _tags(fact: Fact, subject: Subject | None) -> set[str]:
    """The tags that it has or had: losing one is news for who watches it."""
    found = set(subject.tags) if subject is not None else set()
    for side in (fact.before, fact.after):
        stated = (side or {}).get("tags")
        if isinstance(stated, list):
            found.update(tag for tag in stated if isinstance(tag, str))
    return found


def _severe(least: str, fact: Fact) -> bool:
    stated = severity_of(fact)
    return stated is not None and RANK[stated] >= RANK[least]
