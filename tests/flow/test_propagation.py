"""Tags travel downstream and back out: exact after every change."""

import random
from collections.abc import Iterator

import pytest

from lily.store import feed, history
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow.apply import read, seen
from tests.flow.propagating import ANN, Graph, observe


@pytest.fixture
def graph(core: Core, system: Core, tenant: Tenant) -> Iterator[Graph]:
    made = Graph(core, system, tenant)
    yield made
    made.propagator.close()


def check(graph: Graph) -> None:
    assert graph.arrived() == graph.expected()
    for name, tags in graph.shown().items():
        brought = {tag for n, tag, *_ in graph.expected() if n == name}
        assert set(tags) >= brought, name
        assert set(tags) <= brought | graph.tags[name], name


def test_a_tag_reaches_everything_behind_its_root_and_leaves_it_again(graph: Graph) -> None:
    graph.asset("a", "b", "c", "d", "aside")
    graph.edge("a", "b")
    graph.edge("b", "c")
    graph.edge("b", "d")
    graph.tag("a", "PII")
    graph.settle()
    assert {(n, root, depth) for n, _, root, depth, _ in graph.arrived()} == {
        ("b", "a", 1), ("c", "a", 2), ("d", "a", 2)
    }  # fmt: skip
    assert read(graph.core, graph.tenant, "c").tags == ["PII"]
    graph.tag("a")
    graph.settle()
    assert graph.arrived() == set()
    assert read(graph.core, graph.tenant, "c").tags == []
    assert read(graph.core, graph.tenant, "c").version == 3


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_always_end_where_a_computation_from_scratch_does(
    graph: Graph, seed: int
) -> None:
    dice = random.Random(seed)
    names = [f"n{i}" for i in range(9)]
    graph.asset(*names)
    for _ in range(12):
        _connect(graph, dice, names)
    for step in range(200 if seed == 0 else 30):
        _change(graph, dice, names)
        graph.settle()
        assert graph.arrived() == graph.expected(), step
    check(graph)


def _connect(graph: Graph, dice: random.Random, names: list[str]) -> None:
    up, down = dice.sample(names, 2)
    type = dice.choice(["feeds", "feeds", "derived-from", "influences"])
    if (up, down, type) not in graph.edges.values():
        graph.edge(up, down, type)


def _change(graph: Graph, dice: random.Random, names: list[str]) -> None:
    for _ in range(dice.choice([1, 1, 1, 3])):  # several before anybody looks
        what = dice.randrange(10)
        name, edge = dice.choice(names), dice.choice(sorted(graph.edges))
        tag = dice.choice(["PII", "GDPR"])
        if what < 3 and name not in graph.gone:
            graph.tag(name, *dice.sample(["PII", "GDPR", "finance"], dice.randrange(4)))
        elif what == 3:
            _connect(graph, dice, names)
        elif what in (4, 5):
            (graph.mend if edge in graph.cut else graph.cut_edge)(edge)
        elif what in (6, 7):
            (graph.restore if name in graph.gone else graph.delete)(name)
        elif (edge, tag) in graph.blocks:
            graph.unblock(edge, tag)
        else:
            graph.block(edge, tag)


def test_edges_that_outlive_a_purged_asset_carry_again_when_it_is_back(graph: Graph) -> None:
    graph.asset("a", "b", "c", "t", "u", "t#x", "u#x")
    graph.edge("a", "b")
    graph.edge("b", "c")
    graph.edge("t#x", "u#x")
    graph.tag("a", "PII")
    graph.tag("t#x", "PII")
    graph.settle()
    assert {name for name, *_ in graph.arrived()} == {"b", "c", "u#x"}
    graph.edits.purge(graph.tenant, "b", ANN)
    graph.edits.purge(graph.tenant, "u#x", ANN)
    graph.settle()
    assert graph.arrived() == set()
    assert read(graph.core, graph.tenant, "c").tags == []
    graph.asset("b", "u#x")
    graph.settle()
    assert {name for name, *_ in graph.arrived()} == {"b", "c", "u#x"}


def test_tags_that_come_in_bulk_travel_like_those_set_by_hand(graph: Graph) -> None:
    observe(graph, *(f"n{i}" for i in range(30)))
    for i in range(29):
        graph.edge(f"n{i}", f"n{i + 1}")
    observe(graph, "n0", "n9", "n20", tags=["PII"])
    graph.settle()
    check(graph)
    assert len(graph.arrived()) == 27


def test_a_way_ends_after_a_hundred_edges_and_that_is_told(graph: Graph) -> None:
    observe(graph, *(f"n{i}" for i in range(104)))
    for i in range(103):
        graph.edge(f"n{i}", f"n{i + 1}")
    graph.tag("n0", "PII")
    graph.settle()
    assert graph.arrived() == graph.expected()
    assert max(depth for *_, depth, _ in graph.arrived()) == 100
    with graph.core.database.unit(graph.tenant) as unit:
        told = [fact for link in feed.after(unit, 0, 1000) if (fact := history.told(link))]
    [limited] = [fact for fact in told if fact.kind == "PropagationLimited"]
    assert limited.after == {"limit": "depth", "assets": 1}


def test_what_arrives_is_told_once_with_root_depth_and_cause(graph: Graph) -> None:
    graph.asset("a", "b")
    graph.edge("a", "b")
    graph.tag("a", "PII")
    graph.settle()
    with graph.core.database.unit(graph.tenant) as unit:
        told = [history.told(link) for link in feed.after(unit, 0, 100, graph.guid("b"))]
    [fact] = [fact for fact in told if fact.kind == "TagsChanged"]
    assert (fact.by, fact.cause, fact.version) == ("propagation", "request-1", 2)
    assert fact.before == {"tags": []}
    came = {"root": str(graph.guid("a")), "depth": 1}
    assert fact.after == {"tags": ["PII"], "own": [], "propagated": {"PII": came}}


def test_another_tenants_graph_is_never_touched(graph: Graph, core: Core, system: Core) -> None:
    other = Graph(core, system, new_tenant(core))
    for each in (graph, other):
        each.asset("a", "b")
        each.edge("a", "b")
    graph.tag("a", "PII")
    graph.settle()
    other.settle()
    assert len(graph.arrived()) == 1
    assert other.arrived() == set()
    other.propagator.close()


def test_a_persons_tag_and_a_sources_silence_survive_what_lineage_brings(graph: Graph) -> None:
    graph.asset("a", "b")
    graph.edge("a", "b")
    graph.tag("a", "PII")
    graph.settle()
    graph.tag("b", "mine")
    seen(graph.system, graph.tenant, "b", description="seen again")
    graph.settle()
    shown = read(graph.core, graph.tenant, "b")
    assert (shown.tags, shown.own_tags) == (["PII", "mine"], ["mine"])
    graph.tag("a")
    graph.settle()
    shown = read(graph.core, graph.tenant, "b")
    assert (shown.tags, shown.own_tags, shown.layers & 8) == (["mine"], None, 0)
