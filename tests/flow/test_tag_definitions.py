"""What tags and terms mean to a tenant, and what becomes of those that nobody defined."""

from typing import Any

import pytest
from httpx import Client

from lily.events.observations import AssetSeen
from lily.store.bulk import Place
from lily.store.jobs import errors
from lily.wiring import Core, Services
from tests.flow import tagging
from tests.flow.apply import apply, read, seen
from tests.flow.corridor import Corridor, append
from tests.flow.feeds import facts, kinds
from tests.flow.tagging import NAME, People, place
from tests.flow.test_bulk_store import Load

SECRET = {
    "name": "secret", "description": "For nobody.", "colour": "#b71c1c",
    "exclusive_group": "sensitivity", "rank": 4, "propagates": True, "max_depth": 3,
    "edge_kinds": ["feeds"],
}  # fmt: skip
REFUSE = {"unknown_tags": "refuse", "unknown_terms": "refuse"}


people = tagging.people


def define(people: People, **said: Any) -> dict[str, Any]:
    answer = people("stew", "POST", "tags", "steward", json=said)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_the_built_in_tags_are_there_and_say_what_they_do(people: People) -> None:
    items = people("v", "GET", "tags", "viewer").json()["items"]
    found = {each["name"]: each for each in items}
    assert {name for name, each in found.items() if each["propagates"]} == {
        "PII", "GDPR", "PHI", "PCI",
    }  # fmt: skip
    group = [each for each in items if each["exclusive_group"] == "sensitivity"]
    assert [each["name"] for each in sorted(group, key=lambda each: each["rank"])] == [
        "public", "internal", "confidential", "PII",
    ]  # fmt: skip
    page = people("v", "GET", "tags", "viewer", params={"limit": 3}).json()
    rest = people("v", "GET", "tags", "viewer", params={"after": page["next"]}).json()
    assert len(page["items"]) + len(rest["items"]) == 7


def test_a_definition_is_made_changed_and_deleted_with_its_facts(
    core: Core, people: People
) -> None:
    made = define(people, **SECRET)
    assert {name: made[name] for name in SECRET} == SECRET
    assert (made["version"], made["builtin"], made["first_use"]) == (1, False, False)
    again = people("stew", "POST", "tags", "steward", json=SECRET)
    assert again.status_code == 409
    body = {"colour": None, "propagates": False}
    changed = people("stew", "PATCH", "tags/secret", "steward", json=body).json()
    assert (changed["colour"], changed["propagates"], changed["version"]) == (None, False, 2)
    renamed = people("stew", "PATCH", "tags/secret", "steward", json={"name": "top secret"})
    assert renamed.status_code == 200
    assert people("v", "GET", "tags/secret").status_code == 404
    assert people("stew", "DELETE", "tags/top%20secret", "steward").status_code == 204
    assert people("v", "GET", "tags/top%20secret").status_code == 404
    told = [f.kind for f in facts(core, people.tenant) if f.kind.startswith("TagDef")]
    assert told == [
        "TagDefined", "TagDefinitionChanged", "TagDefinitionChanged", "TagDefinitionDeleted",
    ]  # fmt: skip


def test_what_is_in_use_or_built_in_keeps_its_name(system: Core, people: People) -> None:
    seen(system, people.tenant, NAME, tags=["gold"])
    for method, path, body in (
        ("DELETE", "tags/gold", None),
        ("PATCH", "tags/gold", {"name": "silver"}),
        ("DELETE", "tags/PII", None),
        ("PATCH", "tags/PII", {"name": "pii"}),
    ):
        answer = people("stew", method, path, "steward", json=body)
        assert answer.status_code == 409, path
    assert "1 assets have it" in people("s", "DELETE", "tags/gold", "steward").json()["detail"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"name": " "},
        {"name": "a", "colour": "red"},
        {"name": "a", "rank": "high"},
        {"name": "a", "max_depth": 0},
        {"name": "a", "precedence": "mine"},
        {"name": "a", "kind": "tag"},
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(people: People, wrong: Any) -> None:
    assert people("stew", "POST", "tags", "steward", json=wrong).status_code == 422


