"""What travels along lineage: carriers, made of tag definitions and rules. Pure."""

from collections.abc import Collection, Sequence
from typing import Any, Literal
from uuid import UUID

import msgspec

Direction = Literal["downstream", "upstream"]
OnConflict = Literal["when_empty", "always"]

DEEPEST = 100  # ends every way; reaching it is told

# Tags and terms are sets; of any other field one value arrives, that of the nearest root.
SETS = ("tag", "term")


class Filter(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which assets are meant; nothing given means all."""

    asset_type: list[str] = []
    data_source: list[str] = []
    under: str = ""  # the beginning of a qualified name

    @property
    def is_empty(self) -> bool:
        return not (self.asset_type or self.data_source or self.under)


class Carrier(msgspec.Struct, frozen=True):
    """Something that takes a label from root to root's reach, each hop by the same terms."""

    field: str
    name: str | None = None  # null: every tag or term
    rule: UUID | None = None  # null: the tag's own definition
    kinds: list[str] | None = None  # null: whatever carries by default
    max_depth: int = DEEPEST
    direction: Direction = "downstream"
    roots: Filter = Filter()
    receivers: Filter = Filter()
    always: bool = False
    plugin: str = ""  # makes the value of the root; without one it is the root's own
    options: dict[str, Any] = {}


class Definition(msgspec.Struct, frozen=True):
    """What a tag's definition says of its travels."""

    name: str
    kinds: list[str] | None = None
    max_depth: int | None = None


class Rule(msgspec.Struct, frozen=True):
    """A row of table propagation_rule, as far as it decides what travels."""

    id: UUID
    field: str
    names: list[str]
    kinds: list[str] | None
    direction: Direction
    max_depth: int | None
    roots: Filter
    receivers: Filter
    on_conflict: OnConflict
    plugin: str = ""
    options: dict[str, Any] = {}


def carriers(
    tags: Sequence[Definition], terms: Sequence[Definition], rules: Sequence[Rule]
) -> list[Carrier]:
    """Everything that takes something along the tenant's lineage."""
    found = [
        Carrier(field, each.name, None, each.kinds, _deepest(each.max_depth))
        for field, definitions in (("tag", tags), ("term", terms))
        for each in definitions
    ]
    for rule in rules:
        names: list[str | None] = list(rule.names) if rule.field in SETS else []
        found += [
            Carrier(
                rule.field, name, rule.id, rule.kinds, _deepest(rule.max_depth), rule.direction,
                rule.roots, rule.receivers, rule.on_conflict == "always",
                rule.plugin, rule.options,
            )
            for name in names or [None]
        ]  # fmt: skip
    return found


def of_direction(found: Sequence[Carrier], direction: Direction) -> list[Carrier]:
    return [each for each in found if each.direction == direction]


def in_scope(found: Sequence[Carrier], names: Collection[str] | None) -> list[Carrier]:
    """Those that can carry one of the names; a field goes by its own name."""
    if names is None:
        return list(found)
    return [
        each
        for each in found
        if (each.name is None and each.field in SETS) or (each.name or each.field) in names
    ]


def _deepest(wanted: int | None) -> int:
    return DEEPEST if wanted is None else min(wanted, DEEPEST)
