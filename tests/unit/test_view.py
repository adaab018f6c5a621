"""The fold of claims and edits into what everybody sees."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest

from lily.assets import edits
from lily.assets.change import Assignment, Context, Known, Message, take
from lily.assets.claims import when
from lily.assets.edits import Edit, Who
from lily.assets.model import Asset
from lily.assets.view import expiry, own_name
from lily.events.observations import AssetSeen
from lily.tags.effective import effective

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TENANT = UUID(int=7)
ANN = Who("ann", "r")
CONTEXT = Context(NOW, effective, lambda name: uuid5(TENANT, name))


def known(**fields: Any) -> Known:
    made = Known(1, uuid4(), "db/t")
    see(made, "crawler", 0, **fields)
    return made


def see(made: Known, source: str, minute: int, **fields: Any) -> None:
    seen = AssetSeen(qualified_name=made.qualified_name, **fields)
    at = when(NOW + timedelta(minutes=minute), minute)
    take(made, Message(seen, source, "b", f"c{minute}", at), CONTEXT)


def shown(made: Known) -> Asset:
    assert made.asset is not None
    return made.asset


def test_the_newest_source_wins_field_by_field() -> None:
    made = known(description="old", asset_owner="dba", metadata={"a": 1, "b": 1})
    see(made, "dbt", 1, description="new", metadata={"b": 2})
    asset = shown(made)
    assert (asset.description, asset.asset_owner) == ("new", "dba")
    assert asset.metadata == {"a": 1, "b": 2}


def test_a_tenants_priority_beats_the_newest() -> None:
    made = known(description="trusted")
    first = Context(NOW, effective, CONTEXT.resolve, {"crawler": 0})
    seen = AssetSeen(qualified_name="db/t", description="newer")
    take(made, Message(seen, "dbt", "b", "c", when(NOW + timedelta(days=1), 9)), first)
    assert shown(made).description == "trusted"


@pytest.mark.parametrize(
    ("sources", "person", "seen"),
    [
        ([["public"]], ["PII"], ["public"]),
        ([[]], ["PII", "internal"], ["PII"]),
        ([["gold"]], ["gold", "raw"], ["gold", "raw"]),
        ([["internal"], ["PII"]], [], ["internal"]),
    ],
)
def test_tags_fold_by_origin_within_an_exclusive_group(
    sources: list[list[str]], person: list[str], seen: list[str]
) -> None:
    assert effective(None, sources, person) == seen


def test_an_edit_signs_each_field_and_keeps_the_signature_of_what_stays() -> None:
    made = known(description="source")
    edits.edit(made, Edit(fields={"description": "d"}), ANN, CONTEXT)
    bob = Who("bob", "r2")
    later = Context(NOW + timedelta(hours=1), effective, CONTEXT.resolve)
    outcome = edits.edit(made, Edit(fields={"description": "d", "asset_owner": "o"}), bob, later)
    layer = shown(made).edited
    assert layer is not None
    assert (layer["description"]["by"], layer["asset_owner"]["by"]) == ("ann", "bob")
    assert [fact.after for fact in outcome.facts] == [{"asset_owner": "o"}]


def test_a_whole_edit_hides_metadata_that_it_leaves_out() -> None:
    made = known(metadata={"a": 1, "b": 2})
    edits.edit(made, Edit(metadata={"a": 1}, whole=True), ANN, CONTEXT)
    assert shown(made).metadata == {"a": 1}
    assert list(shown(made).edited or {}) == ["metadata.b"]
    see(made, "crawler", 1, metadata={"a": 3, "b": 3})
    assert shown(made).metadata == {"a": 3}


def test_a_whole_edit_with_null_clears_what_shows() -> None:
    made = known(description="source")
    edits.edit(made, Edit(fields={"description": None}, whole=True), ANN, CONTEXT)
    assert shown(made).description is None


def test_an_edit_that_equals_the_source_is_kept_when_it_was_asked_for() -> None:
    made = known(description="same")
    outcome = edits.edit(made, Edit(fields={"description": "same"}), ANN, CONTEXT)
    assert (outcome.facts, outcome.changed) == ([], True)
    see(made, "crawler", 1, description="other")
    assert shown(made).description == "same"
    assert edits.shadowed(made, CONTEXT) == ["description"]


def test_tags_of_rules_and_other_people_are_not_touched() -> None:
    made = known()
    made.assignments = [
        Assignment("PII", "rule", "classify", "suggested"),
        Assignment("gold", "person", "bob", "active"),
        Assignment("raw", "person", "ann", "active"),
    ]
    outcome = edits.edit(made, Edit(tags=["new"]), ANN, CONTEXT)
    assert [a.tag for a in outcome.withdrawn] == ["raw"]
    assert [a.tag for a in outcome.assigned] == ["new"]
    assert [(a.tag, a.by) for a in made.assignments] == [
        ("PII", "classify"), ("gold", "bob"), ("new", "ann"),
    ]  # fmt: skip


def test_only_a_persons_delete_replaces_another() -> None:
    made = known()
    assert edits.mark(made, "parent:x", ANN, NOW).facts
    assert not edits.mark(made, "retention", ANN, NOW).changed
    assert edits.delete(made, ANN, NOW).facts[0].before == {
        "is_deleted": True, "deleted_by": "parent:x",
    }  # fmt: skip
    assert not edits.delete(made, ANN, NOW).changed


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("postgres://h/a.b", "a.b"),
        ("t#col", "col"),
        ("t#a%23b", "a#b"),
        ("s3://bucket/", "bucket"),
        ("plain", "plain"),
    ],
)
def test_an_asset_that_nobody_named_has_the_last_part_of_its_name(name: str, own: str) -> None:
    assert own_name(name) == own


@pytest.mark.parametrize(
    ("policy", "days"),
    [
        ({"enabled": True, "retention_period_days": 30}, 30),
        ({"enabled": False, "retention_period_days": 30}, None),
        ({"enabled": True}, None),
        ("nonsense", None),
    ],
)
def test_an_asset_expires_a_period_after_it_was_last_observed(
    policy: object, days: int | None
) -> None:
    wanted = NOW + timedelta(days=days) if days is not None else None
    assert expiry({"retention_policy": policy}, NOW) == wanted
