"""Rules carry more than tags; blocks stop names on edges; both over REST."""

from itertools import pairwise
from typing import Any

import pytest
from httpx import Client, Response

from lily.wiring import Core
from tests.flow import propagating
from tests.flow.apply import gone, read, seen
from tests.flow.people import Person, admin, with_role
from tests.flow.propagating import ANN, Graph

RULES = "/api/v1/propagation-rules"


graph = propagating.graph


def call(who: Person, method: str, path: str, status: int, body: Any = None) -> Any:
    more = {} if body is None else {"json": body}
    answer: Response = who.client.request(method, path, headers=who.headers, **more)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def chain(graph: Graph, *names: str) -> list[Any]:
    graph.asset(*names)
    return [graph.edge(up, down) for up, down in pairwise(names)]


def owner(graph: Graph, name: str) -> str | None:
    return read(graph.core, graph.tenant, name).asset_owner


def test_an_owner_follows_lineage_where_there_is_none(boss: Person, graph: Graph) -> None:
    chain(graph, "a", "b", "c", "d")
    seen(graph.system, graph.tenant, "a", asset_owner="ann")
    seen(graph.system, graph.tenant, "c", asset_owner="carl")
    graph.settle()
    assert owner(graph, "b") is None
    body = {"name": "owners", "field": "asset_owner"}
    would = call(boss, "POST", f"{RULES}/dry-run", 200, body)
    assert {(i["qualified_name"], i["value"], i["change"]) for i in would["items"]} == {
        ("b", "ann", "new"), ("d", "carl", "new")
    }  # fmt: skip
    graph.settle()
    assert owner(graph, "b") is None  # nothing was changed
    rule = call(boss, "POST", RULES, 201, body)
    graph.settle()
    assert [owner(graph, n) for n in "abcd"] == ["ann", "ann", "carl", "carl"]
    seen(graph.system, graph.tenant, "a", asset_owner="anton")
    graph.settle()
    assert owner(graph, "b") == "anton"
    graph.edits.edit(graph.tenant, "b", {"asset_owner": "bea"}, False, ANN)
    graph.settle()
    assert [owner(graph, n) for n in "abcd"] == ["anton", "bea", "carl", "carl"]
    seen(graph.system, graph.tenant, "c")
    graph.settle()
    assert [owner(graph, n) for n in "abcd"] == ["anton", "bea", "bea", "bea"]
    call(boss, "PATCH", f"{RULES}/{rule['id']}", 200, {"enabled": False})
    graph.settle()
    assert [owner(graph, n) for n in "abcd"] == ["anton", "bea", None, None]
    assert call(boss, "POST", f"{RULES}/{rule['id']}/dry-run", 200, {})["changes"] == 2
    call(boss, "PATCH", f"{RULES}/{rule['id']}", 200, {"enabled": True})
    graph.settle()
    assert owner(graph, "d") == "bea"
    call(boss, "DELETE", f"{RULES}/{rule['id']}", 204)
    graph.settle()
    assert owner(graph, "d") is None


def test_a_value_that_always_applies_overrules_sources_but_never_a_person(
    boss: Person, graph: Graph
) -> None:
    chain(graph, "gold", "copy", "copy2")
    seen(graph.system, graph.tenant, "gold", asset_type="master", metadata={"certificate": "gold"})
    seen(graph.system, graph.tenant, "copy", metadata={"certificate": "none", "rows": 5})
    graph.edits.edit(graph.tenant, "copy2", {"metadata": {"certificate": "mine"}}, False, ANN)
    body = {
        "name": "certificates", "field": "metadata.certificate", "on_conflict": "always",
        "roots": {"asset_type": ["master"]},
    }  # fmt: skip
    call(boss, "POST", RULES, 201, body)
    graph.settle()
    copy = read(graph.core, graph.tenant, "copy")
    assert copy.metadata == {"certificate": "gold", "rows": 5}
    assert read(graph.core, graph.tenant, "copy2").metadata == {"certificate": "mine"}
    gone(graph.system, graph.tenant, "gold")
    graph.settle()
    assert read(graph.core, graph.tenant, "copy").metadata == {"certificate": "none", "rows": 5}


