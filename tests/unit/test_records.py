"""Files of assets, read piece by piece."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.formats import records
from lily.formats.records import read


def values(text: str) -> list[object]:
    return [record.value for record in read(io.StringIO(text)) if not record.reason]


def faults(text: str) -> list[tuple[int, str]]:
    return [(record.line, record.reason) for record in read(io.StringIO(text)) if record.reason]


def test_one_object_over_many_lines() -> None:
    assert values('{\n "a": 1\n}\n') == [{"a": 1}]


def test_an_object_a_line_with_blank_lines_between() -> None:
    assert values('{"a": 1}\n\n{"a": 2}\n') == [{"a": 1}, {"a": 2}]


def test_an_array() -> None:
    assert values('[{"a": 1}, {"a": 2}]') == [{"a": 1}, {"a": 2}]


def test_an_empty_file_and_an_empty_array_hold_nothing() -> None:
    assert values("") == values("  \n") == values("[ ]") == []


def test_a_broken_line_costs_that_line_only() -> None:
    text = '{"a": 1}\n{"a": tru}\n{"a": "x\n{"a": 4}\n'
    assert values(text) == [{"a": 1}, {"a": 4}]
    assert [line for line, _ in faults(text)] == [2, 3]


@pytest.mark.parametrize("text", ['[{"a": 1}', '[{"a": 1} {"a": 2}]', '[{"a": 1}, oops]'])
def test_a_broken_array_is_told_once(text: str) -> None:
    assert values(text) == [{"a": 1}]
    assert len(faults(text)) == 1


def test_a_value_nested_too_deep_is_told() -> None:
    assert len(faults("[" * 100_000)) == 1


def test_lines_are_counted_across_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "CHUNK", 7)
    found = list(read(io.StringIO('[\n{"a": 1},\n\n{"b":\n 2}\n]')))
    assert [(record.line, record.value) for record in found] == [(2, {"a": 1}), (4, {"b": 2})]


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5),
            st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
            max_size=4,
        ),
        max_size=8,
    ),
    st.booleans(),
    st.integers(1, 40),
)
def test_whatever_is_written_is_read(items: list[object], lines: bool, chunk: int) -> None:
    text = "\n".join(map(json.dumps, items)) if lines else json.dumps(items, indent=1)
    before, records.CHUNK = records.CHUNK, chunk
    try:
        assert values(text) == items
    finally:
        records.CHUNK = before
