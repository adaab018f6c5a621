"""What cannot be applied is parked with its reason, and goes back once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest
from httpx import Client

from lily.assets.names import guid_of
from lily.events.observations import AssetSeen
from lily.store import feed
from lily.store.embedded import Server
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.corridor import Corridor, append
from tests.flow.people import Person, admin, dedicated, with_role
from tests.packages import install_test_hooks

ROUTE = "/api/v1/dead-letters"


@pytest.fixture(autouse=True)
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_test_hooks(tmp_path, monkeypatch)


def send(who: Person, method: str, path: str = "", body: Any = None) -> Any:
    return who.client.request(method, f"{ROUTE}{path}", json=body, headers=who.headers)


def items(who: Person, query: str = "") -> list[dict[str, Any]]:
    answer = send(who, "GET", query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def connect(who: Person, name: str, plugin: str, **more: Any) -> str:
    body = {"name": name, "plugin": plugin, "uses": ["hook"], **more}
    answer = who.client.post("/api/v1/connections", json=body, headers=who.headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def disconnect(who: Person, id: str) -> None:
    answer = who.client.delete(f"/api/v1/connections/{id}", headers=who.headers)
    assert answer.status_code == 204


def stored(core: Core, tenant: Tenant, name: str) -> tuple[Any, ...] | None:
    with core.database.unit(tenant) as unit:
        return unit.conn.execute(
            "SELECT asset_name, version, description FROM asset WHERE tenant = %s AND guid = %s",
            [tenant.number, guid_of(tenant.id, name)],
        ).fetchone()


def facts_of(core: Core, tenant: Tenant, *kinds: str) -> list[str]:
    with core.database.unit(tenant) as unit:
        return [link.payload or "" for link in feed.after(unit, 0, 10_000, kinds=kinds)]


def park(system: Core, tenant: Tenant, count: int, raw: str | None = None) -> list[UUID]:
    """Letters as the pipeline leaves them, without the pipeline."""
    ids = [uuid4() for _ in range(count)]
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        for number, id in enumerate(ids):
            envelope = (
                f'{{"id":"{id}","tenant":{tenant.number},"source":"s","by":"b",'
                f'"observation":{{"type":"AssetSeen","qualified_name":"many.{number}"}}}}'
            )
            conn.execute(
                "INSERT INTO dead_letter (tenant, id, cause, lane, log_offset, at, stage, plugin,"
                " reason, key, source, raw) VALUES (%s, %s, %s, 'core', %s,"
                " now() - make_interval(secs => %s), %s, 'p', 'r', %s, 's', %s)",
                [
                    tenant.number, id, str(id), number, number,
                    "hook" if raw is None else "decode", f"many.{number}", raw or envelope,
                ],
            )  # fmt: skip
    return ids


def test_a_failing_hook_parks_the_observation_with_its_name_and_reason_and_stops_nobody(
    core: Core, client: Client, corridor: Corridor, boss: Person
) -> None:
    neighbour = admin(core, client)
    connect(boss, "our gate", "test-refuse")
    (cause,) = append(core, boss.tenant, AssetSeen(qualified_name="a", asset_name="A"))
    append(core, neighbour.tenant, AssetSeen(qualified_name="a", asset_name="A"))
    corridor.run()
    (letter,) = items(boss)
    assert (letter["stage"], letter["plugin"]) == ("hook", "our gate")
    assert (letter["reason"], letter["cause"]) == ("not before Monday", str(cause))
    assert (letter["key"], letter["state"]) == ("a", "parked")
    assert stored(core, boss.tenant, "a") is None
    assert stored(core, neighbour.tenant, "a") == ("A", 1, None)


@pytest.mark.parametrize("plugin", ["test-leak", "test-stray", "test-odd", "test-scribble"])
def test_whatever_a_hook_does_the_lane_goes_on(
    core: Core, corridor: Corridor, boss: Person, plugin: str
) -> None:
    bad = connect(boss, "bad", plugin)
    append(core, boss.tenant, AssetSeen(qualified_name="a"))
    corridor.run()
    disconnect(boss, bad)
    append(core, boss.tenant, AssetSeen(qualified_name="b", asset_name="B"))
    corridor.run()
    assert [letter["plugin"] for letter in items(boss)] == ["bad"]
    assert stored(core, boss.tenant, "b") == ("B", 1, None)


def test_hooks_change_drop_and_are_in_force_for_the_next_observation(
    core: Core, corridor: Corridor, boss: Person
) -> None:
    append(core, boss.tenant, AssetSeen(qualified_name="a", asset_name="A"))
    corridor.run()
    connect(boss, "second", "test-stamp", options={"note": "2"}, ordinal=2)
    connect(boss, "first", "test-stamp", options={"note": "1"}, ordinal=1)
    append(core, boss.tenant, AssetSeen(qualified_name="a", asset_name="A"))
    corridor.run()
    assert stored(core, boss.tenant, "a") == ("A", 2, "12")
    connect(boss, "third", "test-drop", ordinal=3)
    append(core, boss.tenant, AssetSeen(qualified_name="b"))
    corridor.run()
    assert stored(core, boss.tenant, "b") is None
    assert items(boss) == []


def test_a_letter_shows_what_was_sent(core: Core, corridor: Corridor, boss: Person) -> None:
    connect(boss, "gate", "test-refuse")
    (cause,) = append(core, boss.tenant, AssetSeen(qualified_name="a", asset_name="Ä"))
    corridor.run()
    whole = send(boss, "GET", f"/{items(boss)[0]['id']}").json()
    assert whole["envelope"]["id"] == str(cause)
    assert whole["envelope"]["observation"]["asset_name"] == "Ä"
    assert str(cause) in whole["raw"]


def test_a_replay_has_one_effect(core: Core, corridor: Corridor, boss: Person) -> None:
    gate = connect(boss, "gate", "test-refuse")
    append(core, boss.tenant, AssetSeen(qualified_name="a", asset_name="A"))
    corridor.run()
    disconnect(boss, gate)
    (letter,) = items(boss)
    path = f"/{letter['id']}/replay"
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: send(boss, "POST", path), range(4)))
    assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409]
    corridor.run()
    assert stored(core, boss.tenant, "a") == ("A", 1, None)
    assert send(boss, "POST", path).status_code == 409
    cause = str(uuid5(UUID(letter["id"]), "replay"))
    assert {a.json()["cause"] for a in answers if a.status_code == 202} == {cause}
    (told,) = facts_of(core, boss.tenant, "ObservationReplayed")
    assert letter["id"] in told and cause in told
    (made,) = facts_of(core, boss.tenant, "AssetCreated")
    assert cause in made
    (settled,) = items(boss, "?state=replayed")
    assert settled["settled_by"] == "root"


def test_a_replay_does_not_undo_what_was_learned_since(
    core: Core, corridor: Corridor, boss: Person
) -> None:
    gate = connect(boss, "gate", "test-refuse")
    append(core, boss.tenant, AssetSeen(qualified_name="a", asset_name="old"))
    corridor.run()
    disconnect(boss, gate)
    append(core, boss.tenant, AssetSeen(qualified_name="a", asset_name="new"))
    corridor.run()
    send(boss, "POST", f"/{items(boss)[0]['id']}/replay")
    corridor.run()
    assert stored(core, boss.tenant, "a") == ("new", 1, None)


def test_a_replay_that_fails_again_is_a_new_letter(
    core: Core, corridor: Corridor, boss: Person
) -> None:
    connect(boss, "gate", "test-refuse")
    append(core, boss.tenant, AssetSeen(qualified_name="a"))
    corridor.run()
    (first,) = items(boss)
    cause = send(boss, "POST", f"/{first['id']}/replay").json()["cause"]
    corridor.run()
    (second,) = items(boss, "?state=parked")
    assert second["id"] != first["id"]
    assert second["cause"] == cause
    assert send(boss, "POST", f"/{second['id']}/replay").status_code == 202


def test_a_mended_letter_is_applied_as_mended(
    core: Core, system: Core, corridor: Corridor, boss: Person
) -> None:
    (id,) = park(system, boss.tenant, 1, raw="\u2028 not json {")
    assert send(boss, "GET", f"/{id}").json()["envelope"] is None
    as_it_is = send(boss, "POST", f"/{id}/replay")
    assert (as_it_is.status_code, as_it_is.json()["errors"][0]["field"]) == (422, "observation")
    wrong = send(boss, "POST", f"/{id}/replay", {"observation": {"qualified_name": 5}})
    assert wrong.json()["errors"][0]["field"] == "observation.qualified_name"
    fix = {"observation": {"qualified_name": "mended", "asset_name": "M"}}
    assert send(boss, "POST", f"/{id}/replay", fix).status_code == 202
    corridor.run()
    assert stored(core, boss.tenant, "mended") == ("M", 1, None)
    assert '"fixed":true' in facts_of(core, boss.tenant, "ObservationReplayed")[0]


def test_many_go_back_by_id_or_filter(
    core: Core, system: Core, corridor: Corridor, boss: Person
) -> None:
    good, bad = park(system, boss.tenant, 5), park(system, boss.tenant, 1, raw="?")
    ids = [str(good[0]), str(good[0]), str(uuid4()), str(bad[0])]
    first = send(boss, "POST", "/replay", {"ids": ids})
    assert first.json() == {"replayed": 1, "skipped": 1, "unreadable": 1, "more": False}
    second = send(boss, "POST", "/replay", {"filter": {"key": "many."}})
    assert second.json() == {"replayed": 4, "skipped": 0, "unreadable": 1, "more": False}
    corridor.run()
    assert all(stored(core, boss.tenant, f"many.{n}") for n in range(5))
    assert len(facts_of(core, boss.tenant, "ObservationReplayed")) == 5
    refused: list[dict[str, Any]] = [
        {},
        {"ids": [], "filter": {}},
        {"ids": []},
        {"filter": {"colour": "red"}},
    ]
    for body in refused:
        assert send(boss, "POST", "/replay", body).status_code == 422


def test_a_dropped_letter_stays_readable_and_cannot_be_replayed(
    core: Core, system: Core, boss: Person
) -> None:
    (id,) = park(system, boss.tenant, 1)
    dropped = send(boss, "POST", f"/{id}/drop")
    assert (dropped.status_code, dropped.json()["state"]) == (200, "dropped")
    assert send(boss, "POST", f"/{id}/drop").status_code == 409
    assert send(boss, "POST", f"/{id}/replay").status_code == 409
    assert len(facts_of(core, boss.tenant, "ObservationDropped")) == 1


def test_letters_are_paged_newest_first_and_filtered(system: Core, boss: Person) -> None:
    ids = [str(id) for id in park(system, boss.tenant, 5)]
    first = send(boss, "GET", "?limit=3").json()
    second = send(boss, "GET", f"?limit=3&after={first['next']}").json()
    assert [i["id"] for i in first["items"] + second["items"]] == ids
    assert second["next"] is None
    assert [i["id"] for i in items(boss, "?key=many.3&stage=hook&plugin=p&source=s")] == [ids[3]]
    assert items(boss, "?key=many.%25") == []
    assert items(boss, "?stage=decode") == []
    assert items(boss, "?since=2999-01-01T00:00:00Z") == []
    for query in ("?state=lost", "?limit=0", "?after=x", "?colour=red", "?since=yesterday"):
        assert send(boss, "GET", query).status_code == 422


def test_another_tenant_cannot_tell_a_letter_from_none(
    core: Core, client: Client, system: Core, boss: Person
) -> None:
    (id,) = park(system, boss.tenant, 1)
    stranger = admin(core, client)
    assert items(stranger) == []
    for method, path in (("GET", ""), ("POST", "/replay"), ("POST", "/drop")):
        real = send(stranger, method, f"/{id}{path}")
        none = send(stranger, method, f"/{uuid4()}{path}")
        assert real.status_code == none.status_code == 404
        assert real.json().keys() == none.json().keys()
    many = send(stranger, "POST", "/replay", {"ids": [str(id)]})
    assert many.json()["replayed"] == 0
    assert items(boss)[0]["state"] == "parked"


def test_hooks_letters_and_replays_of_a_dedicated_tenant_stay_in_its_own_database(
    core: Core, client: Client, server: Server, system: Core, corridor: Corridor
) -> None:
    boss = dedicated(core, client, server.create_database("own"))
    canary = "canary-of-the-dedicated"
    gate = connect(boss, canary, "test-refuse", options={"password": canary})
    append(core, boss.tenant, AssetSeen(qualified_name=canary, asset_name="A"))
    corridor.run(boss.tenant.cell)
    (letter,) = items(boss)
    assert letter["plugin"] == canary
    disconnect(boss, gate)
    assert send(boss, "POST", f"/{letter['id']}/replay").status_code == 202
    corridor.run(boss.tenant.cell)
    assert stored(core, boss.tenant, canary) == ("A", 1, None)
    everybody = [tenant.number for tenant in core.database.tenants()]
    with system.database.cell("home", everybody) as conn:
        for table in ("log", "dead_letter", "connection", "fact", "asset"):
            text = f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s"
            assert conn.execute(text, [f"%{canary}%"]).fetchone() == (0,)


def test_letters_need_their_right(core: Core, system: Core, boss: Person) -> None:
    (id,) = park(system, boss.tenant, 1)
    steward, editor = with_role(core, boss, "steward"), with_role(core, boss, "editor")
    assert send(steward, "POST", f"/{id}/replay").status_code == 202
    assert send(editor, "GET").status_code == 403
    assert send(editor, "POST", f"/{id}/drop").status_code == 403
