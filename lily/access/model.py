"""Policies and what they are about."""

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal, get_args
from uuid import UUID

import msgspec

Effect = Literal["allow", "deny", "mask", "filter"]
Action = Literal["READ", "WRITE", "DELETE"]
SubjectKind = Literal["user", "role", "group", "everyone"]
ResourceKind = Literal["asset", "under", "tag", "type", "everything"]
MaskKind = Literal["partial", "year", "hash", "custom", "constant", "null"]

EFFECTS: tuple[Effect, ...] = get_args(Effect)
ACTIONS: tuple[Action, ...] = get_args(Action)
MASKS: tuple[MaskKind, ...] = get_args(MaskKind)  # later reveals less
EVERYONE = "everyone:"


class Subject(msgspec.Struct, frozen=True):
    kind: SubjectKind
    name: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


class Resource(msgspec.Struct, frozen=True):
    """An asset, an asset and all below it, all that bears a tag, all of a type, or everything."""

    kind: ResourceKind
    id: str = ""  # a guid, a tag, or a type


class Mask(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: MaskKind
    value: str = ""  # of a constant
    expressions: Mapping[str, str] = {}  # custom: per engine, `{column}` is the column


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    effect: Effect
    action: Action
    subjects: tuple[Subject, ...]
    resource: Resource
    conditions: Mapping[str, Any] = {}
    mask: Mask | None = None
    row_filter: str = ""
    exempt_groups: tuple[str, ...] = ()
    enabled: bool = True


class Principal(msgspec.Struct, frozen=True, dict=True):
    """Who asks: a name, and the roles and groups that come with it."""

    user: str
    roles: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @cached_property
    def keys(self) -> frozenset[str]:
        """As policies name their subjects."""
        return frozenset(
            (EVERYONE, f"user:{self.user}", *(f"role:{role}" for role in self.roles),
             *(f"group:{group}" for group in self.groups))
        )  # fmt: skip


class Target(msgspec.Struct, frozen=True, dict=True):
    """What a decision must know of an asset: where it hangs, and what protects it.

    `tags` is the protective set: whatever anybody, any path or any container says.
    """

    guid: UUID
    asset_type: str
    chain: tuple[UUID, ...]  # itself, then its containers upwards
    tags: frozenset[str]

    @cached_property
    def resources(self) -> tuple[tuple[str, str], ...]:
        """Everything that a policy on it can be about."""
        return (
            ("everything", ""),
            ("asset", str(self.guid)),
            ("type", self.asset_type),
            *(("under", str(guid)) for guid in self.chain),
            *(("tag", tag) for tag in self.tags),
        )


class Situation(msgspec.Struct, frozen=True):
    """When, why and from where; what is not known counts against the caller."""

    at: datetime
    purpose: str | None = None
    network: IPv4Address | IPv6Address | None = None


class Decision(msgspec.Struct, frozen=True):
    effect: Effect
    reason: str
    policies: tuple[UUID, ...] = ()
    mask: Mask | None = None
    filters: tuple[str, ...] = ()


def stricter(one: Mask | None, other: Mask | None) -> Mask | None:
    """Of two masks the one that reveals less; of two alike the first by its text."""
    if one is None or other is None:
        return one or other
    mine, theirs = MASKS.index(one.kind), MASKS.index(other.kind)
    if mine != theirs:
        return one if mine > theirs else other
    return min(one, other, key=lambda mask: (mask.value, sorted(mask.expressions.items())))