def test_tags_and_terms_travel_by_rule_upstream_too(boss: Person, graph: Graph) -> None:
    chain(graph, "table", "view", "dashboard")
    call(boss, "POST", RULES, 201, {
        "name": "used by the board", "field": "tag", "names": ["board"], "direction": "upstream",
        "max_depth": 1,
    })  # fmt: skip
    call(boss, "POST", RULES, 201, {"name": "terms", "field": "term"})
    graph.tag("dashboard", "board", "PII")
    seen(graph.system, graph.tenant, "table", business_terms=["revenue"])
    graph.settle()
    shown = {n: read(graph.core, graph.tenant, n) for n in ("table", "view", "dashboard")}
    assert [shown[n].tags for n in shown] == [[], ["board"], ["PII", "board"]]
    assert [shown[n].business_terms for n in shown] == [["revenue"]] * 3
    graph.tag("dashboard")
    seen(graph.system, graph.tenant, "table")
    graph.settle()
    shown = {n: read(graph.core, graph.tenant, n) for n in shown}
    assert [shown[n].tags + shown[n].business_terms for n in shown] == [[], [], []]


def test_a_block_outlives_that_tag_and_edge_go_and_come_back(boss: Person, graph: Graph) -> None:
    _, edge = chain(graph, "a", "b", "c")
    graph.tag("a", "PII", "GDPR")
    graph.settle()
    path = f"/api/v1/lineage/{edge}/blocks"
    made = call(boss, "POST", path, 201, {"name": "PII", "reason": "only totals"})
    assert (made["origin"], made["by"], made["reason"]) == ("person", "root", "only totals")
    call(boss, "POST", path, 200, {"name": "PII", "reason": "only totals"})
    graph.blocks.add((edge, "PII"))
    graph.settle()
    assert read(graph.core, graph.tenant, "c").tags == ["GDPR"]
    graph.tag("a")
    graph.cut_edge(edge)
    graph.settle()
    graph.mend(edge)
    graph.tag("a", "PII")
    graph.settle()
    assert graph.arrived() == graph.expected()
    assert read(graph.core, graph.tenant, "c").tags == []
    call(boss, "DELETE", f"{path}/PII", 204)
    graph.settle()
    assert read(graph.core, graph.tenant, "c").tags == ["PII"]
    assert call(boss, "GET", path, 200) == {"items": []}
    call(boss, "DELETE", f"{path}/PII", 404)


@pytest.mark.parametrize(
    ("transformation", "masking"), [("sha256(email)", False), ("count(distinct email)", False),
                                    ("upper(email)", True)],
)  # fmt: skip
def test_a_transformation_that_hides_stops_personal_data(
    boss: Person, graph: Graph, transformation: str, masking: bool
) -> None:
    graph.asset("a", "b", "c")
    edge = graph.edge("a", "b", transformation=transformation, masking=masking)
    graph.edge("a", "c", transformation="lower(email)")
    graph.tag("a", "PII", "GDPR")
    graph.settle()
    assert read(graph.core, graph.tenant, "b").tags == ["GDPR"]
    assert read(graph.core, graph.tenant, "c").tags == ["GDPR", "PII"]
    path = f"/api/v1/lineage/{edge}/blocks"
    [block] = call(boss, "GET", path, 200)["items"]
    assert (block["name"], block["origin"]) == ("PII", "rule")
    call(boss, "DELETE", f"{path}/PII", 204)
    graph.settle()
    assert read(graph.core, graph.tenant, "b").tags == ["GDPR", "PII"]
    graph.cut_edge(edge)
    graph.mend(edge)
    graph.settle()
    assert read(graph.core, graph.tenant, "b").tags == ["GDPR", "PII"]  # a person has said so
    [block] = call(boss, "GET", path, 200)["items"]
    assert block["lifted"] is True


