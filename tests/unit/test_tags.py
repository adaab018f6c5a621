"""The fold of assignments into what shows, what spreads, and what is in conflict."""

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4, uuid5

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from lily.assets import labels
from lily.assets.change import (
    Assignment,
    Context,
    Known,
    Message,
    changes,
    first_claim,
    settle,
    take,
    view_of,
)
from lily.assets.claims import when
from lily.assets.edits import Edit, Who, edit, show
from lily.assets.labels import Label
from lily.assets.model import PROPAGATED, Asset, Propagated
from lily.events.facts import Fact
from lily.events.observations import AssetSeen
from lily.tags.effective import BUILT_IN, Group, conflicts, effective, grouped, inherited, own

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TENANT = UUID(int=7)
CONTEXT = Context(NOW, effective, lambda name: uuid5(TENANT, name), own_tags=own)
ANN = Who("ann", "r")
TAGS = ("public", "internal", "confidential", "PII", "gold", "raw", "GDPR")
some = st.lists(st.sampled_from(TAGS), max_size=4)
settled = st.lists(st.tuples(st.sampled_from(TAGS[:4]), some), max_size=2)


def seen(known: Known, minute: int, source: str = "crawler", **fields: object) -> None:
    observation = AssetSeen(qualified_name=known.qualified_name, **fields)  # type: ignore[arg-type]
    at = when(NOW + timedelta(minutes=minute), minute)
    take(known, Message(observation, source, "b", f"c{minute}", at), CONTEXT)


def asset_of(known: Known) -> Asset:
    assert known.asset is not None
    return known.asset


@given(st.lists(some, max_size=3), some, some, settled, st.randoms())
def test_the_fold_does_not_ask_in_which_order_anything_was_said(
    sources: list[list[str]],
    person: list[str],
    brought: list[str],
    chosen: list[tuple[str, list[str]]],
    chance: random.Random,
) -> None:
    first = effective(BUILT_IN, sources, person, brought, chosen)
    mine = own(BUILT_IN, sources, person, chosen)
    shuffled = [chance.sample(tags, len(tags)) for tags in sources]
    person, brought = chance.sample(person, len(person)), chance.sample(brought, len(brought))
    chosen = chance.sample(chosen, len(chosen))
    assert effective(BUILT_IN, shuffled, person, brought, chosen) == first
    assert own(BUILT_IN, shuffled, person, chosen) == mine


@given(st.lists(some, max_size=3), some, some)
def test_a_conflict_shows_one_and_weakens_nothing(
    sources: list[list[str]], person: list[str], brought: list[str]
) -> None:
    shown = effective(BUILT_IN, sources, person, brought)
    every = set(person).union(brought, *sources)
    group = every.intersection(TAGS[:4])
    assert len(group.intersection(shown)) == bool(group)
    assert every - group == set(shown) - group
    # What is shown or own protects: together they hold the strictest of all that was said.
    protective = set(own(BUILT_IN, sources, person)).union(shown)
    if group:
        assert max(group, key=TAGS.index) in protective


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["dba", "dbt"]), some), max_size=5), st.randoms())
def test_observations_and_persons_may_come_in_any_order(
    said: list[tuple[str, list[str]]], chance: random.Random
) -> None:
    def outcome(order: list[int]) -> tuple[list[str], list[str]]:
        known = Known(1, UUID(int=1), "db/t")
        seen(known, 0)
        for index in order:
            if index == -1:
                labels.assign(known, "tag", [Label("PII"), Label("gold")], ANN, CONTEXT)
            else:
                source, tags = said[index]
                seen(known, index + 1, source, tags=tags)
        asset = asset_of(known)
        return asset.tags, asset.own

    order = [-1, *range(len(said))]
    assert outcome(order) == outcome(chance.sample(order, len(order)))


def test_groups_may_show_the_person_or_the_strictest() -> None:
    tags = ("raw", "gold")
    for precedence, sources, person, shown in (
        ("source", [["gold"]], ["raw"], ["gold"]),
        ("person", [["gold"]], ["raw"], ["raw"]),
        ("restrictive", [["raw"], ["gold"]], ["raw"], ["gold"]),
    ):
        groups = grouped([Group("quality", tags, precedence)])  # type: ignore[arg-type]
        assert effective(groups, sources, person) == shown


def test_lineage_raises_and_never_lowers() -> None:
    assert effective(None, [["public"]], [], ["PII"]) == ["PII"]
    assert effective(None, [["PII"]], [], ["public"]) == ["PII"]
    assert own(None, [["public"]], []) == ["public"]
    assert effective(None, [["public"]], [], ["PII"], [("public", ["public", "PII"])]) == ["public"]


def test_the_nearest_container_is_heard() -> None:
    assert inherited(None, [], [["PII"], ["public", "GDPR"]]) == ["GDPR", "PII"]
    assert inherited(None, ["internal"], [["PII"]]) == ["internal"]


