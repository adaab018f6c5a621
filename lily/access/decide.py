"""The decision: deny beats mask and filter, those beat allow, and nothing said means no."""

from collections.abc import Iterable
from uuid import UUID

from lily.access.conditions import UnknownCondition, holds
from lily.access.model import (
    Action,
    Decision,
    Mask,
    Policy,
    Principal,
    Situation,
    Target,
    stricter,
)

REMEMBERED = 200_000
NARROW = ("asset", "under", "tag", "type")  # what a column can be meant by alone
NOTHING_ALLOWS = Decision("deny", "no policy allows it")


class Rule:
    """A policy with its subjects spread out for comparison."""

    __slots__ = ("exempt", "policy", "subjects")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.subjects = frozenset(subject.key for subject in policy.subjects)
        self.exempt = frozenset(f"group:{group}" for group in policy.exempt_groups)

    def names(self, keys: frozenset[str]) -> bool:
        return not self.subjects.isdisjoint(keys) and self.exempt.isdisjoint(keys)


BySubject = dict[str, list[Rule]]


class Index:
    """The policies of a tenant, found by what they are about; patched one by one.

    What was gathered for an asset, and what several policies together say, is remembered until
    a policy changes: most decisions are a few look-ups.
    """

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self._policies: dict[UUID, Rule] = {}
        self._by_resource: dict[tuple[Action, tuple[str, str]], list[Rule]] = {}
        self._gathered: dict[tuple[Action, int], tuple[Target, BySubject, bool]] = {}
        self._combined: dict[tuple[int, ...], Decision] = {}
        self._narrow: set[UUID] = set()
        for policy in policies:
            self.put(policy)

    def __len__(self) -> int:
        return len(self._policies)

    def put(self, policy: Policy) -> None:
        """Add a policy, or replace the one with its id."""
        self.drop(policy.id)
        if policy.enabled:
            rule = self._policies[policy.id] = Rule(policy)
            if policy.effect == "filter" and policy.resource.kind in NARROW:
                self._narrow.add(policy.id)
            self._by_resource.setdefault(_place(policy), []).append(rule)
            self._forget()

    def drop(self, policy_id: UUID) -> None:
        rule = self._policies.pop(policy_id, None)
        self._narrow.discard(policy_id)
        if rule is not None:
            place = _place(rule.policy)
            self._by_resource[place].remove(rule)
            if not self._by_resource[place]:
                del self._by_resource[place]
            self._forget()

    @property
    def filters_narrowly(self) -> bool:
        """Whether a row filter may be about a column and not about its table."""
        return bool(self._narrow)

    def rules(self, action: Action) -> list[Rule]:
        """Every policy for an action."""
        return [rule for rule in self._policies.values() if rule.policy.action == action]

    def about(self, action: Action, target: Target) -> list[Rule]:
        """Every policy on this asset, whoever it names."""
        found: list[Rule] = []
        get = self._by_resource.get
        for resource in target.resources:
            if rules := get((action, resource)):
                found += rules
        return found

    def decide(
        self, principal: Principal, action: Action, target: Target, situation: Situation
    ) -> Decision:
        """What this principal may do with this asset, and which policies say so."""
        return self.decide_keys(principal.keys, action, target, situation)

    def decide_keys(
        self, keys: frozenset[str], action: Action, target: Target, situation: Situation
    ) -> Decision:
        _, by_subject, _ = self._gather(action, target)
        applying: list[Rule] = []
        for key in keys:
            if not (rules := by_subject.get(key)):
                continue
            for rule in rules:
                if rule.exempt and not rule.exempt.isdisjoint(keys):
                    continue
                policy = rule.policy
                if policy.conditions:
                    try:
                        verdict = holds(policy.conditions, situation)
                    except UnknownCondition as cause:
                        return Decision("deny", f"policy {policy.name!r}: {cause}", (policy.id,))
                    # What the situation does not tell counts against the caller.
                    if not verdict and (verdict is False or policy.effect == "allow"):
                        continue
                if rule not in applying:  # it may name somebody twice
                    applying.append(rule)
        return self._together(applying)

    def is_timeless(self, action: Action, target: Target) -> bool:
        """Whether a decision on this asset stays true until a policy or the asset changes."""
        return self._gather(action, target)[2]

    def _gather(self, action: Action, target: Target) -> tuple[Target, BySubject, bool]:
        # By identity: an asset that changed is another object, and hashing a guid is slow.
        known = self._gathered.get((action, id(target)))
        if known is not None and known[0] is target:
            return known
        by_subject: BySubject = {}
        timeless = True
        for rule in self.about(action, target):
            timeless = timeless and not rule.policy.conditions
            for subject in rule.subjects:
                by_subject.setdefault(subject, []).append(rule)
        if len(self._gathered) >= REMEMBERED:
            self._gathered.clear()
        found = self._gathered[action, id(target)] = (target, by_subject, timeless)
        return found

    def _together(self, applying: list[Rule]) -> Decision:
        if not applying:
            return NOTHING_ALLOWS
        names = tuple(sorted(map(id, applying)))
        known = self._combined.get(names)
        if known is None:
            if len(self._combined) >= REMEMBERED:
                self._combined.clear()
            known = self._combined[names] = combine(rule.policy for rule in applying)
        return known

    def _forget(self) -> None:
        if self._gathered:
            self._gathered.clear()
        if self._combined:
            self._combined.clear()


def combine(policies: Iterable[Policy]) -> Decision:
    """The most restrictive of the policies that apply."""
    applying = list(policies)
    denies = [p for p in applying if p.effect == "deny"]
    if denies:
        first = min(denies, key=lambda p: p.id)
        return Decision("deny", f"policy {first.name!r} denies it", (first.id,))
    allows = [p for p in applying if p.effect == "allow"]
    if not allows:
        return NOTHING_ALLOWS
    mask: Mask | None = None
    for policy in applying:
        if policy.effect == "mask":
            mask = stricter(mask, policy.mask)
    masks = tuple(sorted(p.id for p in applying if p.effect == "mask"))
    filtering = sorted((p for p in applying if p.effect == "filter"), key=lambda p: p.id)
    filters = tuple(dict.fromkeys(p.row_filter for p in filtering))
    ids = (*masks, *(p.id for p in filtering))
    if mask is not None:
        names = ", ".join(repr(p.name) for p in applying if p.effect == "mask")
        return Decision("mask", f"masked ({mask.kind}) by {names}", ids, mask, filters)
    if filters:
        names = ", ".join(repr(p.name) for p in filtering)
        return Decision("filter", f"rows filtered by {names}", ids, None, filters)
    first = min(allows, key=lambda p: p.id)
    return Decision("allow", f"policy {first.name!r} allows it", (first.id,))


def _place(policy: Policy) -> tuple[Action, tuple[str, str]]:
    return policy.action, (policy.resource.kind, policy.resource.id)
