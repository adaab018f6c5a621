"""Decisions as a table: every pair of effects, subjects, resources, conditions."""

from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any
from uuid import UUID, uuid4

import pytest

from lily.access.conditions import UnknownCondition, holds
from lily.access.decide import Index
from lily.access.model import (
    MASKS,
    Action,
    Decision,
    Effect,
    Mask,
    MaskKind,
    Policy,
    Principal,
    Resource,
    Situation,
    Subject,
    Target,
    stricter,
)

DATABASE, TABLE, COLUMN = (UUID(int=n) for n in (1, 2, 3))
EMAIL = Target(COLUMN, "column", (COLUMN, TABLE, DATABASE), frozenset({"PII"}))
MONDAY_NOON = Situation(datetime(2026, 11, 16, 12, 0, tzinfo=UTC))
EVERYTHING, EVERYBODY = Resource("everything"), (Subject("everyone"),)
ANALYST = Principal("ana", groups=frozenset({"analysts"}))


def policy(
    effect: Effect,
    resource: Resource = EVERYTHING,
    subjects: tuple[Subject, ...] = EVERYBODY,
    action: Action = "READ",
    mask: MaskKind | None = None,
    **more: Any,
) -> Policy:
    chosen = Mask(mask) if mask else Mask("null") if effect == "mask" else None
    return Policy(
        id=uuid4(), name=f"{effect} {resource.kind}", effect=effect, action=action,
        subjects=subjects, resource=resource, mask=chosen, **more,
    )  # fmt: skip


def decided(*policies: Policy, who: Principal = ANALYST, when: Situation = MONDAY_NOON) -> Decision:
    return Index(policies).decide(who, "READ", EMAIL, when)


def test_nothing_said_means_no() -> None:
    assert decided().effect == "deny"


STRENGTH = {"allow": 0, "filter": 1, "mask": 2, "deny": 3}


@pytest.mark.parametrize("one", STRENGTH)
@pytest.mark.parametrize("other", STRENGTH)
def test_of_two_policies_the_more_restrictive_wins(one: Effect, other: Effect) -> None:
    both = (policy(one, row_filter="a = 1"), policy(other, row_filter="b = 2"))
    found = decided(policy("allow"), *both)
    assert found.effect == max(one, other, key=STRENGTH.__getitem__)
    if "deny" not in (one, other):
        wanted = {p.row_filter for p in both if p.effect == "filter"}
        assert set(found.filters) == wanted


@pytest.mark.parametrize("one", MASKS)
@pytest.mark.parametrize("other", MASKS)
def test_of_two_masks_the_one_that_reveals_less_wins(one: MaskKind, other: MaskKind) -> None:
    found = decided(policy("allow"), policy("mask", mask=one), policy("mask", mask=other))
    assert found.mask is not None
    assert found.mask.kind == max(one, other, key=MASKS.index)


def test_a_mask_reveals_less_in_the_order_that_is_promised() -> None:
    order = ["partial", "hash", "null"]
    assert sorted(order, key=MASKS.index) == order
    assert stricter(None, None) is None
    assert stricter(Mask("constant", "b"), Mask("constant", "a")) == Mask("constant", "a")


def test_a_mask_or_a_filter_alone_allows_nothing() -> None:
    assert decided(policy("mask")).effect == "deny"
    assert decided(policy("filter", row_filter="a = 1")).effect == "deny"


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        (Resource("everything"), True),
        (Resource("asset", str(COLUMN)), True),
        (Resource("asset", str(TABLE)), False),
        (Resource("under", str(COLUMN)), True),
        (Resource("under", str(TABLE)), True),
        (Resource("under", str(DATABASE)), True),
        (Resource("under", str(uuid4())), False),
        (Resource("tag", "PII"), True),
        (Resource("tag", "GDPR"), False),
        (Resource("type", "column"), True),
        (Resource("type", "table"), False),
    ],
)
def test_a_policy_is_about_its_resource_and_no_other(resource: Resource, meant: bool) -> None:
    assert (decided(policy("allow"), policy("deny", resource)).effect == "deny") == meant


@pytest.mark.parametrize(
    ("subject", "meant"),
    [
        (Subject("everyone"), True),
        (Subject("user", "ana"), True),
        (Subject("user", "Ana"), False),
        (Subject("user", "analysts"), False),
        (Subject("group", "analysts"), True),
        (Subject("role", "analysts"), False),
        (Subject("role", "viewer"), True),
    ],
)
def test_a_policy_names_its_subject_and_no_other(subject: Subject, meant: bool) -> None:
    who = Principal("ana", frozenset({"viewer"}), frozenset({"analysts"}))
    found = decided(policy("allow"), policy("deny", subjects=(subject,)), who=who)
    assert (found.effect == "deny") == meant


