"""Why a decision is what it is: every policy on the asset, and what each has to say."""

from typing import Literal

import msgspec

from lily.access.conditions import UnknownCondition, holds
from lily.access.decide import Index, Rule
from lily.access.model import Action, Policy, Principal, Situation, Target

Outcome = Literal["applies", "another subject", "exempt", "condition does not hold", "denies"]


class Word(msgspec.Struct, frozen=True):
    """One policy's part in a decision."""

    policy: Policy
    outcome: Outcome
    why: str = ""


def words(
    index: Index, principal: Principal, action: Action, target: Target, situation: Situation
) -> list[Word]:
    """In the order of their ids."""
    found = [_word(rule, principal, situation) for rule in index.about(action, target)]
    return sorted(found, key=lambda word: word.policy.id)


def _word(rule: Rule, principal: Principal, situation: Situation) -> Word:
    policy, keys = rule.policy, principal.keys
    if rule.subjects.isdisjoint(keys):
        return Word(policy, "another subject", f"it names {', '.join(sorted(rule.subjects))}")
    if not rule.exempt.isdisjoint(keys):
        return Word(policy, "exempt", f"{', '.join(sorted(rule.exempt & keys))} is exempt")
    try:
        verdict = holds(policy.conditions, situation)
    except UnknownCondition as cause:
        return Word(policy, "denies", str(cause))
    if verdict is None:
        if policy.effect == "allow":
            return Word(policy, "condition does not hold", "the context does not tell")
        return Word(policy, "applies", "the context does not tell, which counts against the caller")
    if not verdict:
        return Word(policy, "condition does not hold")
    return Word(policy, "applies")
