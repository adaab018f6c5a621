"""What of all assets a caller may see, as lists that the store can check row by row."""

import msgspec

from lily.access.conditions import UnknownCondition, holds
from lily.access.decide import Index, Rule
from lily.access.model import Situation


class Reach(msgspec.Struct):
    """What policies of one effect are about."""

    everything: bool = False
    assets: list[str] = []
    under: list[str] = []
    tags: list[str] = []
    types: list[str] = []


class Sight(msgspec.Struct):
    """Visible is what `allowed` reaches and `denied` does not."""

    allowed: Reach
    denied: Reach

    @property
    def is_whole(self) -> bool:
        return self.allowed.everything and self.denied == Reach()


def sight(index: Index, keys: frozenset[str], situation: Situation) -> tuple[Sight, bool]:
    """For whoever has these keys; and whether it stays true until a policy changes."""
    found = Sight(Reach(), Reach())
    timeless = True
    for rule in index.rules("READ"):
        policy = rule.policy
        if policy.effect not in ("allow", "deny") and not policy.conditions:
            continue  # masks and filters are about values, not about what is known of them
        if not rule.names(keys):
            continue
        denies = policy.effect == "deny"
        if policy.conditions:
            timeless = False
            try:
                verdict = holds(policy.conditions, situation)
            except UnknownCondition:
                denies = True
            else:
                if not verdict and (verdict is False or not denies):
                    continue
                if policy.effect not in ("allow", "deny"):
                    continue
        _add(found.denied if denies else found.allowed, rule)
    return found, timeless


def _add(reach: Reach, rule: Rule) -> None:
    resource = rule.policy.resource
    if resource.kind == "everything":
        reach.everything = True
    else:
        lists = {"asset": reach.assets, "under": reach.under, "tag": reach.tags}
        lists.get(resource.kind, reach.types).append(resource.id)


def encoded(found: Sight) -> str:
    """As the store reads it; empty for whoever sees everything."""
    return "" if found.is_whole else msgspec.json.encode(found).decode()
