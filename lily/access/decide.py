"""The decision: deny beats mask and filter, those beat allow, and nothing said means no."""

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from lily.access.conditions import UnknownCondition, holds
from lily.access.model import (
    Action,
    Decision,
    Mask,
    Policy,
    Principal,
    Resource,
    Situation,
    Target,
    stricter,
)

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


class Index:
    """The policies of a tenant, found by what they are about; patched one by one."""

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self._policies: dict[UUID, Rule] = {}
        self._by_resource: dict[tuple[Action, str, str], list[Rule]] = defaultdict(list)
        for policy in policies:
            self.put(policy)

    def __len__(self) -> int:
        return len(self._policies)

    def put(self, policy: Policy) -> None:
        """Add a policy, or replace the one with its id."""
        self.drop(policy.id)
        if policy.enabled:
            rule = self._policies[policy.id] = Rule(policy)
            self._by_resource[_place(policy)].append(rule)

    def drop(self, policy_id: UUID) -> None:
        rule = self._policies.pop(policy_id, None)
        if rule is not None:
            place = _place(rule.policy)
            rules = [each for each in self._by_resource[place] if each is not rule]
            if rules:
                self._by_resource[place] = rules
            else:
                del self._by_resource[place]

    def rules(self, action: Action) -> list[Rule]:
        """Every policy for an action."""
        return [rule for rule in self._policies.values() if rule.policy.action == action]

    def about(self, action: Action, target: Target) -> list[Rule]:
        """Every policy on this asset, whoever it names."""
        found: list[Rule] = []
        get = self._by_resource.get
        for rules in (
            get((action, "everything", "")),
            get((action, "asset", str(target.guid))),
            get((action, "type", target.asset_type)),
        ):
            if rules:
                found += rules
        for guid in target.chain:
            if rules := get((action, "under", str(guid))):
                found += rules
        for tag in target.tags:
            if rules := get((action, "tag", tag)):
                found += rules
        return found

    def decide(
        self, principal: Principal, action: Action, target: Target, situation: Situation
    ) -> Decision:
        """What this principal may do with this asset, and which policies say so."""
        return self.decide_keys(principal.keys(), action, target, situation)

    def decide_keys(
        self, keys: frozenset[str], action: Action, target: Target, situation: Situation
    ) -> Decision:
        applying: list[Policy] = []
        for rule in self.about(action, target):
            if not rule.names(keys):
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
            applying.append(policy)
        return combine(applying)

    def is_timeless(self, action: Action, target: Target) -> bool:
        """Whether a decision on this asset stays true until a policy or the asset changes."""
        return not any(rule.policy.conditions for rule in self.about(action, target))


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


def _place(policy: Policy) -> tuple[Action, str, str]:
    resource: Resource = policy.resource
    return policy.action, resource.kind, resource.id