def test_an_exempt_group_is_not_meant() -> None:
    masked = policy("mask", Resource("tag", "PII"), exempt_groups=("pii_reader",))
    reader = Principal("rita", groups=frozenset({"pii_reader"}))
    assert decided(policy("allow"), masked).effect == "mask"
    assert decided(policy("allow"), masked, who=reader).effect == "allow"


def test_a_policy_for_another_action_says_nothing() -> None:
    assert decided(policy("allow", action="WRITE")).effect == "deny"
    assert decided(policy("allow"), policy("deny", action="DELETE")).effect == "allow"


def test_a_policy_that_is_off_or_dropped_says_nothing() -> None:
    index = Index([policy("allow"), policy("deny", enabled=False)])
    assert index.decide(ANALYST, "READ", EMAIL, MONDAY_NOON).effect == "allow"
    denies = policy("deny")
    index.put(denies)
    assert index.decide(ANALYST, "READ", EMAIL, MONDAY_NOON).effect == "deny"
    index.drop(denies.id)
    index.drop(denies.id)
    assert index.decide(ANALYST, "READ", EMAIL, MONDAY_NOON).effect == "allow"


CONDITIONS: list[tuple[dict[str, Any], bool | None]] = [
    ({}, True),
    ({"time_of_day": {"from": "09:00", "to": "18:00"}}, True),
    ({"time_of_day": {"from": "12:00", "to": "12:01"}}, True),
    ({"time_of_day": {"from": "11:00", "to": "12:00"}}, False),
    ({"time_of_day": {"from": "22:00", "to": "06:00"}}, False),
    ({"time_of_day": {"from": "20:00", "to": "21:30", "timezone": "Asia/Tokyo"}}, True),
    ({"date_range": {"from": "2026-11-16", "to": "2026-11-16"}}, True),
    ({"date_range": {"to": "2026-11-15"}}, False),
    ({"days_of_week": ["mon", "Tuesday"]}, True),
    ({"days_of_week": ["sat", "sun"]}, False),
    ({"purpose": ["fraud"]}, None),
    ({"network": ["10.0.0.0/8"]}, None),
    ({"purpose": ["fraud"], "days_of_week": ["sun"]}, False),
]


@pytest.mark.parametrize(("conditions", "verdict"), CONDITIONS)
def test_a_condition_holds_or_not_or_cannot_be_told(
    conditions: dict[str, Any], verdict: bool | None
) -> None:
    assert holds(conditions, MONDAY_NOON) is verdict
    allowing = decided(policy("allow", conditions=conditions)).effect
    assert allowing == ("allow" if verdict else "deny")
    denying = decided(policy("allow"), policy("deny", conditions=conditions)).effect
    assert denying == ("allow" if verdict is False else "deny")


def test_purpose_and_network_are_taken_from_the_situation() -> None:
    here = Situation(MONDAY_NOON.at, "fraud", ip_address("10.1.2.3"))
    assert holds({"purpose": "fraud", "network": ["10.0.0.0/8", "::1/128"]}, here) is True
    assert holds({"purpose": ["marketing"]}, here) is False
    assert holds({"network": ["192.168.0.0/16"]}, here) is False


@pytest.mark.parametrize(
    "conditions",
    [
        {"moon": "full"},
        {"time_of_day": "always"},
        {"time_of_day": {"from": "nine", "to": "18:00"}},
        {"time_of_day": {"from": "09:00", "to": "18:00", "timezone": "Mars/Olympus"}},
        {"time_of_day": {"from": "09:00", "to": "18:00", "zone": "UTC"}},
        {"date_range": {}},
        {"days_of_week": []},
        {"days_of_week": ["someday"]},
        {"network": ["here"]},
        {"purpose": 7},
    ],
)
@pytest.mark.parametrize("effect", STRENGTH)
def test_a_condition_that_nobody_can_read_denies(
    effect: Effect, conditions: dict[str, Any]
) -> None:
    with pytest.raises(UnknownCondition):
        holds(conditions, MONDAY_NOON)
    strange = policy(effect, conditions=conditions, row_filter="a = 1")
    assert decided(policy("allow"), strange).effect == "deny"
