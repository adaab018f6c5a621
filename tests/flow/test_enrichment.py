"""Rules whose values a plug-in makes: what it makes of a root follows lineage, and goes with it."""

from pathlib import Path
from typing import Any

import pytest

from lily import wiring
from lily.store import propagation_parts, propagation_rules
from lily.store.database import bind_many, direct
from lily.store.propagation import Owned, context_of
from lily.wiring import Core
from tests.flow import propagating
from tests.flow.apply import read, seen
from tests.flow.feeds import facts
from tests.flow.people import Person
from tests.flow.propagating import ANN, Graph
from tests.packages import install

RULES = "/api/v1/propagation-rules"
RETENTION = Path(__file__).parents[2] / "plugins/lily-examples/src/lily_examples/retention.py"
ODD = """
from pydantic import BaseModel, SecretStr


class Odd:
    class Options(BaseModel):
        key: SecretStr | None = None

    def __init__(self, options):
        pass

    def __call__(self, root):
        if "fail" in root.tags:
            raise ValueError(f"cannot do {root.description}")
        return {"from": root.asset_name}
"""
BODY = {
    "name": "keep no longer", "field": "metadata.retention_days", "plugin": "test-retention",
    "options": {"days": {"PII": 90, "PHI": 30}},
}  # fmt: skip


graph = propagating.graph


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target, code in (
        ("retention", "Retention", RETENTION.read_text()),
        ("odd", "Odd", ODD),
    ):
        folder = tmp_path / name
        folder.mkdir()
        package = f"lily-test-{name}-{tmp_path.name}"
        install(folder, monkeypatch, package, {f"test-{name}": target}, code, "lily.enrichments")


def call(who: Person, method: str, path: str, status: int, body: Any = None) -> Any:
    answer = who.client.request(method, path, headers=who.headers, json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def kept(graph: Graph, *names: str) -> list[Any]:
    graph.settle()
    return [read(graph.core, graph.tenant, n).metadata.get("retention_days") for n in names]


def test_what_a_plugin_makes_of_a_root_follows_it(boss: Person, graph: Graph) -> None:
    graph.asset("a", tags=["PII"])
    graph.asset("b", "c", "d")
    for up, down in ("ab", "bc", "cd"):
        graph.edge(up, down)
    graph.edits.edit(graph.tenant, "c", {"metadata": {"retention_days": 7}}, False, ANN)
    would = call(boss, "POST", f"{RULES}/dry-run", 200, BODY)
    assert {(i["qualified_name"], i["value"]) for i in would["items"]} == {
        ("b", "90"), ("c", "90"), ("d", "90")
    }  # fmt: skip
    rule = call(boss, "POST", RULES, 201, BODY)
    assert (rule["plugin"], rule["options"]) == ("test-retention", BODY["options"])
    assert kept(graph, "a", "b", "c", "d") == [None, 90, 7, 90]
    seen(graph.system, graph.tenant, "a", tags=["PII", "PHI"])
    assert kept(graph, "b", "c", "d") == [30, 7, 30]
    seen(graph.system, graph.tenant, "a", tags=[])
    assert kept(graph, "b", "c", "d") == [None, 7, None]
    seen(graph.system, graph.tenant, "b", tags=["PHI"])
    assert kept(graph, "b", "d") == [None, 30]
    path = f"{RULES}/{rule['id']}"
    call(boss, "PATCH", path, 200, {"options": {"days": {"PHI": 31}}})
    assert kept(graph, "b", "d") == [None, 31]
    call(boss, "DELETE", path, 204)
    assert kept(graph, "b", "d") == [None, None]


def test_the_batch_job_asks_the_plugin_for_the_same(
    system: Core, boss: Person, graph: Graph
) -> None:
    graph.asset("a", tags=["PII"])
    graph.asset("b", tags=["PHI"])
    graph.edge("a", "b")
    call(boss, "POST", RULES, 201, {**BODY, "roots": {"under": "a"}})
    assert kept(graph, "b") == [90]
    tenant, conn = graph.tenant, direct(system.database, "home")
    with conn, conn.transaction():
        bind_many(conn, [tenant.number])
        carriers = propagation_rules.carriers(conn, tenant.number)
        context = context_of(system.database, conn, tenant, system.clock)
        own = Owned(conn, tenant, context, wiring.enrichments())
        found = [
            (row[3], row[4])
            for part in range(propagation_parts.SLICES)
            for rows in propagation_parts.seeds(conn, tenant.number, part, carriers, own)
            for row in rows
            if carriers[row[0]].plugin
        ]
    assert found == [(str(graph.guid("a")), "90")]


def test_one_that_fails_brings_nothing_and_everything_else_travels(
    core: Core, boss: Person, graph: Graph
) -> None:
    graph.asset("a", tags=["PII", "fail"], description="personal")
    graph.asset("b")
    graph.edge("a", "b")
    body = {"name": "x", "field": "metadata.origin", "plugin": "test-odd", "roots": {"under": "a"}}
    call(boss, "POST", RULES, 201, body)
    graph.settle()
    assert read(core, graph.tenant, "b").tags == ["PII"]
    told = [fact.after for fact in facts(core, graph.tenant) if fact.kind == "PropagationLimited"]
    assert [(each["limit"], each["reason"]) for each in told if each] == [
        ("enrichment", "test-odd: ValueError")
    ]
    seen(graph.system, graph.tenant, "a", asset_name="A", tags=["PII"])
    graph.settle()
    assert read(core, graph.tenant, "b").metadata == {"origin": {"from": "A"}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"plugin": "nobody"}, "plugin"),
        ({"options": {"days": "many"}}, "options.days"),
        ({"field": "tag"}, "plugin"),
        ({"plugin": ""}, "options"),
        ({"plugin": "test-odd", "options": {"key": "hush"}}, "options"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(boss: Person, change: Any, field: str) -> None:
    refused = call(boss, "POST", RULES, 422, {**BODY, **change})
    assert field in [each["field"] for each in refused["errors"]]


def test_an_enrichment_is_turned_on_by_a_rule(boss: Person) -> None:
    body = {"name": "x", "plugin": "test-retention", "uses": ["enrichment"], "options": {}}
    refused = call(boss, "POST", "/api/v1/connections", 422, body)
    assert "propagation-rules" in refused["errors"][0]["message"]
