"""Connections enable plug-ins for a tenant; their secrets come back to nobody."""

import json
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

from lily.api.rest.pages import mark
from lily.assets.hooks import HookFailure, run_hooks
from lily.events.observations import AssetSeen
from lily.pipeline.hooks import HookCache, NamedHook, load_hooks
from lily.store import feed
from lily.store.seal import Seal
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.people import Person, admin, with_role
from tests.packages import install_test_hooks

ROUTE = "/api/v1/connections"
SECRET = "swordfish-7"


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_test_hooks(tmp_path, monkeypatch)


def send(who: Person, method: str, path: str = "", body: Any = None, **headers: str) -> Any:
    content = None if body is None else json.dumps(body)
    sent = {"Content-Type": "application/json", **who.headers, **headers}
    return who.client.request(method, f"{ROUTE}{path}", content=content, headers=sent)


def make(who: Person, name: str = "ours", plugin: str = "classify", **more: Any) -> dict[str, Any]:
    answer = send(who, "POST", "", {"name": name, "plugin": plugin, "uses": ["hook"], **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def in_force(system: Core, tenant: Tenant, cache: HookCache | None = None) -> list[NamedHook]:
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        found = load_hooks(conn, [tenant.number], system.seal.open, {} if cache is None else cache)
    return found.get(tenant.number, [])


def facts_of(core: Core, tenant: Tenant) -> list[tuple[str, str]]:
    with core.database.unit(tenant) as unit:
        links = feed.after(unit, 0, 1000)
    return [(link.kind, link.payload or "") for link in links]


def test_a_connection_can_be_made_read_listed_changed_and_deleted(boss: Person) -> None:
    answer = send(boss, "POST", "", {"name": "x", "plugin": "classify", "uses": ["hook"]})
    made = answer.json()
    assert (answer.status_code, answer.headers["etag"]) == (201, '"1"')
    assert answer.headers["location"] == f"{ROUTE}/{made['id']}"
    assert send(boss, "GET", f"/{made['id']}").json() == made
    assert send(boss, "GET").json() == {"items": [made], "next": None}
    changed = send(boss, "PATCH", f"/{made['id']}", {"options": {"mode": "apply"}, "ordinal": 3})
    assert changed.json()["options"] == {"mode": "apply"}
    assert (changed.json()["ordinal"], changed.headers["etag"]) == (3, '"2"')
    assert send(boss, "DELETE", f"/{made['id']}").status_code == 204
    assert send(boss, "GET", f"/{made['id']}").status_code == 404


def test_pages_follow_the_order_in_which_hooks_run(boss: Person) -> None:
    for name, ordinal in (("c", 1), ("a", 2), ("b", 1)):
        make(boss, name, ordinal=ordinal)
    first = send(boss, "GET", "?limit=2").json()
    second = send(boss, "GET", f"?limit=2&after={first['next']}").json()
    assert [c["name"] for c in first["items"] + second["items"]] == ["b", "c", "a"]
    assert second["next"] is None
    for after in ("nonsense", mark(2**40, "a"), mark(1, "\0"), mark(1), "%00"):
        assert send(boss, "GET", f"?after={after}").status_code == 422


def test_a_change_of_nothing_makes_no_revision_and_no_fact(
    core: Core, boss: Person, hooks: None
) -> None:
    made = make(boss, plugin="test-stamp", options={"password": SECRET, "note": "n"})
    before = len(facts_of(core, boss.tenant))
    same = {"name": "ours", "options": {"note": "n", "password": "********"}}
    answer = send(boss, "PATCH", f"/{made['id']}", same)
    assert answer.json() == made
    assert len(facts_of(core, boss.tenant)) == before


def test_an_old_etag_changes_and_deletes_nothing(boss: Person) -> None:
    made = make(boss)
    send(boss, "PATCH", f"/{made['id']}", {"enabled": False})
    for method, body in (("PATCH", {"enabled": True}), ("DELETE", None)):
        for etag in ('"1"', "nonsense"):
            stale = send(boss, method, f"/{made['id']}", body, **{"If-Match": etag})
            assert stale.status_code == 412
    fresh = send(boss, "PATCH", f"/{made['id']}", {"enabled": True}, **{"If-Match": '"2"'})
    assert fresh.json()["revision"] == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"plugin": "nope"}, "plugin"),
        ({"plugin": "classify", "options": {"mode": "guess"}}, "options.mode"),
        ({"options": {"rules": [{"pattern": "(a+)+", "tag": "x"}]}}, "options.rules.0.pattern"),
        ({"options": {"rules": [{"pattern": "a"}]}}, "options.rules.0.tag"),
        ({"options": {"rules": [{"pattern": "a", "tag": "x\0"}]}}, "options"),
        ({"options": []}, "options"),
        ({"options": {"mode": "\ud800"}}, "options"),
        ({"options": {"mode": 10**40}}, "options.mode"),
        ({"uses": ["sink"]}, "uses.0"),
        ({"uses": ["target"]}, "plugin"),
        ({"uses": ["hook", "hook"]}, "uses"),
        ({"uses": []}, "uses"),
        ({"name": " "}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"ordinal": 10**10}, "ordinal"),
        ({"schedule": "daily"}, "schedule"),
    ],
)
def test_a_wrong_connection_is_refused_and_the_field_named(
    boss: Person, body: dict[str, Any], field: str
) -> None:
    answer = send(boss, "POST", "", {"name": "x", "plugin": "classify", "uses": ["hook"], **body})
    assert answer.status_code == 422, answer.text
    assert field in [e["field"] for e in answer.json()["errors"]]
    assert send(boss, "GET").json()["items"] == []


