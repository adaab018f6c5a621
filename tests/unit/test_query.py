"""What the parameters of a search mean, and which are refused."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from lily.assets.query import Query, loosened, mark, parse, telling
from lily.errors import Invalid

SEVENTEEN = " ".join(f"w{number}" for number in range(17))


def _refused(*given: tuple[str, str]) -> list[str]:
    with pytest.raises(Invalid) as caught:
        parse(given)
    return [error.field for error in caught.value.errors]


def test_the_last_word_is_a_prefix_and_the_others_are_whole() -> None:
    query = parse([("q", "dim custom")])
    assert query.wanted == "'dim' & 'custom':*"
    assert query.looser == "'dim':* & 'custom':*"


def test_a_short_word_is_a_prefix_only_at_the_end() -> None:
    assert parse([("q", "a dim cu")]).looser == "'a' & 'dim':* & 'cu':*"
    assert parse([("q", "a b cu")]).looser is None
    assert parse([("q", "日 b")]).looser == "'日':* & 'b':*"


def test_a_word_that_splits_matches_whole_or_by_its_parts() -> None:
    assert parse([("q", "customerOrders")]).wanted == (
        "('customerorders':* | ('customer':* & 'orders':*))"
    )


def test_operators_are_not_words() -> None:
    assert parse([("q", "a&b | !c :* <-> 'd' \\")]).wanted == "'a' & 'b' & 'c' & 'd':*"
    assert parse([("q", "&|!():*<->")]).nothing


def test_one_of_several_types_is_enough_but_all_tags_must_hold() -> None:
    query = parse([("asset_type", "table"), ("asset_type", "view"), ("tag", "PII"), ("tag", "x")])
    assert query.wanted == "'=tag:pii' & '=tag:x' & ('=type:table' | '=type:view')"
    assert query.exact is None


def test_values_are_quoted() -> None:
    assert parse([("metadata.a'b", "c\\d & 'e'")]).wanted == "'=meta:a''b:c\\\\d & ''e'''"


def test_a_time_is_read_in_utc_even_when_its_plus_sign_was_lost() -> None:
    expected = datetime(2026, 1, 31, 10, tzinfo=UTC)
    for text in ("2026-01-31T10:00:00Z", "2026-01-31T12:00:00+02:00", "2026-01-31T12:00:00 02:00"):
        assert parse([("updated_since", text)]).since == expected
    assert parse([("updated_since", "2026-01-31")]).since == datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"), ("limit", "201"), ("limit", "ten"), ("limit", "²"), ("limit", ""),
        ("deleted", "maybe"), ("updated_since", "yesterday"), ("after", "nonsense"),
        ("after", "e30"), ("tag", " "), ("q", "x" * 1001), ("q", SEVENTEEN),
        ("colour", "red"), ("metadata.", "x"), ("updated_since", "0001-01-01T00:00:00+14:00"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named(name: str, value: str) -> None:
    assert _refused((name, value)) == [name]


def test_everything_wrong_is_said_at_once() -> None:
    assert _refused(("limit", "x"), ("deleted", "x"), ("q", "a"), ("q", "b")) == [
        "q", "deleted", "limit",
    ]  # fmt: skip


def test_a_mark_leads_back_to_its_own_query_only() -> None:
    query = parse([("q", "dim custom"), ("limit", "5")])
    guid = uuid4()
    following = parse(
        [("q", "dim custom"), ("after", mark(query, "ranked", 3, "näme", guid))]
    ).after
    assert following is not None
    assert (following.rank, following.name, following.guid) == (3, "näme", guid)
    assert _refused(("q", "other"), ("after", mark(query, "ranked", 3, "x", guid))) == ["after"]


def test_a_mark_remembers_that_the_words_were_loosened() -> None:
    query = parse([("q", "dim custom")])
    again = parse([("q", "dim custom"), ("after", mark(loosened(query), "ranked", 0, "", uuid4()))])
    assert again.wanted == query.looser


def test_nothing_asked_is_everything() -> None:
    assert parse([]) == Query()


def test_common_words_are_left_out_unless_there_are_no_others() -> None:
    assert telling(["the", "board", "of", "directors"]) == ("board", "directors")
    assert telling(["of", "the"]) == ("of", "the")
