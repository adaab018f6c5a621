"""The built-in hooks, reached by name as every tenant reaches them."""

import time
from typing import Any

import pytest
from msgspec import UNSET

from lily import plugins
from lily.errors import PluginError
from lily.sdk import AssetGone, AssetSeen, Hook, Observation
from lily.sdk.testing import HookContract, ask

RENAMING = {
    "fields": {"metadata.owner": "asset_owner", "external_id": "metadata.legacy_id"},
    "values": {
        "asset_type": "lower",
        "metadata.env": ["strip", {"prod": "production"}],
        "qualified_name": "lower",
    },
    "tags": {"personal": "PII"},
    "drop": ["etl_run", "tmp_*"],
}


def hook(name: str, **options: Any) -> Hook:
    built: Hook = plugins.build("hook", name, options)
    return built


def seen_by(made: Hook, **fields: Any) -> AssetSeen:
    answer = made(AssetSeen(**{"qualified_name": "a", **fields}))
    assert isinstance(answer, AssetSeen)
    return answer


def tags_of(name: str, **fields: Any) -> set[str]:
    return {s.tag for s in seen_by(hook("classify"), asset_name=name, **fields).suggestions}


class TestRename(HookContract):
    def make(self) -> Hook:
        return hook("rename", **RENAMING)

    def examples(self) -> list[Observation]:
        return [
            AssetSeen(
                qualified_name="A#B",
                external_id="7",
                tags=["personal", "PII"],
                metadata={"owner": "Ann", "env": " prod ", "tmp_1": 1, "etl_run": 2},
            )
        ]


class TestClassify(HookContract):
    def make(self) -> Hook:
        return hook("classify")


class TestClassifyThatApplies(HookContract):
    def make(self) -> Hook:
        return hook("classify", mode="apply")


def test_fields_move_both_ways() -> None:
    seen = seen_by(hook("rename", **RENAMING), external_id="7", metadata={"owner": "Ann", "x": 1})
    assert (seen.asset_owner, seen.external_id) == ("Ann", UNSET)
    assert seen.metadata == {"x": 1, "legacy_id": "7"}


def test_a_field_with_a_value_is_not_overwritten_and_nothing_is_lost() -> None:
    seen = seen_by(hook("rename", **RENAMING), asset_owner="Bob", metadata={"owner": "Ann"})
    assert (seen.asset_owner, seen.metadata) == ("Bob", {"owner": "Ann"})


@pytest.mark.parametrize(("value", "owner"), [(7, "7"), (True, "true"), (None, None), ("x", "x")])
def test_a_plain_value_becomes_text_in_a_field(value: object, owner: object) -> None:
    assert seen_by(hook("rename", **RENAMING), metadata={"owner": value}).asset_owner == owner


def test_what_is_no_text_stays_in_metadata() -> None:
    seen = seen_by(hook("rename", **RENAMING), metadata={"owner": ["Ann", "Bob"]})
    assert (seen.asset_owner, seen.metadata) == (UNSET, {"owner": ["Ann", "Bob"]})


def test_values_are_normalised_in_order() -> None:
    seen = seen_by(hook("rename", **RENAMING), asset_type="TABLE", metadata={"env": " prod "})
    assert (seen.asset_type, seen.metadata) == ("table", {"env": "production"})


def test_renamed_tags_are_not_doubled() -> None:
    assert seen_by(hook("rename", **RENAMING), tags=["personal", "x", "PII"]).tags == ["PII", "x"]


def test_unwanted_metadata_is_dropped() -> None:
    seen = seen_by(hook("rename", **RENAMING), metadata={"tmp_a": 1, "etl_run": 2, "keep": 3})
    assert seen.metadata == {"keep": 3}


def test_what_was_stored_under_a_normalised_name_also_goes_under_it() -> None:
    answer = hook("rename", **RENAMING)(AssetGone(qualified_name="Shop.People"))
    assert answer == AssetGone(qualified_name="shop.people")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"fields": {"tags": "asset_owner"}}, "options.fields.tags"),
        ({"fields": {"asset_owner": "qualified_name"}}, "options.fields"),
        ({"fields": {"asset_owner": "description", "description": "asset_name"}}, "options.fields"),
        ({"values": {"asset_type": "title"}}, "options.values.asset_type"),
        ({"values": {"asset_type": {"a": "b", "b": "c"}}}, "options.values.asset_type"),
        ({"drop": [""]}, "options.drop.0"),
        ({"renames": {}}, "options.renames"),
    ],
)
def test_a_wrong_renaming_is_named(options: dict[str, Any], place: str) -> None:
    with pytest.raises(PluginError, match=place.replace(".", r"\.")):
        plugins.build("hook", "rename", options)


@pytest.mark.parametrize(
    "name",
    [
        "email", "EMAIL", "e_mail", "eMail", "customerEmail", "customer_email_address", "email2",
        "emails", "ssn", "customerSSN", "social_security_number", "phone", "PhoneNumber",
        "home-phone", "mobile", "mobile_number", "iban", "birth_date", "dateOfBirth", "dob",
        "passport_no", "first_name", "lastName", "surname", "address", "billing_address",
        "shippingAddr", "tax_id", "drivers_license",
    ],
)  # fmt: skip
def test_names_that_hold_personal_data_are_found(name: str) -> None:
    assert tags_of(name) == {"PII"}


