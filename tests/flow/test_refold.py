"""When the meaning of tags changes, every asset shows it: groups, ranks, precedence, travels."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from lily.store import refold
from lily.wiring import Core
from lily.workers import refold as worker
from tests.flow import tagging
from tests.flow.apply import read, seen
from tests.flow.feeds import facts
from tests.flow.propagating import Graph
from tests.flow.tagging import People, place

people = tagging.people


@pytest.fixture
def graph(core: Core, system: Core, people: People) -> Iterator[Graph]:
    made = Graph(core, system, people.tenant)
    yield made
    made.propagator.close()


def change(people: People, name: str, **said: Any) -> None:
    answer = people("stew", "PATCH", f"tags/{name}", "steward", json=said)
    assert answer.status_code == 200, answer.text


def define(people: People, name: str, **said: Any) -> None:
    answer = people("stew", "POST", "tags", "steward", json={"name": name, **said})
    assert answer.status_code == 201, answer.text


def shown(core: Core, people: People, name: str) -> tuple[list[str], list[str]]:
    asset = read(core, people.tenant, name)
    return asset.tags, asset.own


def found(people: People, tag: str) -> list[str]:
    answer = people("v", "GET", "metadata/search", "viewer", params={"tag": tag}).json()
    return sorted(item["qualified_name"] for item in answer["items"])


def test_a_tag_that_joins_a_group_and_leaves_it_again(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, "both", tags=["internal", "secret"])
    seen(system, people.tenant, "alone", tags=["secret"])
    define(people, "secret", exclusive_group="sensitivity", rank=9)
    worker.work(system, Event())
    assert shown(core, people, "both") == (["secret"], ["internal", "secret"])
    assert (found(people, "internal"), found(people, "secret")) == ([], ["alone", "both"])
    told = facts(core, people.tenant)[-1]
    assert (told.kind, told.by, told.qualified_name) == ("TagsChanged", "system", "both")
    assert told.after is not None and told.after["tags"] == ["secret"]
    asset = read(core, people.tenant, "both")
    assert (asset.version, asset.feed_position) == (2, len(facts(core, people.tenant)))
    change(people, "secret", rank=-1)
    worker.work(system, Event())
    assert shown(core, people, "both") == (["internal"], ["internal", "secret"])
    change(people, "secret", exclusive_group=None)
    worker.work(system, Event())
    assert shown(core, people, "both") == (["internal", "secret"], ["internal", "secret"])
    assert read(core, people.tenant, "alone").version == 1
    count = len(facts(core, people.tenant))
    worker.work(system, Event())
    assert len(facts(core, people.tenant)) == count


def test_who_goes_first_is_changed_for_a_whole_group(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, "t", tags=["public"])
    people.says("ann", "confidential", "t")
    assert shown(core, people, "t")[0] == ["public"]
    change(people, "PII", precedence="person")
    worker.work(system, Event())
    assert shown(core, people, "t") == (["confidential"], ["confidential", "public"])
    change(people, "PII", precedence="source")
    worker.work(system, Event())
    assert shown(core, people, "t")[0] == ["public"]


def test_what_lineage_brought_is_shown_by_the_new_groups_and_stirs_nothing(
    core: Core, system: Core, people: People, graph: Graph
) -> None:
    graph.asset("a", tags=["PII"])
    graph.asset("b", tags=["open"])
    graph.edge("a", "b")
    graph.settle()
    assert shown(core, people, "b") == (["PII", "open"], ["open"])
    define(people, "open", exclusive_group="sensitivity", rank=-5)
    worker.work(system, Event())
    assert shown(core, people, "b") == (["PII"], ["open"])
    told = facts(core, people.tenant)[-1]
    assert told.after is not None
    assert told.after["propagated"]["PII"]["depth"] == 1
    graph.settle()
    assert shown(core, people, "b") == (["PII"], ["open"])


def test_a_stewards_choice_ends_with_the_group_it_was_made_in(
    core: Core, system: Core, people: People, graph: Graph
) -> None:
    graph.asset("a", tags=["public"])
    graph.asset("b")
    graph.edge("a", "b")
    people.says("ann", "PII", "a")
    path = f"metadata/{place('a')}/tags/public/resolve"
    assert people("stew", "POST", path, "steward", json={}).status_code == 200
    graph.settle()
    assert shown(core, people, "b")[0] == []
    change(people, "PII", exclusive_group=None)
    worker.work(system, Event())
    graph.settle()
    assert shown(core, people, "a")[0] == ["PII", "public"]
    assert shown(core, people, "b")[0] == ["PII"]


def test_how_far_and_along_what_a_tag_travels_is_changed(
    core: Core, people: People, graph: Graph
) -> None:
    graph.asset("a", tags=["gold"])
    graph.asset("b", "c", "d")
    for up, down in ("ab", "bc"):
        graph.edge(up, down)
    graph.edge("a", "d", type="copies")
    define(people, "gold")

    def gold() -> str:
        graph.settle()
        return "".join(name for name in "abcd" if shown(core, people, name)[0] == ["gold"])

    assert gold() == "a"
    change(people, "gold", propagates=True)
    assert gold() == "abcd"
    change(people, "gold", max_depth=1)
    assert gold() == "abd"
    change(people, "gold", edge_kinds=["copies"])
    assert gold() == "ad"
    change(people, "gold", edge_kinds=None, max_depth=None)
    assert gold() == "abcd"
    change(people, "gold", propagates=False)
    assert gold() == "a"


def test_whoever_wrote_while_groups_changed_is_waited_for(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, "t", tags=["internal", "secret"])
    with core.database.unit(people.tenant) as unit:
        unit.conn.execute("SELECT 1")
        define(people, "secret", exclusive_group="sensitivity", rank=9)
        task = refold.begin(system.database, people.tenant)
        assert task is not None and task.others
        assert refold.still_running(system.database, task)
    assert refold.step(system.database, system.clock, task, chunk=1) is not None
    change(people, "secret", rank=-1)
    refold.finish(system.database, task)  # of what was known then
    assert refold.asked(system.database, "home", [people.tenant]) == [people.tenant]
    worker.work(system, Event())
    assert refold.asked(system.database, "home", [people.tenant]) == []
    assert shown(core, people, "t")[0] == ["internal"]
