"""What an engine should keep from whom on one table, from decisions on each of its columns."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from lily.access.decide import Index, combine
from lily.access.masks import fitted
from lily.access.model import EVERYONE, Decision, Mask, Principal, Situation, Target
from lily.sdk.enforcers import Grantee, Rule, Rules

NOBODY = Grantee("public")

Members = Callable[[str], tuple[frozenset[str], frozenset[str]]]  # roles and groups of a user


class Column(msgspec.Struct, frozen=True):
    target: Target
    data_type: str | None = None


class Parties(msgspec.Struct):
    """Users and roles that policies name; groups from which they keep, or to which they give."""

    users: set[str] = msgspec.field(default_factory=set)
    roles: set[str] = msgspec.field(default_factory=set)
    restricting: set[str] = msgspec.field(default_factory=set)
    loosening: set[str] = msgspec.field(default_factory=set)


class Compiled:
    """The state that one table should have in an engine, as of one moment."""

    def __init__(
        self,
        engine: str,
        table: Target,
        columns: Mapping[str, Column],
        index: Index,
        members: Members,
        situation: Situation,
    ) -> None:
        self._engine = engine
        self._table = table
        self._columns = columns
        self._index = index
        self._members = members
        self._situation = situation
        self._known: dict[Grantee, Rules] = {}
        self.fingerprint = _fingerprint(engine, table, columns, index, members)

    def rules(self, grantee: Grantee) -> Rules:
        if grantee not in self._known:
            self._known[grantee] = self._rules(grantee)
        return self._known[grantee]

    def is_denied(self, grantee: Grantee) -> bool:
        """Whether the table as a whole is kept from them."""
        keys = self._principal(grantee).keys
        return self._decide(keys, self._table).effect == "deny"

    @property
    def protects(self) -> bool:
        """Whether anything is kept from anybody, or will be at another time of day."""
        rules = self.rules(NOBODY)
        if rules.columns or rules.filters:
            return True
        targets = [self._table, *(column.target for column in self._columns.values())]
        about = (rule.policy for each in targets for rule in self._index.about("READ", each))
        return any(policy.effect != "allow" or policy.conditions for policy in about)

    def told(self) -> dict[str, Any]:
        """Per protected column: why, for somebody of whom nothing is known, or whom it names."""
        keys = self._principal(NOBODY).keys
        found: dict[str, Any] = {}
        for name, column in self._columns.items():
            decision = self._decide(keys, column.target)
            if decision.effect in ("deny", "mask"):
                found[name] = _told(column, decision)
            elif (named := self._named(column)) is not None:
                decision, subjects = named
                found[name] = {**_told(column, decision), "for": subjects}
        return found

    def _named(self, column: Column) -> tuple[Decision, list[str]] | None:
        """What is kept from those whom policies name, though not from everybody."""
        rules = self._index.about("READ", column.target)
        keeping = [rule for rule in rules if rule.policy.effect in ("deny", "mask")]
        about = [rule for rule in keeping if EVERYONE not in rule.subjects]
        if not about:
            return None
        allowed = [rule.policy for rule in rules if rule.policy.effect == "allow"]
        subjects = sorted({subject for rule in about for subject in rule.subjects})
        return combine([*allowed, *(rule.policy for rule in about)]), subjects

    def parties(self) -> Parties:
        """Whom the policies on the table and its columns name, one way or the other."""
        found = Parties()
        targets = [self._table, *(column.target for column in self._columns.values())]
        about = (rule.policy for each in targets for rule in self._index.about("READ", each))
        for policy in about:
            loosens = policy.effect == "allow"
            for subject in policy.subjects:
                if subject.kind == "group":
                    (found.loosening if loosens else found.restricting).add(subject.name)
                elif subject.kind == "role":
                    found.roles.add(subject.name)
                elif subject.kind == "user":
                    found.users.add(subject.name)
            found.loosening |= set(policy.exempt_groups)
        found.loosening -= found.restricting
        return found

    def _rules(self, grantee: Grantee) -> Rules:
        keys = self._principal(grantee).keys
        whole = self._decide(keys, self._table)
        filters = dict.fromkeys(whole.filters)
        columns: dict[str, Rule] = {}
        for name, column in self._columns.items():
            decision = self._decide(keys, column.target)
            filters |= dict.fromkeys(decision.filters)
            if whole.effect == "deny" or decision.effect == "deny":
                columns[name] = Rule("deny")
            elif decision.effect == "mask":
                assert decision.mask is not None
                columns[name] = self._masked(decision.mask, column.data_type)
        return Rules(columns, tuple(filters))

    def _masked(self, mask: Mask, data_type: str | None) -> Rule:
        mask = fitted(mask, data_type)
        if mask.kind == "custom":
            expression = mask.expressions.get(self._engine, "")
            # An engine for which nobody wrote the expression shows nothing.
            return (
                Rule("mask", "custom", expression=expression)
                if expression
                else Rule("mask", "null")
            )
        return Rule("mask", mask.kind, mask.value)

    def _principal(self, grantee: Grantee) -> Principal:
        roles, groups = self._members(grantee.name)
        return Principal(grantee.name, roles, groups | grantee.groups)

    def _decide(self, keys: frozenset[str], target: Target) -> Decision:
        return self._index.decide_keys(keys, "READ", target, self._situation)


def _told(column: Column, decision: Decision) -> dict[str, Any]:
    return {
        "effect": decision.effect,
        "mask": decision.mask.kind if decision.mask else None,
        "reason": decision.reason,
        "policies": [str(id) for id in decision.policies],
        "tags": sorted(column.target.tags),
        "guid": str(column.target.guid),
    }


class Nothing:
    """Wanted when an engine is let go: everybody gets back what they had."""

    fingerprint = "released"

    def rules(self, grantee: Grantee) -> Rules:
        return Rules({})


def resources(targets: Iterable[Target]) -> set[tuple[str, str]]:
    """What the policies on these assets can be about."""
    return {resource for target in targets for resource in target.resources}


def _fingerprint(
    engine: str, table: Target, columns: Mapping[str, Column], index: Index, members: Members
) -> str:
    """Changes with everything that a decision is made of, but for the time of day."""
    targets = [table, *(column.target for column in columns.values())]
    policies = sorted(
        {rule.policy.id: rule.policy for t in targets for rule in index.about("READ", t)}.items()
    )
    exempt = sorted({group for _, policy in policies for group in policy.exempt_groups})
    said = [
        engine,
        [[str(id), msgspec.json.encode(policy).decode()] for id, policy in policies],
        [[name, sorted(c.target.tags), c.data_type] for name, c in sorted(columns.items())],
        [[name, *map(sorted, members(name))] for name in exempt],
    ]
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:32]
