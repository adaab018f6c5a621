"""Tags travel downstream and back out: exact after every change."""

import random
from collections.abc import Iterator

import pytest

from lily.types import Tenant
from lily.wiring import Core
from tests.flow.apply import read
from tests.flow.propagating import Graph


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
    for step in range(200 if seed == 0 else 40):
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
