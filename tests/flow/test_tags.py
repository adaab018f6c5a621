"""Tags and terms of assets over HTTP, on the real store."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from httpx import Client

from lily.assets.model import Asset
from lily.clock import FrozenClock
from lily.events.observations import AssetSeen, Suggestion
from lily.store import tag_validity
from lily.types import Tenant
from lily.wiring import Core, Services
from lily.workers import validity
from tests.flow import tagging
from tests.flow.apply import apply, gone, read, seen
from tests.flow.feeds import facts, kinds
from tests.flow.propagating import Graph
from tests.flow.tagging import NAME, People, place
from tests.flow.test_bulk_store import Load

people = tagging.people


def row(core: Core, people: People, name: str = NAME) -> Asset:
    return read(core, people.tenant, name)


def given(shown: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    return [(a["tag"], a["origin"], a["by"], a["effective"]) for a in shown["assignments"]]


# Who is shown where they disagree -----------------------------------------------------------


def test_a_person_says_public_then_the_source_says_pii(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME)
    people.says("ann", "public")
    assert people.tags()["effective"] == ["public"]
    seen(system, people.tenant, NAME, tags=["PII"])
    shown = people.tags()
    assert shown["effective"] == ["PII"]
    assert given(shown) == [
        ("PII", "source", "crawler", True),
        ("public", "person", "ann", False),
    ]
    assert shown["assignments"][1]["why"].startswith("hidden: of sensitivity, PII shows")


def test_a_persons_pii_protects_under_a_sources_public_until_a_steward_resolves_it(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME, tags=["public"])
    people.says("ann", "PII")
    shown = people.tags()
    assert shown["effective"] == ["public"]
    assert shown["protective"] == ["PII", "public"]
    assert shown["conflicts"] == [
        {"group": "sensitivity", "tags": ["public", "PII"], "shown": "public"}
    ]
    assert row(core, people).own_tags == ["PII", "public"]
    seen(system, people.tenant, NAME, tags=["public"], description="crawled again")
    assert people.tags()["protective"] == ["PII", "public"]

    path = f"metadata/{place()}/tags/PII/resolve"
    body = {"reason": "names of customers"}
    assert people("ed", "POST", path, json=body).status_code == 403
    answer = people("stew", "POST", path, "steward", json=body)
    assert answer.status_code == 200, answer.text
    resolved = answer.json()
    assert (resolved["effective"], resolved["conflicts"]) == (["PII"], [])
    assert resolved["protective"] == ["PII"]
    told = [fact for fact in facts(core, people.tenant) if fact.kind == "TagResolved"]
    assert [(fact.by, fact.after) for fact in told] == [
        ("stew", {"group": "sensitivity", "tag": "PII", "among": ["PII", "public"], **body})
    ]


def test_a_resolution_lowers_protection_and_ends_when_another_tag_joins(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME, tags=["public"])
    people.says("ann", "PII")
    answer = people("stew", "POST", f"metadata/{place()}/tags/public/resolve", "steward", json={})
    assert answer.json()["protective"] == ["public"]
    assert row(core, people).own == ["public"]
    seen(system, people.tenant, NAME, "dbt", tags=["confidential"])
    shown = people.tags()
    assert shown["protective"] == ["PII", "confidential", "public"]
    assert shown["conflicts"][0]["tags"] == ["public", "confidential", "PII"]


def test_only_a_conflict_can_be_resolved(system: Core, people: People) -> None:
    seen(system, people.tenant, NAME, tags=["public", "gold"])
    for tag, status in (("gold", 422), ("PII", 422), ("public", 409)):
        path = f"metadata/{place()}/tags/{tag}/resolve"
        assert people("stew", "POST", path, "steward", json={}).status_code == status, tag


# Coming and going ---------------------------------------------------------------------------


def test_a_persons_tag_survives_every_crawl_and_a_source_drops_only_its_own(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME, tags=["GDPR", "gold"])
    people.says("ann", "reviewed")
    people.says("ann", "gold")
    seen(system, people.tenant, NAME, tags=["GDPR"])
    assert people.tags()["effective"] == ["GDPR", "gold", "reviewed"]
    seen(system, people.tenant, NAME)
    gone(system, people.tenant, NAME)
    seen(system, people.tenant, NAME, tags=[])
    assert people.tags()["effective"] == ["gold", "reviewed"]
    assert row(core, people).own_tags is None


def test_two_persons_say_the_same_and_each_takes_back_only_ones_own(
    system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME)
    people.says("ann", "gold")
    people.says("bob", "gold")
    assert given(people.tags()) == [
        ("gold", "person", "ann", True),
        ("gold", "person", "bob", True),
    ]
    assert people.takes("ann", "gold").json()["effective"] == ["gold"]
    again = people.takes("ann", "gold")
    assert again.status_code == 409
    assert "bob" in again.json()["detail"]
    assert people.takes("ann", "gold", params={"by": "bob"}).status_code == 403
    taken = people.takes("stew", "gold", "steward", params={"by": "bob"})
    assert taken.json()["effective"] == []
    assert people.takes("ann", "gold").status_code == 404


def test_what_a_source_says_is_not_a_persons_to_take(system: Core, people: People) -> None:
    seen(system, people.tenant, NAME, tags=["gold"])
    answer = people.takes("ann", "gold")
    assert answer.status_code == 409
    assert "crawler" in answer.json()["detail"]


def test_saying_it_twice_is_saying_it_once(core: Core, system: Core, people: People) -> None:
    seen(system, people.tenant, NAME)
    first = people.says("ann", "gold", value="1")
    again = people.says("ann", "gold", value="1")
    assert first.headers["etag"] == again.headers["etag"]
    other = people.says("ann", "gold", value="2")
    assert [a["value"] for a in other.json()["assignments"]] == ["2"]
    assert kinds(core, people.tenant).count("TagsChanged") == 2


def test_put_replaces_ones_own_and_nobody_elses(system: Core, people: People) -> None:
    seen(system, people.tenant, NAME, tags=["s"])
    people.says("bob", "b")
    people.says("ann", "x")
    body: Any = {"tags": ["y", {"tag": "z", "value": "1"}]}
    answer = people("ann", "PUT", f"metadata/{place()}/tags", json=body)
    assert answer.json()["effective"] == ["b", "s", "y", "z"]
    assert people("ann", "PUT", f"metadata/{place()}/tags", json=[]).json()["effective"] == [
        "b",
        "s",
    ]
    twice = people("ann", "PUT", f"metadata/{place()}/tags", json=["a", "a"])
    assert twice.status_code == 422


def test_an_edit_by_an_old_version_is_refused(system: Core, people: People) -> None:
    seen(system, people.tenant, NAME)
    etag = people.says("ann", "a").headers["etag"]
    people.says("ann", "b")
    answer = people(
        "ann", "POST", f"metadata/{place()}/tags", json={"tag": "c"}, headers={"If-Match": etag}
    )
    assert answer.status_code == 412


def test_reading_and_putting_back_takes_over_nobodys_labels(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, "db", tags=["PII"])
    seen(system, people.tenant, NAME, parent_id="db", tags=["s"], business_terms=["t"])
    people.says("bob", "b")
    people("bob", "POST", f"metadata/{place()}/terms", json={"term": "churn"})
    shown = people("ann", "GET", f"metadata/{place()}").json()
    assert shown["tags"] == ["PII", "b", "s"]
    assert shown["business_terms"] == ["churn", "t"]
    shown["description"] = "new"
    answer = people("ann", "PUT", f"metadata/{place()}", json=shown)
    assert answer.status_code == 200, answer.text
    assert answer.json()["tags"] == ["PII", "b", "s"]
    asset = row(core, people)
    assert asset.tags == ["b", "s"]
    assert sorted(asset.edited or {}) == ["description"]


# Terms --------------------------------------------------------------------------------------


def test_terms_are_assigned_like_tags(core: Core, system: Core, people: People) -> None:
    seen(system, people.tenant, NAME, business_terms=["revenue"])
    path = f"metadata/{place()}/terms"
    assert people("ann", "POST", path, json={"term": "churn"}).json()["effective"] == [
        "churn",
        "revenue",
    ]
    seen(system, people.tenant, NAME)
    shown = people("ann", "GET", path).json()
    assert [(a["term"], a["origin"], a["by"]) for a in shown["assignments"]] == [
        ("churn", "person", "ann")
    ]
    assert row(core, people).business_terms == ["churn"]
    assert people("ann", "GET", "terms/churn", "viewer").json()["first_use"] is True
    assert people("ann", "DELETE", f"{path}/churn").json()["effective"] == []
    assert row(core, people).business_terms == []


# Suggestions --------------------------------------------------------------------------------


def suggested(system: Core, tenant: Tenant, names: list[str], tag: str = "PII") -> None:
    apply(
        system,
        tenant,
        [
            AssetSeen(qualified_name=name, suggestions=[Suggestion(tag, "classify", "looks so")])
            for name in names
        ],
    )


def test_a_suggestion_counts_when_it_is_accepted_and_never_comes_back_when_rejected(
    core: Core, system: Core, people: People
) -> None:
    suggested(system, people.tenant, [NAME, "other"])
    shown = people.tags()
    assert shown["effective"] == []
    assert shown["assignments"][0]["state"] == "suggested"
    accepted = people("ann", "POST", f"metadata/{place()}/tags/PII/accept")
    assert accepted.json()["effective"] == ["PII"]
    assert row(core, people).own == ["PII"]
    seen(system, people.tenant, NAME, description="crawled again")
    assert people.tags()["effective"] == ["PII"]
    assert people("ann", "POST", "metadata/other/tags/PII/reject").json()["effective"] == []
    suggested(system, people.tenant, ["other"])
    assert people("ann", "GET", "suggestions").json()["items"] == []
    told = kinds(core, people.tenant)
    assert ("SuggestionAccepted" in told, "SuggestionRejected" in told) == (True, True)
    assert people.takes("bob", "PII").json()["effective"] == []
    assert people("ann", "POST", "metadata/other/tags/GDPR/accept").status_code == 404


def test_many_suggestions_are_decided_at_once(core: Core, system: Core, people: People) -> None:
    names = [f"db/t{n}" for n in range(150)]
    suggested(system, people.tenant, names)
    suggested(system, people.tenant, ["db/x"], "PCI")
    page = people("ann", "GET", "suggestions", params={"limit": 100}).json()
    rest = people("ann", "GET", "suggestions", params={"after": page["next"]}).json()
    assert (len(page["items"]), len(rest["items"])) == (100, 51)
    body = {"filter": {"tag": "PII", "by": "classify"}}
    assert people("ann", "POST", "suggestions/accept", json=body).json() == {"decided": 150}
    assert all(row(core, people, name).tags == ["PII"] for name in names[::50])
    items = [{"asset_id": "db/x", "tag": "PCI"}]
    assert people("ann", "POST", "suggestions/reject", json={"items": items}).json()["decided"] == 1
    assert people("ann", "GET", "suggestions").json() == {"items": [], "next": None}
    assert people("ann", "POST", "suggestions/accept", json={}).status_code == 422


# A whole search -----------------------------------------------------------------------------


def test_a_whole_search_is_tagged_and_given_to_an_owner(
    core: Core, system: Core, people: People
) -> None:
    names = [f"db/customer_{n}" for n in range(130)]
    apply(system, people.tenant, [AssetSeen(qualified_name=name) for name in [*names, "db/x"]])
    body: dict[str, Any] = {
        "query": {"q": "customer"}, "add_tags": ["crm"], "asset_owner": "ann", "dry_run": True,
    }  # fmt: skip
    dry = people("ann", "POST", "metadata/search/tags", json=body).json()
    assert (dry["matched"], dry["changed"], dry["total"], dry["next"]) == (130, 130, 130, None)
    assert row(core, people, names[0]).tags == []
    del body["dry_run"]
    first = people("ann", "POST", "metadata/search/tags", json={**body, "limit": 110}).json()
    assert (first["matched"], first["changed"]) == (110, 110)
    rest = people("ann", "POST", "metadata/search/tags", json={**body, "after": first["next"]})
    assert rest.json()["changed"] == 20
    rows = [row(core, people, name) for name in names]
    assert {(asset.asset_owner, *asset.tags) for asset in rows} == {("ann", "crm")}
    assert row(core, people, "db/x").tags == []
    again = people("ann", "POST", "metadata/search/tags", json=body).json()
    assert (again["matched"], again["changed"]) == (130, 0)
    off = {"query": {"tag": "crm"}, "remove_tags": ["crm"]}
    assert people("ann", "POST", "metadata/search/tags", json=off).json()["changed"] == 130
    assert people("ann", "POST", "metadata/search/tags", json={"query": {}}).status_code == 422
    bad = {"query": {"colour": "red"}, "add_tags": ["x"]}
    assert people("ann", "POST", "metadata/search/tags", json=bad).status_code == 422


# Validity -----------------------------------------------------------------------------------


def test_an_assignment_begins_and_ends_by_itself(
    core: Core, system: Core, people: People, wired: Services
) -> None:
    seen(system, people.tenant, NAME)
    now = core.clock.now()
    soon, later = now + timedelta(hours=1), now + timedelta(hours=2)
    people.says("ann", "PII", valid_from=soon.isoformat(), valid_until=later.isoformat())
    assert people.tags()["assignments"][0]["state"] == "scheduled"
    assert tag_validity.next_due(system.database, "home", [people.tenant]) == soon
    assert tag_validity.come_due(system.database, people.tenant, now) == 0
    assert tag_validity.come_due(system.database, people.tenant, soon) == 1
    assert people.tags()["effective"] == ["PII"]
    assert tag_validity.come_due(system.database, people.tenant, later) == 1
    shown = people.tags()
    assert (shown["effective"], shown["protective"]) == ([], [])
    assert shown["assignments"][0]["state"] == "expired"
    assert tag_validity.next_due(system.database, "home", [people.tenant]) is None
    told = [fact for fact in facts(core, people.tenant) if fact.kind == "TagsChanged"]
    assert [(f.after or {})["tags"] for f in told][-2:] == [["PII"], []]
    assert told[-1].cause.startswith("expiry:")
    people.says("ann", "PII")
    assert people.tags()["effective"] == ["PII"]


def test_the_worker_ends_what_is_due_in_every_cell(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME)
    until = core.clock.now() + timedelta(hours=1)
    people.says("ann", "PII", valid_until=until.isoformat())
    validity.work(system, Event())
    assert people.tags()["effective"] == ["PII"]
    pause = validity.work(replace(system, clock=FrozenClock(until)), Event())
    assert people.tags()["effective"] == []
    assert pause <= validity.LONGEST


def test_a_validity_that_makes_no_sense_is_refused(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME)
    past = (core.clock.now() - timedelta(hours=1)).isoformat()
    future = (core.clock.now() + timedelta(hours=1)).isoformat()
    for body in (
        {"valid_until": past},
        {"valid_from": future, "valid_until": future},
        {"valid_until": "tomorrow"},
        {"valid_until": "9999-12-31T23:59:59-10:00"},
    ):
        answer = people("ann", "POST", f"metadata/{place()}/tags", json={"tag": "a", **body})
        assert answer.status_code == 422, body


# Containers ---------------------------------------------------------------------------------


def test_what_travels_is_inherited_from_the_containers_when_it_is_read(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, "db", tags=["GDPR", "gold"])
    seen(system, people.tenant, "db/s", parent_id="db", tags=["PII"])
    seen(system, people.tenant, "db/s/t", parent_id="db/s", tags=["internal"])
    seen(system, people.tenant, "db/s/t#c")
    shown = people.tags("db/s/t#c")
    assert shown["effective"] == ["GDPR", "PII"]
    assert [(a["tag"], a["origin"], a["depth"]) for a in shown["assignments"]] == [
        ("GDPR", "inherited", 3),
        ("PII", "inherited", 2),
    ]
    assert [len(a["path"]) for a in shown["assignments"]] == [4, 3]
    table = people.tags("db/s/t")
    assert table["effective"] == ["GDPR", "internal"]
    assert table["protective"] == ["GDPR", "PII", "internal"]
    assert people("v", "GET", f"metadata/{place('db/s/t#c')}", "viewer").json()["tags"] == [
        "GDPR",
        "PII",
    ]
    by_name = people("v", "GET", "metadata/by-name", params={"qualified_name": "db/s/t"})
    assert by_name.json()["tags"] == ["GDPR", "internal"]
    assert row(core, people, "db/s/t#c").tags == []
    people("stew", "PATCH", "tags/GDPR", "steward", json={"propagates": False})
    assert people.tags("db/s/t#c")["effective"] == ["PII"]


# Another tenant -----------------------------------------------------------------------------


def test_another_tenants_tags_do_not_exist(
    core: Core, system: Core, people: People, wired: Services, client: Client
) -> None:
    seen(system, people.tenant, NAME, tags=["gold"])
    people.says("ann", "mine")
    suggested(system, people.tenant, ["db/s"])
    stranger = People(wired, client, core)
    guid = row(core, people).guid
    for given_id in (place(), str(guid)):
        assert stranger("eve", "GET", f"metadata/{given_id}/tags").status_code == 404
        for method, path, body in (
            ("POST", f"metadata/{given_id}/tags", {"tag": "x"}),
            ("PUT", f"metadata/{given_id}/tags", []),
            ("DELETE", f"metadata/{given_id}/tags/mine", None),
            ("POST", f"metadata/{given_id}/tags/PII/accept", None),
            ("POST", f"metadata/{given_id}/tags/PII/resolve", {}),
        ):
            answer = stranger("eve", method, path, "admin", json=body)
            assert answer.status_code == 404, (method, path, answer.text)
    assert stranger("eve", "GET", "suggestions").json()["items"] == []
    assert stranger("eve", "GET", "tags/mine").status_code == 404
    names = [tag["name"] for tag in stranger("eve", "GET", "tags").json()["items"]]
    assert sorted(names) == ["GDPR", "PCI", "PHI", "PII", "confidential", "internal", "public"]
    found = stranger(
        "eve", "POST", "metadata/search/tags", json={"query": {}, "add_tags": ["x"]}
    ).json()
    assert found["matched"] == 0


def test_who_may_only_read_tags_nothing(system: Core, people: People) -> None:
    seen(system, people.tenant, NAME)
    for method, path in (
        ("POST", f"metadata/{place()}/tags"),
        ("PUT", f"metadata/{place()}/tags"),
        ("DELETE", f"metadata/{place()}/tags/x"),
        ("POST", "suggestions/accept"),
        ("POST", "metadata/search/tags"),
        ("POST", "tags"),
    ):
        assert people("v", method, path, "viewer", json={}).status_code == 403, path
    assert people("ed", "POST", "tags", "editor", json={"name": "x"}).status_code == 403
    missing = str(uuid4())
    assert people("ed", "GET", f"metadata/{missing}/tags").status_code == 404


# Lineage ------------------------------------------------------------------------------------


@pytest.fixture
def graph(core: Core, system: Core, people: People) -> Iterator[Graph]:
    made = Graph(core, system, people.tenant)
    yield made
    made.propagator.close()


def test_a_propagated_tag_shows_its_root_its_way_and_goes_with_the_validity_of_its_root(
    core: Core, system: Core, people: People, graph: Graph
) -> None:
    graph.asset("a", "b", "c")
    graph.edge("a", "b")
    graph.edge("b", "c")
    graph.asset("c", tags=["public"])
    until = core.clock.now() + timedelta(hours=1)
    people.says("ann", "PII", "a", valid_until=until.isoformat())
    graph.settle()
    shown = people.tags("c")
    assert shown["effective"] == ["PII"]
    assert shown["protective"] == ["PII", "public"]
    [found] = [each for each in shown["assignments"] if each["origin"] == "propagated"]
    assert (found["tag"], found["depth"]) == ("PII", 2)
    assert found["root"] == str(graph.guid("a"))
    assert found["path"] == [str(graph.guid(name)) for name in ("a", "b", "c")]
    assert people.takes("ann", "PII", name="c").status_code == 409
    assert shown["conflicts"][0]["tags"] == ["public", "PII"]

    seen(system, people.tenant, "c", tags=["public"], description="crawled again")
    assert people.tags("c")["effective"] == ["PII"]
    assert tag_validity.come_due(system.database, people.tenant, until) == 1
    graph.settle()
    assert people.tags("c")["effective"] == ["public"]
    assert row(core, people, "c").own_tags is None
    assert row(core, people, "b").tags == []


def test_tags_that_arrive_by_file_propagate_like_those_set_by_hand(
    core: Core, system: Core, people: People, graph: Graph
) -> None:
    graph.asset("b")
    graph.edge("a", "b")
    load = Load(core, system, people.tenant)
    load.apply(load.chunk([AssetSeen(qualified_name="a", tags=["GDPR"])]))
    load.loader.close()
    graph.settle()
    assert people.tags("b")["effective"] == ["GDPR"]
