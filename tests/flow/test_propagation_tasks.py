"""Large reaches: in chunks, interrupted, overtaken, and exact in the end."""

import random
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import psycopg
import pytest

from lily.lineage.stirred import MANY_EDGES
from lily.store import propagation, propagation_feed
from lily.store.database import direct
from lily.store.presence import Presence, is_loading, presence
from lily.store.propagation import Propagator
from lily.store.propagation_parts import join_moment, open_moment
from lily.store.propagation_tasks import TaskLoop, Tasks, ask_for_all
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.propagating import Graph
from tests.waiting import until

Between = Callable[[], None]


class Watched(Tasks):
    """Does something else between two chunks."""

    def __init__(self, propagator: Propagator, chunk: int, between: Between) -> None:
        super().__init__(propagator, chunk)
        self.between = between

    def _smaller(self, *given: Any) -> bool:
        self.between()
        return super()._smaller(*given)


class Killed(Exception):
    pass


@pytest.fixture
def graph(core: Core, system: Core, tenant: Tenant) -> Iterator[Graph]:
    made = Graph(core, system, tenant, small=3)
    yield made
    made.propagator.close()


def work_off(graph: Graph, tasks: Tasks) -> None:
    for _ in range(200):
        if not tasks.step(graph.tenant):
            return
    raise AssertionError("the tasks never end")


def fan(graph: Graph, width: int) -> list[str]:
    """A root with many children, each of which has a child."""
    names = [f"c{i}" for i in range(width)]
    graph.asset("root", *names, *(f"{name}x" for name in names))
    for name in names:
        graph.edge("root", name)
        graph.edge(name, f"{name}x")
    graph.settle()
    tasks = Tasks(graph.propagator)
    work_off(graph, tasks)
    tasks.close()
    return names


def last_task(graph: Graph) -> tuple[Any, ...] | None:
    with graph.core.database.unit(graph.tenant) as unit:
        query = (
            "SELECT state, plans, chunks, changed FROM propagation_task WHERE tenant = %s"
            " ORDER BY created_at DESC LIMIT 1"
        )
        return unit.conn.execute(query, [graph.tenant.number]).fetchone()


def facts_of(graph: Graph, kind: str) -> int:
    with graph.core.database.unit(graph.tenant) as unit:
        query = "SELECT count(*) FROM fact WHERE tenant = %s AND kind = %s"
        row = unit.conn.execute(query, [graph.tenant.number, kind]).fetchone()
    return row[0] if row else 0


def test_a_large_reach_is_a_task_that_works_in_chunks(graph: Graph) -> None:
    fan(graph, 4)
    graph.tag("root", "PII")
    graph.settle()
    assert graph.arrived() == set()
    tasks = Tasks(graph.propagator, chunk=3)
    work_off(graph, tasks)
    tasks.close()
    assert graph.arrived() == graph.expected()
    assert last_task(graph) == ("done", 2, 3, 8)


def test_what_is_taken_away_between_chunks_does_not_come_back(graph: Graph) -> None:
    fan(graph, 4)
    graph.tag("root", "PII")
    graph.settle()
    turns = iter([lambda: graph.tag("root"), graph.settle])
    tasks = Watched(graph.propagator, 2, lambda: next(turns, lambda: None)())
    work_off(graph, tasks)
    tasks.close()
    assert graph.arrived() == graph.expected() == set()


def test_a_task_goes_on_after_it_was_killed_between_chunks(graph: Graph) -> None:
    fan(graph, 4)
    graph.tag("root", "PII", "GDPR")
    graph.settle()

    def kill() -> None:
        raise Killed

    tasks = Watched(graph.propagator, 2, kill)
    with pytest.raises(Killed):
        work_off(graph, tasks)
    tasks.close()
    assert graph.arrived() != graph.expected()
    other = Propagator(graph.system.database, graph.system.clock, Event(), 3)
    later = Tasks(other, 2)
    work_off(graph, later)
    assert graph.arrived() == graph.expected()
    assert facts_of(graph, "TagsChanged") == 1 + 8  # both tags of an asset arrive together
    later.close()
    other.close()


def test_a_small_change_does_not_wait_for_a_large_one(graph: Graph) -> None:
    fan(graph, 6)
    graph.asset("left", "right")
    graph.edge("left", "right")
    graph.settle()
    graph.tag("root", "PII")
    graph.settle()
    seen: list[bool] = []

    def small() -> None:
        if not seen:
            graph.tag("left", "GDPR")
            graph.settle()
            seen.append(any(name == "right" for name, *_ in graph.arrived()))

    tasks = Watched(graph.propagator, 2, small)
    work_off(graph, tasks)
    tasks.close()
    assert seen == [True]
    assert graph.arrived() == graph.expected()
    assert last_task(graph) == ("done", 2, 6, 12)  # what moved elsewhere did no harm to the plan