def test_a_tenants_own_group_and_precedence_decide_from_the_next_change_on(
    core: Core, system: Core, people: People
) -> None:
    define(people, name="raw", exclusive_group="quality", rank=1)
    define(people, name="gold", exclusive_group="quality", rank=2, precedence="person")
    seen(system, people.tenant, NAME, tags=["gold"])
    people.says("ann", "raw")
    assert people.tags()["effective"] == ["raw"]
    body = {"precedence": "restrictive"}
    people("stew", "PATCH", "tags/gold", "steward", json=body)
    seen(system, people.tenant, NAME, tags=["gold"], description="again")
    assert people.tags()["effective"] == ["gold"]
    assert people.tags()["conflicts"][0]["group"] == "quality"


def test_a_tag_is_defined_when_it_is_first_used_by_observation_edit_and_file(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME, tags=["crawled", "PII"], business_terms=["churn"])
    people.says("ann", "said")
    people("ann", "PATCH", f"metadata/{place()}", json={"business_terms": ["edited"]})
    load = Load(core, system, people.tenant)
    load.apply(load.chunk([AssetSeen(qualified_name="f", tags=["filed"])]))
    load.loader.close()
    for name, by in (("crawled", "first-use"), ("said", "ann"), ("filed", "first-use")):
        made = people("v", "GET", f"tags/{name}").json()
        assert (made["first_use"], made["created_by"], made["propagates"]) == (True, by, False)
    for name in ("churn", "edited"):
        assert people("v", "GET", f"terms/{name}").json()["first_use"] is True
    assert people("v", "GET", "tags/PII").json()["propagates"] is True
    taken = define(people, name="crawled", propagates=True)
    assert (taken["first_use"], taken["version"]) == (False, 2)


def test_unknown_tags_are_refused_where_the_tenant_says_so(
    core: Core, system: Core, people: People
) -> None:
    seen(system, people.tenant, NAME, tags=["known"], business_terms=["churn"])
    assert people("ed", "PUT", "tag-settings", json=REFUSE).status_code == 403
    assert people("stew", "PUT", "tag-settings", "steward", json=REFUSE).json() == REFUSE
    assert people("v", "GET", "tag-settings", "viewer").json() == REFUSE
    for path, body in (("tags", {"tag": "new"}), ("terms", {"term": "new"})):
        answer = people("ann", "POST", f"metadata/{place()}/{path}", json=body)
        assert answer.status_code == 422, path
        assert "define it" in answer.json()["errors"][0]["message"]
    edit = people("ann", "PATCH", f"metadata/{place()}", json={"tags": ["new"]})
    assert edit.status_code == 422
    people.says("ann", "known")
    assert "TenantChanged" in kinds(core, people.tenant)


def test_an_observation_with_an_unknown_tag_becomes_a_dead_letter(
    core: Core, corridor: Corridor, people: People
) -> None:
    people("stew", "PUT", "tag-settings", "steward", json=REFUSE)
    good = AssetSeen(qualified_name="good", tags=["PII"])
    append(core, people.tenant, good, AssetSeen(qualified_name="bad", tags=["new"]))
    corridor.run()
    assert read(core, people.tenant, "good").tags == ["PII"]
    letters = people("a", "GET", "dead-letters", "admin").json()["items"]
    assert [(each["key"], each["stage"]) for each in letters] == [("bad", "validate")]
    assert letters[0]["reason"].startswith("tags: new is not defined")


def test_a_line_with_an_unknown_tag_is_refused(core: Core, system: Core, people: People) -> None:
    people("stew", "PUT", "tag-settings", "steward", json=REFUSE)
    load = Load(core, system, people.tenant)
    load.loader.done(Place(people.tenant, load.id, load.runner, "core", 1))
    found = load.apply(
        load.chunk(
            [
                AssetSeen(qualified_name="a", tags=["GDPR"]),
                AssetSeen(qualified_name="b", tags=["x"]),
            ]
        )
    )
    load.loader.close()
    assert found is not None
    assert found.created == 1
    with core.database.unit(people.tenant) as unit:
        assert [each.line for each in errors(unit, load.id, 0, 10)] == [2]


def test_another_tenants_definitions_decide_nothing_here(
    core: Core, system: Core, people: People, wired: Services, client: Client
) -> None:
    define(people, name="gold", exclusive_group="quality", rank=2)
    define(people, name="raw", exclusive_group="quality", rank=1)
    other = People(wired, client, core)
    apply(system, other.tenant, [AssetSeen(qualified_name="x", tags=["gold", "raw"])])
    apply(system, people.tenant, [AssetSeen(qualified_name="x", tags=["gold", "raw"])])
    assert read(core, other.tenant, "x").tags == ["gold", "raw"]
    assert read(core, people.tenant, "x").tags == ["gold"]
