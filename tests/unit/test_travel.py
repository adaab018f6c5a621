"""What a fact stirs, what hides, what carries: pure decisions of propagation."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from lily.lineage.hiding import hides
from lily.lineage.stirred import Told, stirred
from lily.lineage.travel import Carrier, Definition, Filter, Rule, carriers, in_scope
from lily.pipeline.nightly import following

A, B, E = (UUID(int=n) for n in (1, 2, 3))


def told(kind: str, guid: UUID | None = A, by: str = "ann", **more: object) -> Told:
    return Told(1, kind, guid, "cause", by, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["sha256(email)", "to_hex(SHA2(email, 256))", "count(distinct email)", "md5(concat(a, b))",
     "cast(count(*) as bigint)", "encode(digest(email, 'sha256'), 'hex')", "mask(card)"],
)  # fmt: skip
def test_what_hides_its_input_is_known(text: str) -> None:
    assert hides(text, False)


@pytest.mark.parametrize(
    "text",
    [None, "", "email", "lower(email)", "sha256(email) || email", "coalesce(md5(a), a)",
     "hash_key", "concat('count(', email, ')')", "count(x) over (partition by email)", "sha256("],
)  # fmt: skip
def test_what_may_show_its_input_is_not_trusted(text: str | None) -> None:
    assert hides(text, False) is None


def test_a_flag_that_says_masking_is_believed() -> None:
    assert hides("upper(email)", True)


def test_a_changed_tag_stirs_its_asset_and_its_own_names_only() -> None:
    fact = told("TagsChanged", before={"tags": ["PII", "x"]}, after={"tags": ["x"], "own": ["y"]})
    found = stirred([fact])
    assert (set(found.nodes), found.names) == ({A}, {"PII", "x", "y"})


def test_what_propagation_told_itself_stirs_nothing() -> None:
    echo = told("TagsChanged", before={"tags": []}, after={"tags": ["PII"], "propagated": {}})
    block = told("BlockCreated", by="propagation", after={"edge_id": str(E), "origin": "rule"})
    assert stirred([echo, block]).is_calm


def test_a_person_who_is_called_propagation_is_heard() -> None:
    fact = told("TagsChanged", by="propagation", before={"tags": []}, after={"tags": ["PII"]})
    after = {"edge_id": str(E), "origin": "person", "name": "PII"}
    assert set(stirred([fact, told("BlockCreated", by="propagation", after=after)]).edges) == {E}
    assert not stirred([fact]).is_calm


def test_an_edge_stirs_its_ends_for_every_name() -> None:
    after = {"edge_id": str(E), "upstream": str(A), "downstream": str(B)}
    found = stirred([told("EdgeDeleted", B, after=after)])
    assert (found.ends, found.names, set(found.nodes)) == ({(A, B)}, None, set())


def test_a_definition_stirs_everything_only_if_it_travels_otherwise() -> None:
    painted = told("TagDefinitionChanged", None, before={"name": "x", "colour": "#000000"},
                   after={"name": "x", "colour": "#ffffff"})  # fmt: skip
    assert stirred([painted]).is_calm
    switched = told("TagDefinitionChanged", None, before={"name": "x", "propagates": False},
                    after={"name": "x", "propagates": True})  # fmt: skip
    found = stirred([switched])
    assert (found.whole, found.names) == (switched, {"x"})


def test_changed_fields_stir_under_the_names_by_which_they_travel() -> None:
    before = {"asset_owner": "a", "metadata": {"zone": 1, "same": 2}, "business_terms": ["t"]}
    after = {"asset_owner": "b", "metadata": {"zone": 2, "same": 2}, "business_terms": []}
    found = stirred([told("AssetChanged", before=before, after=after)])
    assert found.names == {"asset_owner", "metadata.zone", "t"}
    assert stirred([told("AssetChanged", before={"asset_name": "a"}, after={})]).is_calm


def test_carriers_come_from_definitions_and_rules() -> None:
    rule = Rule(uuid4(), "tag", ["x", "y"], None, "upstream", 5, Filter(), Filter(), "when_empty")
    found = carriers([Definition("PII", None, 500)], [Definition("churn")], [rule])
    assert [(c.field, c.name, c.max_depth) for c in found] == [
        ("tag", "PII", 100), ("term", "churn", 100), ("tag", "x", 5), ("tag", "y", 5)
    ]  # fmt: skip
    assert [c.name for c in in_scope(found, {"PII", "y"})] == ["PII", "y"]
    everything = Carrier("tag")
    assert in_scope([everything], {"anything"}) == [everything]


def test_the_check_comes_once_a_night() -> None:
    before, after = datetime(2026, 5, 1, 2, 59, tzinfo=UTC), datetime(2026, 5, 1, 3, tzinfo=UTC)
    assert following(before) == after
    assert following(after) == after + timedelta(days=1)