def test_a_name_can_be_taken_once(boss: Person) -> None:
    make(boss, "a")
    other = make(boss, "b")
    again = send(boss, "POST", "", {"name": "a", "plugin": "rename", "uses": ["hook"]})
    renamed = send(boss, "PATCH", f"/{other['id']}", {"name": "a"})
    assert (again.status_code, renamed.status_code) == (409, 409)


def test_a_tenant_has_room_for_a_hundred(boss: Person) -> None:
    for number in range(100):
        make(boss, f"c{number}")
    full = send(boss, "POST", "", {"name": "x", "plugin": "rename", "uses": ["hook"]})
    assert (full.status_code, "at most 100" in full.json()["detail"]) == (409, True)


def test_secrets_are_never_in_answers_facts_or_logs(
    core: Core,
    boss: Person,
    hooks: None,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "lily.api")
    made = make(boss, plugin="test-leak", options={"password": SECRET, "note": "n"})
    assert made["options"] == {"password": "********", "note": "n"}
    path = f"/{made['id']}"
    answers = [
        send(boss, "GET", path),
        send(boss, "GET"),
        send(boss, "PATCH", path, {"options": {"note": "m"}}),
        send(boss, "PATCH", path, {"options": {"password": [SECRET]}}),
        send(boss, "PATCH", path, {"options": {"note": f"bad{SECRET}"}}),
        send(boss, "POST", f"{path}/test", {"observation": {"qualified_name": "a"}}),
        send(boss, "DELETE", path),
    ]
    assert answers[5].json()["reason"] == "RuntimeError: login with ******** failed badly"
    assert all(SECRET not in answer.text for answer in answers)
    told = facts_of(core, boss.tenant)
    assert [k for k, _ in told if k.startswith("Connection")] == [
        "ConnectionCreated",
        "ConnectionChanged",
        "ConnectionDeleted",
    ]
    assert all(SECRET not in payload and "secrets" not in payload for _, payload in told)
    logged = "".join(capfd.readouterr()) + caplog.text
    assert made["id"] in logged and SECRET not in logged


def test_secrets_are_sealed_to_their_own_row(core: Core, boss: Person, hooks: None) -> None:
    one = make(boss, "one", "test-leak", options={"password": SECRET})
    two = make(boss, "two", "test-leak", options={"password": "other secret"})
    with core.database.unit(boss.tenant) as unit:
        row = unit.conn.execute(
            "SELECT secrets, options::text FROM connection WHERE id = %s", [one["id"]]
        ).fetchone()
        assert row is not None
        assert SECRET.encode() not in row[0] and SECRET not in row[1]
        unit.conn.execute("UPDATE connection SET secrets = %s WHERE id = %s", [row[0], two["id"]])
    trial = {"observation": {"qualified_name": "a"}}
    assert send(boss, "POST", f"/{two['id']}/test", trial).status_code == 503


def test_a_patch_keeps_the_secrets_it_does_not_name(
    system: Core, boss: Person, hooks: None
) -> None:
    made = make(boss, plugin="test-leak", options={"password": SECRET})

    def secret() -> tuple[str, ...]:
        return in_force(system, boss.tenant)[0].hidden

    send(boss, "PATCH", f"/{made['id']}", {"options": {"note": "m"}})
    assert secret() == (SECRET,)
    send(boss, "PATCH", f"/{made['id']}", {"options": {"password": "********"}})
    assert secret() == (SECRET,)
    send(boss, "PATCH", f"/{made['id']}", {"options": {"password": "another"}})
    assert secret() == ("another",)
    gone = send(boss, "PATCH", f"/{made['id']}", {"options": {"password": None}})
    assert gone.json()["options"] == {"note": "m"}
    assert secret() == ()


def test_a_hook_can_be_tried_without_storing_anything(boss: Person, hooks: None) -> None:
    def trial(plugin: str, observation: dict[str, Any]) -> dict[str, Any]:
        made = make(boss, plugin, plugin)
        answer = send(boss, "POST", f"/{made['id']}/test", {"observation": observation})
        assert answer.status_code == 200, answer.text
        outcome: dict[str, Any] = answer.json()
        return outcome

    found = trial("classify", {"qualified_name": "a", "asset_name": "email"})
    assert (found["outcome"], found["changed"]) == ("returned", True)
    assert found["observation"]["suggestions"][0]["tag"] == "PII"
    assert trial("rename", {"qualified_name": "a"})["changed"] is False
    assert trial("test-drop", {"qualified_name": "a"})["outcome"] == "dropped"
    refused = trial("test-refuse", {"type": "AssetGone", "qualified_name": "a"})
    assert (refused["outcome"], refused["reason"]) == ("refused", "not before Monday")


