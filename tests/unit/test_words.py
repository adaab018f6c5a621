"""How texts become words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.assets import words
from lily.store.vectors import written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("customerOrders", {"customer", "orders", "customerorders"}),
        ("dim_customer.daily", {"dim", "customer", "daily"}),
        ("HTTPServer2", {"http", "server", "2", "httpserver2"}),
        ("Straße-ÄÖÜ", {"straße", "äöü"}),
        ("日本語", {"日本語"}),
        ("", set()),
        ("'&|!()\\:*", set()),
    ],
)
def test_a_text_splits_at_case_digits_and_marks(text: str, expected: set[str]) -> None:
    assert set(words.split(text)) == expected


def test_a_vector_weighs_name_over_path_over_description() -> None:
    found = words.lexemes("people", "db/hr.people", "Everybody in hr and people", ["=type:table"])
    assert set(written(found).split()) == {
        "'people':1A", "'db':1B", "'hr':1B", "'everybody':1C", "'=name:people'", "'=type:table'",
    }  # fmt: skip


def test_quotes_and_backslashes_stay_inside_their_lexeme() -> None:
    vector = written(words.lexemes("a'b\\c", "x", None, [words.facet("tag", "it's \\ here")]))
    assert "'=name:a''b\\\\c'" in vector
    assert "'=tag:it''s \\\\ here'" in vector


@given(
    st.lists(st.text(alphabet="aB7İ.-", min_size=1, max_size=450), max_size=6),
    st.sampled_from([" ", "\n", ", "]),
)
def test_no_word_of_a_description_is_longer_than_a_lexeme(written: list[str], between: str) -> None:
    found = words._prose(between.join(written))
    whole = {
        word[: words.MAX_LEXEME] for word in words._CHUNK.findall(between.join(written).lower())
    }
    assert found == whole


@given(
    st.text(alphabet="aB7İ.-#/_", max_size=30),
    st.text(alphabet="aB7İ.-#/_", min_size=1, max_size=12),
)
def test_words_of_a_place_are_those_of_the_whole_name_however_it_is_taken_apart(
    place: str, name: str
) -> None:
    for qualified in (name, f"{place}.{name}", f"{place}#{name}"):
        found = {*words._place_words(qualified, name), *words.split(name)}
        assert found == {*words.split(qualified), *words.split(name)}
