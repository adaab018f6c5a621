"""Propagation in real life: changes in, Spark between, tags at the other end."""

import random
import time
from collections.abc import Callable, Iterator

import pytest

from tests.flow.people import Person
from tests.flow.propagating import Graph
from tests.live import Live

PATIENCE = 60.0


def until(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.05)


def agrees(graph: Graph) -> bool:
    return graph.arrived() == graph.expected()


@pytest.fixture
def graph(live: Live, api: Person) -> Iterator[Graph]:
    made = Graph(live.core, live.system, api.tenant)
    yield made
    made.propagator.close()


def tags(api: Person, name: str) -> list[str]:
    answer = api.client.get(f"/api/v1/metadata/{name}", headers=api.headers)
    assert answer.status_code == 200, answer.text
    found: list[str] = answer.json()["tags"]
    return found


def test_a_tag_travels_with_the_observation_that_brings_it(api: Person, graph: Graph) -> None:
    graph.asset("a", "b", "c")
    graph.edge("a", "b")
    graph.edge("b", "c")
    seen = {"qualified_name": "a", "tags": ["PII"]}
    assert api.client.post("/api/v1/metadata", json=seen, headers=api.headers).is_success
    graph.tags["a"] = {"PII"}
    until(lambda: tags(api, "c") == ["PII"], "the tag at the end of the way")
    assert agrees(graph)
    edited = api.client.patch("/api/v1/metadata/b", json={"tags": ["GDPR"]}, headers=api.headers)
    assert edited.is_success
    graph.tags["b"] = {"GDPR"}
    until(lambda: tags(api, "c") == ["GDPR", "PII"], "a person's tag from half way")
    assert agrees(graph)
    seen = {"qualified_name": "a", "tags": []}
    assert api.client.post("/api/v1/metadata", json=seen, headers=api.headers).is_success
    until(lambda: tags(api, "c") == ["GDPR"], "the first tag is gone, the other stays")


def test_random_changes_through_spark_end_where_a_computation_from_scratch_does(
    graph: Graph,
) -> None:
    dice = random.Random(7)
    names = [f"n{i}" for i in range(8)]
    graph.asset(*names)
    for up, down in zip(names, [*names[1:], names[0]], strict=True):
        graph.edge(up, down)
    for _ in range(6):
        for _ in range(4):
            name, edge = dice.choice(names), dice.choice(sorted(graph.edges))
            match dice.randrange(4):
                case 0 | 1:
                    if name not in graph.gone:
                        graph.tag(name, *dice.sample(["PII", "GDPR"], dice.randrange(3)))
                case 2:
                    (graph.mend if edge in graph.cut else graph.cut_edge)(edge)
                case _:
                    (graph.restore if name in graph.gone else graph.delete)(name)
        until(lambda: agrees(graph), "what was computed from scratch")
