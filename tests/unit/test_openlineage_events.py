"""Events of OpenLineage as they are read, without a store."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lily.assets.claims import when
from lily.assets.rules import problems
from lily.errors import Invalid
from lily.events.observations import AssetSeen, RunSeen
from lily.lineage import openlineage
from lily.lineage.openlineage_runs import Told, lineage, tell
from tests.flow.openlineage import columns, dataset, run_event

NOW = datetime(2026, 2, 1, tzinfo=UTC)


def told(event: dict[str, Any]) -> RunSeen:
    [_, run] = openlineage.statements(event, NOW)
    assert isinstance(run.seen, RunSeen)
    return run.seen


def the_dataset(**facets: Any) -> AssetSeen:
    seen = told(run_event("COMPLETE", 1, [], [dataset("shop.public.a", **facets)])).assets[0]
    assert isinstance(seen, AssetSeen)
    return seen


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ({"key": "pii"}, ["PII"]),
        ({"key": "PII", "value": "true"}, ["PII"]),
        ({"key": "pii", "value": True}, ["PII"]),
        ({"key": "pii", "value": "false"}, []),
        ({"key": "tier", "value": "gold"}, ["tier:gold"]),
        ({"key": " "}, []),
    ],
)
def test_a_tag_has_one_name(tag: dict[str, Any], expected: list[str]) -> None:
    assert the_dataset(tags={"tags": [tag]}).tags == expected


def test_a_facet_that_is_deleted_clears_what_it_said() -> None:
    seen = the_dataset(documentation={"_deleted": True}, tags={"_deleted": True})
    assert seen.description is None
    assert seen.tags == []


@pytest.mark.parametrize(
    ("integration", "producer", "source"),
    [
        ("SPARK", "", "spark"),
        (
            None,
            "https://github.com/OpenLineage/OpenLineage/tree/1.0/integration/airflow",
            "airflow",
        ),
        (None, "https://example.com", "openlineage"),
    ],
)
def test_who_claims_is_the_integration(integration: str | None, producer: str, source: str) -> None:
    event = run_event("COMPLETE", 1)
    event["producer"] = producer
    if integration:
        event["job"]["facets"] = {"jobType": {"integration": integration}}
    assert {each.source for each in openlineage.statements(event, NOW)} == {source}


def test_of_two_ways_the_one_that_does_not_mask_counts() -> None:
    masked = {"type": "DIRECT", "subtype": "TRANSFORMATION", "masking": True}
    plain = {"type": "DIRECT", "subtype": "IDENTITY", "masking": False}
    facet = columns(x=[("a", "y", masked), ("a", "y", plain)])
    [output] = told(run_event("COMPLETE", 1, ["a"], [dataset("b", columnLineage=facet)])).outputs
    assert [edge.masking for edge in output.edges or ()] == [False]


def test_the_old_way_to_say_that_a_column_is_masked_is_understood() -> None:
    facet = columns(x=[("a", "y", {})])
    facet["fields"]["x"] |= {
        "transformationType": "MASKED",
        "transformationDescription": "md5(y)",
    }
    [output] = told(run_event("COMPLETE", 1, ["a"], [dataset("b", columnLineage=facet)])).outputs
    [edge] = output.edges or []
    assert (edge.masking, edge.transformation) == (True, "md5(y)")


def test_a_newer_events_columns_replace_an_older_ones() -> None:
    def event(second: int, origin: str) -> dict[str, Any]:
        facet = columns(x=[("a", origin, {})])
        return run_event("RUNNING", second, ["a"], [dataset("b", columnLineage=facet)])

    for order in ((1, 2), (2, 1)):
        state = Told()
        for second in order:
            seen = told(event(second, f"y{second}"))
            tell(state, seen, when(datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), second))
        found = lineage(state, "airflow", "etl") or []
        names = [edge.from_name for edge in found if "#" in edge.from_name]
        assert names == ["postgres://db:5432/a#y2"]


def test_other_names_are_checked_like_names() -> None:
    link = {"identifiers": [{"namespace": "x", "name": "a\0b"}]}
    assert [error.field for error in problems(the_dataset(symlinks=link))] == ["aliases[0]"]


def test_time_before_clocks_is_refused() -> None:
    event = {**run_event("COMPLETE", 1), "eventTime": "0001-01-01T00:00:00+14:00"}
    with pytest.raises(Invalid, match="eventTime"):
        openlineage.statements(event, NOW)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FACETS = ("schema", "columnLineage", "tags", "symlinks", "ownership", "lifecycleStateChange",
          "documentation", "datasetType", "dataQualityAssertions", "other")  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(FACETS), JSON), st.dictionaries(st.text(max_size=9), JSON))
def test_whatever_a_facet_holds_is_read_or_refused(facets: Any, more: Any) -> None:
    event = run_event("COMPLETE", 1, [dataset("a", **facets)], [dataset("b", **facets)], **facets)
    for given_event in (event, {**event, **more}):
        try:
            for each in openlineage.statements(given_event, NOW):
                assert each.source
        except Invalid as wrong:
            assert wrong.errors