@pytest.mark.parametrize("name", ["credit_card", "cardNumber", "debitCardNo", "cvv", "CARD_NUMBER"])
def test_names_that_hold_card_data_are_found(name: str) -> None:
    assert tags_of(name) == {"PCI"}


@pytest.mark.parametrize(
    "name",
    [
        "emailed_at", "emailer", "female", "microphone", "phoneme", "mobile_app", "addressed",
        "name", "id", "ribana", "dobby", "cardinality", "assn", "lesson", "birth_rate", "",
    ],
)  # fmt: skip
def test_names_that_only_look_like_it_are_left_alone(name: str) -> None:
    assert tags_of(name) == set()


def test_without_a_name_the_last_part_of_the_qualified_name_counts() -> None:
    column = seen_by(hook("classify"), qualified_name="postgres://h:1/email.people#created")
    assert column.suggestions == []
    table = seen_by(hook("classify"), qualified_name="postgres://h:1/shop.public.emails")
    assert [s.tag for s in table.suggestions] == ["PII"]


def test_a_suggestion_says_who_and_why_and_comes_once() -> None:
    once = seen_by(hook("classify"), asset_name="user_email")
    assert [(s.tag, s.by, s.reason) for s in once.suggestions] == [
        ("PII", "classify", "the name has 'email'")
    ]
    assert hook("classify")(once) is once
    assert seen_by(hook("classify"), asset_name="email", tags=["PII"]).suggestions == []


def test_applied_tags_join_those_of_the_source() -> None:
    apply = hook("classify", mode="apply")
    assert seen_by(apply, asset_name="email", tags=["x"]).tags == ["x", "PII"]
    assert seen_by(apply, asset_name="email").tags == ["PII"]
    assert seen_by(apply, asset_name="email", tags=["x"], partial=True).tags == ["x", "PII"]


def test_a_partial_observation_without_tags_is_only_a_suggestion() -> None:
    seen = seen_by(hook("classify", mode="apply"), asset_name="email", partial=True)
    assert seen.tags is UNSET
    assert [s.tag for s in seen.suggestions] == ["PII"]


def test_own_rules_replace_the_defaults_and_may_name_types() -> None:
    rules = [
        {"pattern": "^HR_", "tag": "HR", "types": ["Table"]},
        {"pattern": "salary|wage", "tag": "Pay"},
    ]
    own = hook("classify", rules=rules)

    def tags(name: str, kind: str) -> list[str]:
        seen = seen_by(own, asset_name=name, asset_type=kind)
        return [s.tag for s in seen.suggestions]

    assert tags("hr_wages", "table") == ["HR", "Pay"]
    assert tags("hr_wages", "column") == ["Pay"]
    assert tags("email", "table") == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$", "(a|aa)+$", "(a?){30}", "a?" * 30 + "a" * 30, ".*.*.*x", "[a-z]+[a-z]+[a-z]+!",
        r"(.)\1", "(?P<x>a)", "(?i)a", "(", "", "x" * 301, "(?s:a.b)*c*d*e*",
    ],
)  # fmt: skip
def test_a_pattern_that_could_hang_or_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(PluginError, match=r"options\.rules\.0\.pattern"):
        plugins.build("hook", "classify", {"rules": [{"pattern": pattern, "tag": "x"}]})


def test_rules_that_are_too_much_together_are_refused() -> None:
    rules = [{"pattern": f"a.*{n}", "tag": "x"} for n in range(10)]
    with pytest.raises(PluginError, match=r"options\.rules: together"):
        plugins.build("hook", "classify", {"rules": rules})
    anchored = [{"pattern": f"^a.*{n}", "tag": "x"} for n in range(200)]
    assert plugins.build("hook", "classify", {"rules": anchored})


@pytest.mark.parametrize("pattern", ["^a.*b.*c$", ".*a$", "[a-z]+!", "(?:a|b|c).{0,30}(?:d|e)!"])
def test_an_admitted_pattern_is_quick_on_the_worst_name(pattern: str) -> None:
    slow = hook("classify", rules=[{"pattern": pattern, "tag": "x"}])
    began = time.perf_counter()
    for name in ("a" * 100_000, "ab" * 50_000, "A_" * 50_000):
        ask(slow, AssetSeen(qualified_name="a", asset_name=name))
    assert time.perf_counter() - began < 0.5


@pytest.mark.parametrize("made", [hook("classify"), hook("rename", **RENAMING)])
def test_a_hook_that_finds_nothing_returns_the_very_same_object_and_is_quick(made: Hook) -> None:
    metadata = {f"key_{n}": "value" for n in range(10)}
    seen = AssetSeen(
        qualified_name="postgres://h:5432/shop.public.orders#customer_order_total",
        asset_name="customer_order_total",
        asset_type="column",
        tags=["x"],
        metadata=metadata,
    )
    assert made(seen) is seen
    best = min(_microseconds(made, seen) for _ in range(5))
    assert best < 30  # about 1 to 4 on an idle machine; this only catches a different order


def _microseconds(made: Hook, seen: Observation) -> float:
    began = time.perf_counter()
    for _ in range(1000):
        made(seen)
    return (time.perf_counter() - began) * 1000
