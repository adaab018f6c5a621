"""Propagation in real life: changes in, Spark between, tags at the other end."""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lily.lineage.travel import Filter
from lily.pipeline import nightly
from lily.pipeline.recompute import recompute
from lily.store import feed, propagation_rules
from lily.store.propagation_feed import rests_at
from lily.store.propagation_rules import Rule
from tests.flow.apply import seen
from tests.flow.people import Person
from tests.flow.propagating import ACTOR, Graph
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


def test_the_batch_job_agrees_with_what_was_done_step_by_step(live: Live, graph: Graph) -> None:
    dice = random.Random(3)
    names = [f"n{i}" for i in range(12)]
    graph.asset(*names, "t#a", "u#a", "t", "u")
    for _ in range(20):
        up, down = dice.sample(names, 2)
        if (up, down, "feeds") not in graph.edges.values():
            graph.edge(up, down)
    graph.edge("t#a", "u#a")
    for name in dice.sample(names, 4):
        graph.tag(name, *dice.sample(["PII", "GDPR", "finance"], 2))
    graph.tag("t", "PII")
    graph.delete(names[3])
    graph.block(dice.choice(sorted(graph.edges)), "PII")
    _add_rules(graph)
    seen(graph.system, graph.tenant, names[0], asset_owner="ann", metadata={"zone": "eu"})
    until(lambda: _rests(graph), "all facts are handled, and what came of them")
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    settings = str(live.settings.home / "run" / "pipeline.json")
    assert recompute(spark, live.system, settings, graph.tenant).differences == []
    right = _stored(graph)
    _spoil(graph)
    found = nightly.check(live.system, spark, settings, graph.tenant)
    assert {each.change for each in found} == {"new", "gone", "moved"}
    until(lambda: _stored(graph) == right, "what was spoilt is healed")
    with live.core.database.unit(graph.tenant) as unit:
        [told] = feed.after(unit, 0, 10, kinds=["PropagationChecked"])
    assert '"applied":true' in (told.payload or "")


def _rests(graph: Graph) -> bool:
    with graph.system.database.cell(graph.tenant.cell, [graph.tenant.number]) as conn:
        return rests_at(conn, graph.tenant.number) is not None


def _stored(graph: Graph) -> set[tuple[Any, ...]]:
    with graph.core.database.unit(graph.tenant) as unit:
        query = "SELECT guid, field, name, value, root, depth, via, rule FROM propagated"
        return set(unit.conn.execute(query).fetchall())


def _add_rules(graph: Graph) -> None:
    now = graph.core.clock.now()
    rows = [
        ("owners", "asset_owner", [], "downstream", Filter(), Filter(), "when_empty"),
        ("zones", "metadata.zone", [], "upstream", Filter(), Filter(["entity"]), "when_empty"),
        ("money", "tag", ["finance"], "downstream", Filter(), Filter(under="n"), "when_empty"),
    ]
    with graph.core.database.unit(graph.tenant) as unit:
        for name, field, names, way, roots, to, conflict in rows:
            rule: Any = (
                uuid4(), name, field, names, None, way, 3, roots, to, conflict, True, 1, now,
                "ann", now,
            )  # fmt: skip
            propagation_rules.create(unit, Rule(*rule), ACTOR)


def _spoil(graph: Graph) -> None:
    """As no program of ours would do it."""
    with graph.system.database.cell(graph.tenant.cell, [graph.tenant.number]) as conn:
        number = graph.tenant.number
        rows = conn.execute(
            "SELECT guid, name FROM propagated WHERE tenant = %s AND field = 'tag' AND depth > 0"
            " ORDER BY guid, name LIMIT 2", [number],
        ).fetchall()  # fmt: skip
        gone = "DELETE FROM propagated WHERE tenant = %s AND guid = %s AND name = %s"
        conn.execute(gone, [number, *rows[0]])
        moved = "UPDATE propagated SET depth = 9 WHERE tenant = %s AND guid = %s AND name = %s"
        conn.execute(moved, [number, *rows[1]])
        conn.execute(
            "INSERT INTO propagated SELECT tenant, guid, 'tag', 'PHI', '', root, 1, via, NULL"
            " FROM propagated WHERE tenant = %s AND field = 'tag' LIMIT 1", [number],
        )  # fmt: skip