def test_a_choice_ends_the_conflict_it_was_made_for() -> None:
    assert conflicts(None, ["public", "PII"])[0][1] == ["public", "PII"]
    chosen = [("PII", ["public", "PII"])]
    assert conflicts(None, ["public", "PII"], chosen) == []
    assert conflicts(None, ["public", "PII", "internal"], chosen) != []


def respread(known: Known) -> list[Fact]:
    """Show the asset again after what lineage brings was changed."""
    before = asset_of(known)
    known.asset = msgspec.structs.replace(before)
    show(known.asset, view_of(known, CONTEXT))
    settle(known, CONTEXT)
    return changes(before, known.asset, "propagation", "c", NOW)


def brought(field: str = "tag", name: str = "PII", value: str = "", **more: object) -> Propagated:
    plain = {"root": UUID(int=5), "depth": 2, "via": UUID(int=6), **more}
    return Propagated(field, name, value, **plain)  # type: ignore[arg-type]


def test_what_lineage_brings_shows_and_is_nobodys_own() -> None:
    known = Known(1, uuid4(), "db/t")
    seen(known, 0, asset_name="t", asset_type="table", tags=["gold"], business_terms=["a"])
    known.propagated = [brought(), brought("term", "churn")]
    facts = respread(known)
    asset = asset_of(known)
    assert (asset.tags, asset.own_tags) == (["PII", "gold"], ["gold"])
    assert (asset.business_terms, asset.own_terms) == (["a", "churn"], ["a"])
    assert asset.layers == PROPAGATED
    assert asset.statement is None
    assert first_claim(asset) == known.claims["crawler"]
    assert {fact.kind for fact in facts} == {"TagsChanged", "AssetChanged"}
    seen(known, 1, tags=["PII"])
    assert (asset_of(known).tags, asset_of(known).own) == (["PII"], ["PII"])
    known.propagated = []
    respread(known)
    asset = asset_of(known)
    assert (asset.tags, asset.own_tags, asset.layers) == (["PII"], None, 0)


def test_a_derived_field_fills_a_gap_or_wins_by_rule_but_never_over_a_person() -> None:
    known = Known(1, uuid4(), "db/t")
    seen(known, 0, description="own", metadata={"k": 1})
    known.propagated = [
        brought("asset_owner", "", "far", depth=3),
        brought("asset_owner", "", "near", depth=1),
        brought("description", "", "from above"),
        brought("metadata.k", "", "2", always=True),
        brought("metadata.certificate", "", '"gold"'),
    ]
    respread(known)
    asset = asset_of(known)
    assert (asset.asset_owner, asset.description) == ("near", "own")
    assert asset.metadata == {"k": 2, "certificate": "gold"}
    assert asset.statement is not None
    edit(known, Edit(fields={"asset_owner": "ann"}, metadata={"k": 3}), ANN, CONTEXT)
    assert (asset_of(known).asset_owner, asset_of(known).metadata["k"]) == ("ann", 3)
    known.propagated = []
    respread(known)
    assert asset_of(known).metadata == {"k": 3}


def test_an_own_tag_under_the_same_propagated_one_is_told_because_it_spreads() -> None:
    known = Known(1, uuid4(), "db/t")
    seen(known, 0)
    known.propagated = [brought()]
    respread(known)
    outcome = labels.assign(known, "tag", [Label("PII")], ANN, CONTEXT)
    assert [(f.kind, f.before, f.after) for f in outcome.facts] == [
        ("TagsChanged", {"tags": ["PII"], "own": []}, {"tags": ["PII"]})
    ]


def test_an_assignment_begins_and_ends_at_its_time() -> None:
    known = Known(1, uuid4(), "db/t")
    seen(known, 0)
    soon, later = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    labels.assign(known, "tag", [Label("PII", "", soon, later)], ANN, CONTEXT)
    assert (asset_of(known).tags, known.assignments[0].state) == ([], "scheduled")
    for moment, tags in ((soon, ["PII"]), (later, [])):
        context = Context(moment, effective, CONTEXT.resolve, own_tags=own)
        labels.come_due(known, Who("system", "expiry:x"), context)
        assert asset_of(known).tags == tags
    assert known.assignments[0].state == "expired"


def test_a_missed_period_passes_in_one_step_and_tells_nothing() -> None:
    known = Known(1, uuid4(), "db/t")
    seen(known, 0)
    soon, later = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    labels.assign(known, "tag", [Label("PII", "", soon, later)], ANN, CONTEXT)
    context = Context(later, effective, CONTEXT.resolve, own_tags=own)
    outcome = labels.come_due(known, Who("system", "expiry:x"), context)
    assert (outcome.facts, known.assignments[0].state) == ([], "expired")
    assert [a.state for a in outcome.assigned] == ["expired"]


def test_a_suggestion_is_not_an_assignment() -> None:
    known = Known(1, uuid4(), "db/t")
    seen(known, 0)
    known.assignments = [Assignment("PII", "rule", "classify", "suggested")]
    assert list(known.labels.tags) == []
    labels.settle_suggestions(known, None, True, None, ANN, CONTEXT)
    assert asset_of(known).own == ["PII"]
