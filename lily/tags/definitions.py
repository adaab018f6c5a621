"""What a tag or a term means to a tenant. Pure: no clock, no store."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from lily.tags.effective import BUILT_IN, Group, Groups, Precedence, grouped

Kind = Literal["tag", "term"]
Unknown = Literal["create", "refuse"]


class Definition(msgspec.Struct):
    """The columns of tag_definition and term_definition, without the tenant, in their order."""

    name: str
    description: str
    colour: str | None
    exclusive_group: str | None
    rank: int
    propagates: bool
    edge_kinds: list[str] | None
    max_depth: int | None
    precedence: Precedence
    first_use: bool
    version: int
    created_at: datetime
    created_by: str
    updated_at: datetime
    builtin: bool


# What a caller may say of a tag; the rest is kept by the store.
SAID = Definition.__struct_fields__[:9]


class Book(msgspec.Struct):
    """What deciding on an asset needs of a tenant's definitions."""

    revision: int = 0
    groups: Groups = BUILT_IN
    tags: set[str] = set()
    terms: set[str] = set()
    travelling: frozenset[str] = frozenset({"PII", "GDPR", "PHI", "PCI"})
    travelling_terms: frozenset[str] = frozenset()
    unknown_tags: Unknown = "create"
    unknown_terms: Unknown = "create"

    @property
    def refuses(self) -> bool:
        return "refuse" in (self.unknown_tags, self.unknown_terms)

    def refused(self, tags: Iterable[str], terms: Iterable[str] = ()) -> str | None:
        """Why these labels cannot be used here: the field, what is wrong, and the cure."""
        for field, given, known, unknown in (
            ("tags", tags, self.tags, self.unknown_tags),
            ("business_terms", terms, self.terms, self.unknown_terms),
        ):
            if unknown == "refuse":
                for name in given:
                    if name not in known:
                        route = "tags" if field == "tags" else "terms"
                        return f"{field}: {name} is not defined; define it under /api/v1/{route}"
        return None


def groups_of(definitions: Iterable[Definition]) -> Groups:
    """Exclusive groups, each from the least to the most restrictive; the top one says how."""
    members: dict[str, list[Definition]] = defaultdict(list)
    for each in definitions:
        if each.exclusive_group is not None:
            members[each.exclusive_group].append(each)
    found = []
    for name, tags in members.items():
        tags.sort(key=lambda tag: (tag.rank, tag.name))
        found.append(Group(name, tuple(tag.name for tag in tags), tags[-1].precedence))
    return grouped(found)