def test_columns_that_hide_stop_it_between_their_tables_too(graph: Graph) -> None:
    graph.asset("t", "u", "t#email", "u#email", "t#id", "u#id")
    graph.edge("t#email", "u#email", transformation="md5(email)")
    graph.tag("t", "PII")
    graph.tag("t#email", "PII")
    graph.settle()
    assert read(graph.core, graph.tenant, "u").tags == []
    graph.edge("t#id", "u#id")
    graph.settle()
    assert "PII" in read(graph.core, graph.tenant, "u").tags
    names = {name for name, *_ in graph.arrived()}
    assert names == {"u"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x", "field": "version"}, "field"),
        ({"name": "x", "field": "asset_owner", "names": ["a"]}, "names"),
        ({"name": "x", "field": "asset_owner", "on_conflict": "always"}, "roots"),
        ({"name": "x", "field": "tag", "on_conflict": "always"}, "on_conflict"),
        ({"name": "x", "field": "tag", "max_depth": 0}, "max_depth"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(boss: Person, body: dict[str, Any], field: str) -> None:
    problem = call(boss, "POST", RULES, 422, body)
    assert field in problem["errors"][0]["field"]


def test_nobody_else_sees_rules_and_blocks(
    core: Core, client: Client, boss: Person, graph: Graph
) -> None:
    [edge] = chain(graph, "a", "b")
    rule = call(boss, "POST", RULES, 201, {"name": "terms", "field": "term"})
    stranger = admin(core, client)
    call(stranger, "GET", f"{RULES}/{rule['id']}", 404)
    call(stranger, "DELETE", f"{RULES}/{rule['id']}", 404)
    call(stranger, "GET", f"/api/v1/lineage/{edge}/blocks", 404)
    call(stranger, "POST", f"/api/v1/lineage/{edge}/blocks", 404, {"name": "PII"})
    assert call(stranger, "GET", RULES, 200)["items"] == []
    viewer = with_role(core, boss, "viewer")
    call(viewer, "POST", RULES, 403, {"name": "more", "field": "term"})
    assert [r["name"] for r in call(viewer, "GET", RULES, 200)["items"]] == ["terms"]


def test_a_long_description_travels_whole(boss: Person, graph: Graph) -> None:
    chain(graph, "a", "b", "c")
    said = "".join(chr(0x4E00 + n * 37 % 20_000) for n in range(9_000))
    seen(graph.system, graph.tenant, "a", description=said)
    call(boss, "POST", RULES, 201, {"name": "texts", "field": "description"})
    graph.settle()
    assert read(graph.core, graph.tenant, "c").description == said
    seen(graph.system, graph.tenant, "a", description=said + "!")
    graph.settle()
    assert read(graph.core, graph.tenant, "c").description == said + "!"


def test_a_tag_travels_with_its_value(graph: Graph) -> None:
    chain(graph, "a", "b")
    graph.tag("a", "PII")
    with graph.core.database.unit(graph.tenant) as unit:
        unit.conn.execute("UPDATE tag_assignment SET value = %s", ["email " * 150])
    graph.settle()
    with graph.core.database.unit(graph.tenant) as unit:
        row = unit.conn.execute("SELECT name, value FROM propagated").fetchone()
    assert row == ("PII", "email " * 150)
    assert read(graph.core, graph.tenant, "b").tags == ["PII"]


def test_values_that_travel_both_ways_do_not_mix(boss: Person, graph: Graph) -> None:
    chain(graph, "a", "b", "c")
    call(boss, "POST", RULES, 201, {"name": "owners", "field": "asset_owner"})
    zones = {"name": "zones", "field": "metadata.zone", "direction": "upstream"}
    call(boss, "POST", RULES, 201, zones)
    for owner_, zone in (("ann", "eu"), ("bob", "us")):
        seen(graph.system, graph.tenant, "a", asset_owner=owner_)
        seen(graph.system, graph.tenant, "c", metadata={"zone": zone})
        graph.settle()
        for name in "abc":
            shown = read(graph.core, graph.tenant, name)
            assert (shown.asset_owner, shown.metadata) == (owner_, {"zone": zone})


def test_what_lineage_brought_is_found_and_counted_by_search(boss: Person, graph: Graph) -> None:
    def found(tag: str) -> tuple[list[str], int]:
        page = call(boss, "GET", f"/api/v1/metadata/search?tag={tag}", 200)
        names = sorted(item["qualified_name"] for item in page["items"])
        return names, page["facets"]["tag"].get(tag, 0)

    chain(graph, "a", "b", "c")
    graph.tag("a", "PII")
    graph.settle()
    assert found("PII") == (["a", "b", "c"], 3)
    graph.tag("a")
    graph.settle()
    assert found("PII") == ([], 0)
