"""The rules of identity, without a database."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from lily.errors import Invalid
from lily.identity import opaque, passwords, roles, throttle

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def failures(*seconds_ago: float) -> list[datetime]:
    return [NOON - timedelta(seconds=ago) for ago in seconds_ago]


def test_each_role_may_only_more_than_the_one_below() -> None:
    order = ["viewer", "editor", "steward", "admin"]
    assert all(
        roles.weaker(low, high) and not roles.weaker(high, low) for low, high in pairwise(order)
    )


def test_only_a_platform_admin_manages_tenants() -> None:
    assert all("tenants:manage" not in roles.scopes_of(role) for role in roles.ROLES)
    assert "tenants:manage" in roles.scopes_of("admin", platform=True)


def test_a_role_that_does_not_exist_may_nothing() -> None:
    assert roles.scopes_of("king", platform=True) == frozenset()


def test_four_failures_cost_nothing_and_the_fifth_a_pause() -> None:
    assert throttle.wait(failures(1, 2, 3, 4), throttle.PER_USER, NOON) == 0
    assert throttle.wait(failures(1, 2, 3, 4, 5), throttle.PER_USER, NOON) == 4


def test_the_pause_grows_and_has_an_end() -> None:
    pauses = [throttle.wait(failures(*[0] * n), throttle.PER_USER, NOON) for n in range(5, 20)]
    assert pauses == sorted(pauses) and pauses[:3] == [5, 10, 20]
    assert pauses[-1] == throttle.LONGEST_WAIT


def test_failures_are_forgotten_after_five_minutes() -> None:
    assert throttle.wait(failures(*[301] * 9), throttle.PER_USER, NOON) == 0


@pytest.mark.parametrize("password", ["short", "a" * 12, "administrator", "x" * 201])
def test_a_weak_password_is_refused_with_a_reason(password: str) -> None:
    with pytest.raises(Invalid) as refusal:
        passwords.check_rules(password, "administrator")
    assert refusal.value.errors[0].field == "password"


def test_a_password_matches_only_itself_and_nobody_has_none() -> None:
    stored = passwords.hashed("correct horse 1")
    assert passwords.matches("correct horse 1", stored)
    assert not passwords.matches("correct horse 2", stored)
    assert not passwords.matches("correct horse 1", None)
    assert not passwords.matches("correct horse 1", "not a hash")


def test_an_opaque_token_carries_its_tenant_and_hides_the_rest() -> None:
    token = opaque.new(opaque.PERSONAL, 7)
    assert token.text.startswith("lily_7_")
    assert opaque.parse(token.text) == token
    assert opaque.parse(token.text + "x") is None
    assert opaque.parse(token.text[:-1]) is None
