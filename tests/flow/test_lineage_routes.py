"""Lineage over HTTP, through log and Spark."""

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from httpx import Response

from tests.flow.people import Person, with_role
from tests.live import Live

LINEAGE = "/api/v1/metadata/lineage"


class Graphs:
    """Somebody who states edges and looks at graphs, under names of their own."""

    def __init__(self, who: Person) -> None:
        self.who = who

    def ask(self, method: str, tail: str = "", **more: Any) -> Response:
        return self.who.client.request(method, LINEAGE + tail, headers=self.who.headers, **more)

    def state(self, start: str, end: str, status: int = 201, **more: Any) -> Any:
        body = {"from_asset_id": start, "to_asset_id": end, **more}
        answer = self.ask("POST", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def graph(self, name: str, **params: Any) -> Any:
        answer = self.ask("GET", f"/{quote(name, safe='')}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def names(self, name: str, **params: Any) -> dict[str, int]:
        return {n["qualified_name"]: n["depth"] for n in self.graph(name, **params)["nodes"]}

    def asset(self, body: dict[str, Any]) -> Any:
        answer = self.who.client.post("/api/v1/metadata", json=body, headers=self.who.headers)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()


@pytest.fixture
def mine(api: Person) -> Graphs:
    return Graphs(api)


def test_a_stated_edge_is_in_the_graph_with_its_columns_and_tags(mine: Graphs) -> None:
    mine.asset({"qualified_name": "db://h/a", "asset_type": "table", "tags": ["PII"],
                "asset_id": "own-a"})  # fmt: skip
    columns = [{"from": "email", "to": "db://h/b#address", "transformation": "lower(email)"}]
    made = mine.state("own-a", "db://h/b", process="nightly", columns=columns)
    assert (made["outcome"], made["origin"], made["process"]) == ("created", "person", "nightly")
    assert made["columns"][0]["transformation"] == "lower(email)"
    found = mine.graph("db://h/a", columns=True)
    assert [(n["asset_id"], n["asset_type"], n["depth"]) for n in found["nodes"]] == [
        ("own-a", "table", 0), (made["to"], "placeholder", 1),
    ]  # fmt: skip
    assert found["nodes"][0]["tags"] == ["PII"]
    [edge] = found["edges"]
    assert (edge["edge_id"], edge["from_asset_id"], edge["implied"]) == (
        made["edge_id"], "own-a", False,
    )  # fmt: skip
    assert [c["transformation"] for c in edge["columns"]] == ["lower(email)"]
    assert (found["next"], found["truncated"]) == (None, False)
    assert mine.names("db://h/a#email") == {"db://h/a#email": 0, "db://h/b#address": 1}
    assert mine.names("db://h/b", direction="upstream") == {"db://h/b": 0, "db://h/a": 1}
    again = mine.state("own-a", "db://h/b", 200, process="nightly", columns=columns)
    assert again["outcome"] == "unchanged"


def test_a_list_tells_of_each_edge(mine: Graphs) -> None:
    good = {"from_asset_id": "x", "to_asset_id": "y", "relationship_type": "depends-on"}
    bad = {"from_asset_id": "x", "to_asset_id": str(uuid4())}
    answer = mine.ask("POST", json=[good, bad, {"to_asset_id": 3}])
    assert answer.status_code == 207
    items = answer.json()["items"]
    assert [item["status"] for item in items] == [201, 422, 422]
    assert items[1]["errors"][0]["field"] == "[1].to_asset_id"
    assert {e["field"] for e in items[2]["errors"]} == {"[2].to_asset_id"}
    assert mine.names("y") == {"y": 0, "x": 1}
    assert mine.ask("POST", json=[]).status_code == 422
    assert mine.ask("POST", json=[good] * 1001).status_code == 413


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"to_asset_id": "b"}, "from_asset_id"),
        ({"from_asset_id": "a", "to_asset_id": "b", "process": 1}, "process"),
        ({"from_asset_id": "a", "to_asset_id": "b", "masking": "yes"}, "masking"),
        ({"from_asset_id": "a", "to_asset_id": "b", "columns": [{"from": "x"}]}, "columns[0].to"),
        ({"from_asset_id": "a", "to_asset_id": "b", "relationship_type": " "}, "relationship_type"),
        ({"from_asset_id": "a", "to_asset_id": "b", "properties": []}, "properties"),
        ({"from_asset_id": "a", "to_asset_id": "b", "source": "job:x"}, "source"),
        ({"from_asset_id": "a\0", "to_asset_id": "b"}, "from_asset_id"),
        ({"from_asset_id": "a", "to_asset_id": "b", "observed_at": "soon"}, "observed_at"),
        ({"from_asset_id": "a", "to_asset_id": "b", "observed_at": "2999-01-01"}, "observed_at"),
    ],
)
def test_what_is_wrong_with_an_edge_is_named(mine: Graphs, body: Any, field: str) -> None:
    answer = mine.ask("POST", json=body)
    assert answer.status_code == 422
    assert field in {error["field"] for error in answer.json()["errors"]}