@pytest.mark.parametrize(
    ("observation", "field"),
    [
        ({}, "observation"),
        ({"qualified_name": 7}, "observation.qualified_name"),
        ({"qualified_name": ""}, "observation.qualified_name"),
        ({"qualified_name": "a", "colour": "red"}, "observation.colour"),
        ({"qualified_name": "a", "type": "Fact"}, "observation.type"),
        ({"qualified_name": "a", "metadata": {"x": "\ud800"}}, "observation"),
    ],
)
def test_a_trial_with_a_wrong_observation_names_the_field(
    boss: Person, observation: dict[str, Any], field: str
) -> None:
    made = make(boss)
    answer = send(boss, "POST", f"/{made['id']}/test", {"observation": observation})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_the_pipeline_sees_each_change_at_once_and_builds_only_what_changed(
    system: Core, boss: Person, hooks: None
) -> None:
    cache: HookCache = {}
    assert in_force(system, boss.tenant, cache) == []
    two = make(boss, "two", "test-stamp", ordinal=2)
    one = make(boss, "one", "test-stamp", ordinal=1)
    first = in_force(system, boss.tenant, cache)
    assert [hook.name for hook in first] == ["one", "two"]
    assert [a is b for a, b in zip(first, in_force(system, boss.tenant, cache), strict=True)] == [
        True,
        True,
    ]
    send(boss, "PATCH", f"/{one['id']}", {"ordinal": 3})
    second = in_force(system, boss.tenant, cache)
    assert [hook.name for hook in second] == ["two", "one"]
    assert (second[0] is first[1], second[1] is first[0]) == (True, False)
    send(boss, "PATCH", f"/{two['id']}", {"enabled": False})
    send(boss, "DELETE", f"/{one['id']}")
    assert in_force(system, boss.tenant, cache) == []
    assert cache == {}


def test_a_hook_that_cannot_be_built_refuses_with_the_reason_and_spares_other_tenants(
    core: Core, client: Client, system: Core, boss: Person, tmp_path: Path
) -> None:
    seen = AssetSeen(qualified_name="a")
    with pytest.MonkeyPatch.context() as patch:
        install_test_hooks(tmp_path, patch)
        make(boss, "theirs", "test-leak", options={"password": SECRET})
        other = Seal([bytes(32)])
        with system.database.cell("home", [boss.tenant.number]) as conn:
            locked = load_hooks(conn, [boss.tenant.number], other.open, {})[boss.tenant.number]
    found = run_hooks(in_force(system, boss.tenant), seen)
    assert isinstance(found, HookFailure)
    assert found.plugin == "theirs"
    assert found.reason.startswith("the hook cannot be built: There is no hook 'test-leak'")
    sealed = run_hooks(locked, seen)
    assert isinstance(sealed, HookFailure) and "LILY_SECRET_KEY_FILE" in sealed.reason
    assert in_force(system, admin(core, client).tenant) == []


def test_another_tenant_cannot_tell_a_connection_from_none(
    core: Core, client: Client, boss: Person
) -> None:
    made = make(boss)
    stranger = admin(core, client)
    assert send(stranger, "GET").json() == {"items": [], "next": None}
    trial = {"observation": {"qualified_name": "a"}}
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"enabled": False}),
        ("DELETE", "", None),
        ("POST", "/test", trial),
    ):
        real = send(stranger, method, f"/{made['id']}{path}", body)
        none = send(stranger, method, f"/{boss.tenant.id}{path}", body)
        assert real.status_code == none.status_code == 404
        assert real.json().keys() == none.json().keys()
    assert send(boss, "GET", f"/{made['id']}").json() == made
    assert make(stranger, made["name"])["name"] == made["name"]


def test_who_may_read_may_not_manage(core: Core, boss: Person) -> None:
    made = make(boss)
    steward, viewer = with_role(core, boss, "steward"), with_role(core, boss, "viewer")
    assert send(steward, "GET", f"/{made['id']}").status_code == 200
    assert send(steward, "PATCH", f"/{made['id']}", {"enabled": False}).status_code == 403
    assert send(viewer, "GET").status_code == 403


def test_plugins_are_listed_with_their_schema(boss: Person) -> None:
    answer = boss.client.get("/api/v1/plugins", headers=boss.headers).json()
    found = {item["name"]: item for item in answer["items"]}
    assert found["classify"]["package"] == "lily"
    assert "rules" in found["classify"]["options"]["properties"]
    assert answer["next"] is None