def test_a_position_that_another_process_moved_makes_a_plan_stale(graph: Graph) -> None:
    fan(graph, 4)
    graph.tag("root", "PII")
    graph.settle()
    other = Propagator(graph.system.database, graph.system.clock, Event(), 3)
    turns: Iterator[Callable[[], None]] = iter(
        [lambda: graph.tag("root"), lambda: graph.settle(other)]
    )
    tasks = Watched(graph.propagator, 2, lambda: next(turns, lambda: None)())
    work_off(graph, tasks)
    tasks.close()
    other.close()
    assert graph.arrived() == graph.expected() == set()


@pytest.fixture
def flood(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """A fan is being loaded while a task for everything waits."""
    monkeypatch.setattr(propagation_feed, "FLOOD", 5)
    graph.asset("root", tags=["PII"])
    graph.asset(*(f"c{i}" for i in range(6)))
    graph.settle()
    with graph.system.database.cell(graph.tenant.cell, [graph.tenant.number]) as conn:
        ask_for_all(conn, graph.tenant, "request-1", 1, graph.core.clock.now())
    for i in range(6):
        graph.edge("root", f"c{i}")
    return graph


def test_many_new_edges_are_one_word_while_a_task_for_everything_waits(flood: Graph) -> None:
    stretch = flood.waiting()
    assert stretch is not None
    assert [fact.kind for fact in stretch.facts] == [MANY_EDGES]
    flood.settle()
    assert flood.arrived() == set()
    tasks = Tasks(flood.propagator)
    work_off(flood, tasks)
    tasks.close()
    assert flood.arrived() == flood.expected()
    assert len(flood.arrived()) == 6


def test_edges_of_a_flood_that_a_task_has_not_seen_make_its_plan_stale(flood: Graph) -> None:
    flood.settle()
    flood.asset(*(f"c{i}x" for i in range(6)))

    def more() -> None:
        for i in range(6):
            flood.edge("c0", f"c{i}x")

    extra = iter([more, flood.settle])
    tasks = Watched(flood.propagator, 2, lambda: next(extra, lambda: None)())
    work_off(flood, tasks)
    tasks.close()
    assert flood.arrived() == flood.expected()
    assert len(flood.arrived()) == 12


def test_a_task_that_ended_before_the_word_of_a_flood_came_begins_anew(flood: Graph) -> None:
    stretch = flood.waiting()
    assert stretch is not None
    assert [fact.kind for fact in stretch.facts] == [MANY_EDGES]
    with flood.system.database.cell(flood.tenant.cell, [flood.tenant.number]) as conn:
        conn.execute("UPDATE propagation_task SET state = 'done', finished_at = now()")
    flood.propagator.handle(stretch)
    tasks = Tasks(flood.propagator)
    work_off(flood, tasks)
    tasks.close()
    assert flood.arrived() == flood.expected()


def test_of_a_flood_what_hides_and_what_is_tagged_is_told_by_itself(flood: Graph) -> None:
    flood.tag("c5", "GDPR")
    hiding = flood.edge("c0", "c1", transformation="sha256(a)")
    stretch = flood.waiting()
    assert stretch is not None
    kinds = [fact.kind for fact in stretch.facts]
    assert kinds == ["TagsChanged", "EdgeCreated", MANY_EDGES]
    assert (stretch.facts[1].after or {})["edge_id"] == str(hiding)


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_between_chunks_end_where_a_computation_from_scratch_does(
    graph: Graph, seed: int
) -> None:
    dice = random.Random(seed)
    names = fan(graph, 5)

    def stir() -> None:
        if dice.random() < 0.4:
            _change(graph, dice, names)
            if dice.random() < 0.7:
                graph.settle()

    tasks = Watched(graph.propagator, 2, stir)
    for _ in range(12):
        _change(graph, dice, names)
        graph.settle()
        work_off(graph, tasks)
        tasks.between, _ = (lambda: None), tasks.between
        graph.settle()
        work_off(graph, tasks)
        assert graph.arrived() == graph.expected()
        tasks.between = stir
    tasks.close()


def _change(graph: Graph, dice: random.Random, names: list[str]) -> None:
    what, name, edge = dice.randrange(4), dice.choice(names), dice.choice(sorted(graph.edges))
    if what < 2:
        graph.tag(dice.choice(["root", name]), *dice.sample(["PII", "GDPR"], dice.randrange(3)))
    elif what == 2:
        (graph.mend if edge in graph.cut else graph.cut_edge)(edge)
    elif name in graph.gone:
        graph.restore(name)
    elif not graph.tags[name]:
        graph.delete(name)


def test_a_second_process_is_fenced_by_the_position(graph: Graph) -> None:
    graph.asset("a", "b")
    graph.edge("a", "b")
    stretch = graph.waiting()
    assert stretch is not None
    assert graph.propagator.handle(stretch)
    assert not graph.propagator.handle(stretch)  # the same once more


def test_an_error_of_the_database_leaves_nothing_behind(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    fan(graph, 1)
    graph.tag("root", "PII")

    def broken(*_: Any, **__: Any) -> int:
        raise psycopg.errors.DataError("no")

    with monkeypatch.context() as patched:
        patched.setattr("lily.store.propagation.apply", broken)
        with pytest.raises(psycopg.errors.DataError):
            graph.settle()
    assert graph.arrived() == set()
    graph.settle()
    assert graph.arrived() == graph.expected()


def test_a_tag_does_not_wait_until_an_estate_is_loaded(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(propagation, "FLOOD", 5)
    names = fan(graph, 8)
    graph.asset("people", "contacts")
    graph.edge("people", "contacts")
    graph.settle()
    with graph.system.database.cell(graph.tenant.cell, [graph.tenant.number]) as conn:
        ask_for_all(conn, graph.tenant, "load", 1_000, graph.system.clock.now())
    for name in names[1:]:
        graph.edge(names[0], name)
    graph.tag("people", "PII")
    graph.settle()
    assert {(name, tag) for name, tag, *_ in graph.arrived()} == {("contacts", "PII")}
    assert last_task(graph) == ("waiting", 0, 0, 0)
    tasks = Tasks(graph.propagator)
    work_off(graph, tasks)
    tasks.close()
    assert graph.arrived() == graph.expected()


@pytest.fixture
def load(system: Core) -> Iterator[Presence]:
    """Somebody loads files."""
    with presence(system, "bulk") as me:
        me.say(state="active")
        until(lambda: is_loading(system.database), 20)
        yield me


def test_a_task_for_everything_waits_until_an_estate_is_loaded(
    flood: Graph, load: Presence
) -> None:
    flood.settle()
    tasks = Tasks(flood.propagator, calm=0.001)
    assert not tasks.step(flood.tenant)
    assert flood.arrived() == set()
    load.say(state="idle")
    until(lambda: not is_loading(flood.system.database), 20)
    work_off(flood, tasks)
    tasks.close()
    assert flood.arrived() == flood.expected()
    assert len(flood.arrived()) == 6


def test_many_edges_of_a_load_become_a_task_and_a_few_do_not(
    graph: Graph, load: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(propagation, "FLOOD", 3)
    graph.propagator.small = 100
    graph.asset("root", tags=["PII"])
    graph.asset("a", "b", "c", "d")
    graph.edge("root", "a")
    graph.settle()
    assert {name for name, *_ in graph.arrived()} == {"a"}
    for name in ("b", "c", "d"):
        graph.edge("root", name)
    graph.settle()
    assert {name for name, *_ in graph.arrived()} == {"a"}
    load.say(state="idle")
    until(lambda: not is_loading(graph.system.database), 20)
    tasks = Tasks(graph.propagator)
    work_off(graph, tasks)
    tasks.close()
    assert graph.arrived() == graph.expected()
    assert len(graph.arrived()) == 4


def test_a_plan_that_fails_in_any_way_is_made_again(graph: Graph) -> None:
    fan(graph, 8)
    failures = iter([RuntimeError("an executor is gone"), Killed()])

    class Failing(Tasks):
        def _work(self, *given: Any) -> None:
            if (failure := next(failures, None)) is not None:
                raise failure
            super()._work(*given)

    graph.tag("root", "PII")
    graph.settle()
    assert graph.arrived() != graph.expected()
    loop = TaskLoop(graph.propagator, Failing(graph.propagator))
    loop.start()
    try:
        until(lambda: graph.arrived() == graph.expected(), 60)
    finally:
        loop.finish(30)


def test_a_moment_stays_open_while_others_work_on_what_they_read(graph: Graph) -> None:
    one = direct(graph.core.database, graph.tenant.cell)
    other = direct(graph.core.database, graph.tenant.cell)
    try:
        join_moment(other, open_moment(one, graph.tenant.number))
        for conn in (one, other):
            assert conn.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("30min",)
    finally:
        one.close()
        other.close()