def test_a_persons_delete_outlives_sources_until_a_person_restores(mine: Graphs) -> None:
    edge = mine.state("a", "b", source="dbt")
    assert (edge["origin"], edge["source"]) == ("source", "dbt")
    assert mine.ask("DELETE", f"/{edge['edge_id']}").status_code == 200
    assert mine.names("a") == {"a": 0}
    assert mine.state("a", "b", 200, source="dbt")["is_deleted"] is True
    assert mine.names("a") == {"a": 0}
    assert mine.names("a", include_deleted=True) == {"a": 0, "b": 1}
    assert mine.ask("DELETE", f"/{edge['edge_id']}").status_code == 404
    back = mine.state("a", "b", 200)
    assert (back["outcome"], back["is_deleted"], back["origin"]) == ("updated", False, "person")
    assert mine.names("a") == {"a": 0, "b": 1}


def test_a_source_withdraws_what_it_no_longer_sees(mine: Graphs) -> None:
    mine.state("a", "b", source="dbt")
    mine.state("a", "b", 200, source="dbt", is_deleted=True)
    assert mine.names("a") == {"a": 0}
    body = {"from_asset_id": "a", "to_asset_id": "b", "is_deleted": True}
    assert mine.ask("POST", json=body).status_code == 422


def test_edges_are_deleted_by_their_ends_with_their_columns(mine: Graphs) -> None:
    mine.state("a", "b", columns=[{"from": "x", "to": "y"}])
    mine.state("a", "b", relationship_type="copies")
    wrong = mine.ask("DELETE", params={"from": "b", "to": "a"})
    assert wrong.status_code == 404
    gone = mine.ask("DELETE", params={"from": "a", "to": "b", "type": "derived-from"})
    assert len(gone.json()["items"]) == 2
    assert len(mine.graph("a")["edges"]) == 1
    assert mine.names("a#x") == {"a#x": 0}


def test_contains_sets_the_parent_and_is_no_lineage(mine: Graphs) -> None:
    mine.asset({"qualified_name": "shop"})
    child = mine.asset({"qualified_name": "people"})
    said = mine.state("shop", "people", 200, relationship_type="contains")
    assert (said["parent"], said["child"]) == ("shop", "people")
    headers = mine.who.headers
    read = mine.who.client.get(f"/api/v1/metadata/{child['guid']}", headers=headers).json()
    shop = mine.who.client.get("/api/v1/metadata/shop", headers=headers).json()
    assert read["parent_id"] == shop["guid"]
    assert mine.graph("shop")["edges"] == []
    mine.state("shop", "orders", 200, relationship_type="contains", source="erp")
    orders = mine.who.client.get("/api/v1/metadata/orders", headers=headers).json()
    assert orders["parent_id"] == shop["guid"]


def test_impact_counts_by_kind_owner_and_tag(mine: Graphs) -> None:
    mine.asset({"qualified_name": "b", "asset_type": "view", "asset_owner": "ann"})
    mine.asset({"qualified_name": "c", "asset_type": "dashboard", "tags": ["gold"]})
    mine.state("a", "b")
    mine.state("b", "c")
    found = mine.ask("GET", "/a/impact").json()
    assert found["total"] == 2
    assert found["kinds"] == {"dashboard": 1, "view": 1}
    assert found["owners"] == {"": 1, "ann": 1}
    assert found["tags"] == {"gold": 1}
    assert found["depths"] == {"1": 1, "2": 1}


def test_pages_of_a_graph_are_followed_to_the_end(mine: Graphs) -> None:
    edges = [{"from_asset_id": "hub", "to_asset_id": f"leaf{n}"} for n in range(25)]
    assert mine.ask("POST", json=edges).status_code == 200
    found, after, lines = [], "", 0
    while after is not None:
        page = mine.graph("hub", limit=10, after=after)
        found += [node["guid"] for node in page["nodes"]]
        lines += len(page["edges"])
        assert page["truncated"] == (page["next"] is not None)
        after = page["next"]
    assert len(found) == len(set(found)) == 26
    assert lines == 25
    assert mine.ask("GET", "/hub", params={"after": "nonsense"}).status_code == 422
    assert mine.ask("GET", "/hub", params={"depth": 21}).status_code == 422
    assert mine.ask("GET", "/nobody").status_code == 404


def test_roles_see_and_state_what_they_may(live: Live, mine: Graphs) -> None:
    mine.state("a", "b")
    viewer, ingester = (Graphs(with_role(live.core, mine.who, r)) for r in ("viewer", "ingester"))
    assert viewer.names("a") == {"a": 0, "b": 1}
    assert viewer.ask("POST", json={}).status_code == 403
    assert ingester.ask("GET", "/a").status_code == 403
    ingester.state("b", "c")


def test_an_edge_that_waits_for_nobody_is_accepted(mine: Graphs) -> None:
    headers = {**mine.who.headers, "Prefer": "respond-async"}
    body = {"from_asset_id": "a", "to_asset_id": "b"}
    answer = mine.who.client.post(LINEAGE, json=body, headers=headers)
    assert answer.status_code == 202
    assert answer.json()["outcome"] == "accepted"
