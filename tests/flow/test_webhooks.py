"""Webhooks over HTTP: proven, durable, once; incidents to read, move and find."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from httpx import Client, Response

from lily.clock import FrozenClock, SystemClock
from lily.sdk import signing
from lily.settings import Settings
from lily.types import Tenant
from lily.wiring import Core, Services, services
from lily.wiring import core as build_core
from lily.workers import adopt
from tests.callers import bearer, minted, person, tenant_with_admin
from tests.flow.apply import read, seen
from tests.flow.corridor import Corridor
from tests.flow.lineage import join, tell
from tests.flow.signals import all_of, facts, heard
from tests.montecarlo import ACCOUNT, ANOMALY, BREACH, ID, SECRET, signed
from tests.packages import install
from tests.unit.test_webhooks_builtin import INCIDENT, okta

NAME = "bigquery://zeus/zeus.ares.artemis"


@pytest.fixture(scope="module")
def clock() -> FrozenClock:
    return FrozenClock(SystemClock().now())


@pytest.fixture(scope="module")
def wired(settings: Settings, clock: FrozenClock) -> Iterator[Services]:
    built = build_core(settings, "lily_app", clock=clock)
    yield services(built)
    built.close()


class Desk:
    """An admin's view of one tenant, and the tools that call it."""

    def __init__(
        self, wired: Services, client: Client, tenant: Tenant, role: str = "admin"
    ) -> None:
        self.tenant = tenant
        self.client = client
        self.headers = bearer(minted(wired, tenant, role))

    def connect(self, plugin: str, **options: Any) -> dict[str, Any]:
        body = {"name": f"{plugin} in", "plugin": plugin, "uses": ["webhook"], "options": options}
        answer = self.client.post("/api/v1/connections", json=body, headers=self.headers)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def get(self, path: str, **query: Any) -> Any:
        answer = self.client.get(f"/api/v1{path}", params=query, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None) -> Response:
        return self.client.post(f"/api/v1{path}", json=body, headers=self.headers)

    def patch(self, path: str, body: Any) -> Response:
        return self.client.patch(f"/api/v1{path}", json=body, headers=self.headers)


@pytest.fixture
def desk(core: Core, wired: Services, client: Client) -> Desk:
    return Desk(wired, client, tenant_with_admin(core))


def call(client: Client, url: str, proof: dict[str, str], body: bytes) -> Response:
    return client.post(urlsplit(url).path, content=body, headers=proof)


def logged(core: Core, system: Core, tenant: Tenant) -> int:
    with system.database.cell(tenant.cell) as conn:
        row = conn.execute("SELECT count(*) FROM log WHERE tenant = %s", [tenant.number]).fetchone()
    assert row is not None
    return int(row[0])


def test_a_signed_call_becomes_an_incident_on_the_asset_in_search_and_in_the_feed(
    core: Core, system: Core, desk: Desk, corridor: Corridor
) -> None:
    seen(system, desk.tenant, NAME, asset_type="table")
    made = desk.connect("montecarlo", account_id=ACCOUNT, secret=SECRET)
    assert made["options"]["secret"] == "********"
    for _ in range(2):
        assert call(desk.client, made["webhook_url"], *signed(ANOMALY)).status_code == 200
    corridor.run()
    guid = read(core, desk.tenant, NAME).guid
    asset = desk.get(f"/metadata/{guid}")
    [incident] = asset["incidents"]
    assert (asset["health"], incident["external_id"], incident["state"]) == ("degraded", ID, "open")
    assert desk.get("/metadata/by-name", qualified_name=NAME)["health"] == "degraded"
    [hit] = desk.get("/metadata/search", incident="open")["items"]
    assert hit["incidents"] == [incident]
    items = desk.get("/changes", kinds="IncidentOpened")["items"]
    assert [item["after"]["incident_id"] for item in items] == [incident["incident_id"]]
    shown = desk.get("/connections")["items"]
    assert [each["webhook_url"] for each in shown] == [made["webhook_url"]]


def test_the_literal_payload_without_a_table_waits_for_a_person(
    core: Core, system: Core, desk: Desk, corridor: Corridor
) -> None:
    seen(system, desk.tenant, NAME, asset_id="artemis", asset_type="table")
    made = desk.connect("montecarlo", secret=SECRET)
    assert call(desk.client, made["webhook_url"], *signed(BREACH)).status_code == 200
    corridor.run()
    [parked] = desk.get("/incidents", state="unattached")["items"]
    assert (parked["guid"], parked["title"][:9]) == (None, "test rule")
    id = parked["incident_id"]
    assert desk.post(f"/incidents/{id}/attach", {"asset_id": "nothing"}).status_code == 404
    attached = desk.post(f"/incidents/{id}/attach", {"asset_id": "artemis"}).json()
    assert (attached["state"], attached["asset_id"]) == ("open", "artemis")
    assert desk.post(f"/incidents/{id}/resolve").json()["state"] == "resolved"
    # Later incidents of that rule follow.
    again = {**BREACH, "payload": {**BREACH["payload"], "incident_id": "another"}}
    assert call(desk.client, made["webhook_url"], *signed(again)).status_code == 200
    corridor.run()
    assert [i["external_id"] for i in desk.get("/metadata/artemis")["incidents"]] == ["another"]


def test_nothing_forged_is_stored(
    core: Core, system: Core, desk: Desk, clock: FrozenClock, corridor: Corridor
) -> None:
    made = desk.connect("montecarlo", account_id=ACCOUNT, secret=SECRET)
    proof, body = signed(ANOMALY)
    digest = proof["x-mcd-signature"]
    before = logged(core, system, desk.tenant)
    other = {**ANOMALY, "payload": {**ANOMALY["payload"], "incident_id": "other"}}
    reordered = json.dumps(dict(reversed(list(ANOMALY.items())))).encode()
    corpus: list[tuple[dict[str, str], bytes]] = [
        ({}, body),
        ({"x-mcd-signature": ""}, body),
        ({"x-mcd-signature": digest[:-1]}, body),
        ({"x-mcd-signature": digest[:64]}, body),
        ({"x-mcd-signature": digest.upper()}, body),
        ({"x-mcd-signature": "0" * 128}, body),
        ({"x-mcd-signature": digest + "00"}, body),
        (signed(ANOMALY, "another secret")[0], body),
        (proof, body.replace(b"42 rows", b"43 rows")),
        (proof, json.dumps(other).encode()),
        (proof, reordered),
        (proof, body[:-1]),
        (proof, b"[]"),
        (proof, b""),
        (proof, b"\xff\xfe"),
        (proof, b"[" * 20_000),
        (signed({**ANOMALY, "account": {"id": "another"}})[0],
         json.dumps({**ANOMALY, "account": {"id": "another"}}).encode()),
    ]  # fmt: skip
    for path in (made["webhook_url"], "http://x/webhook/monte-carlo"):
        answers = {call(desk.client, path, *each).status_code for each in corpus}
        assert answers == {403}
    assert logged(core, system, desk.tenant) == before
    corridor.run()
    assert all_of(core, desk.tenant) == []
    assert call(desk.client, made["webhook_url"], proof, b"x" * 1_000_001).status_code == 413


def test_after_a_rotation_the_old_secret_is_good_for_a_while(
    core: Core, system: Core, desk: Desk, clock: FrozenClock
) -> None:
    made = desk.connect("montecarlo", account_id=ACCOUNT, secret=SECRET)
    old, body = signed(ANOMALY)
    changed = desk.patch(
        f"/connections/{made['id']}", {"options": {"secret": "a new secret"}, "overlap": 600}
    )
    assert changed.json()["webhook_url"] == made["webhook_url"]
    new = signed(ANOMALY, "a new secret")[0]
    codes = [call(desk.client, made["webhook_url"], p, body).status_code for p in (old, new)]
    assert codes == [200, 200]
    clock.advance(timedelta(seconds=601))
    try:
        codes = [call(desk.client, made["webhook_url"], p, body).status_code for p in (old, new)]
        assert codes == [403, 200]
    finally:
        clock.advance(timedelta(seconds=-601))


def test_of_several_who_claim_an_account_the_one_whose_secret_verifies_gets_it(
    core: Core, system: Core, wired: Services, client: Client, desk: Desk, corridor: Corridor
) -> None:
    account = {**ANOMALY, "account": {"id": f"account of {desk.tenant.name}"}}
    thief = Desk(wired, client, tenant_with_admin(core))
    for who, secret in ((thief, "some other secret"), (desk, SECRET)):
        who.connect("montecarlo", account_id=account["account"]["id"], secret=secret)
    assert call(client, "http://x/webhook/monte-carlo", *signed(account)).status_code == 200
    corridor.run()
    assert len(all_of(core, desk.tenant)) == 1
    assert all_of(core, thief.tenant) == []
    [mine] = desk.get("/connections")["items"]
    client.delete(f"/api/v1/connections/{mine['id']}", headers=desk.headers)
    assert call(client, "http://x/webhook/monte-carlo", *signed(account)).status_code == 403


def test_an_address_that_nobody_was_given_does_not_exist(desk: Desk) -> None:
    made = desk.connect("montecarlo", secret=SECRET)
    path = urlsplit(made["webhook_url"]).path
    for wrong in (
        path[:-1], path.replace("/montecarlo/", "/jira/"), "/webhook/montecarlo/1",
        "/webhook/montecarlo/999999-x", "/webhook/montecarlo/%00", "/webhook/nobody",
        "/webhook/montecarlo/99999999999999999999-x",
    ):  # fmt: skip
        assert call(desk.client, f"http://x{wrong}", *signed(ANOMALY)).status_code == 404, wrong
    desk.patch(f"/connections/{made['id']}", {"enabled": False})
    assert call(desk.client, made["webhook_url"], *signed(ANOMALY)).status_code == 404


def test_a_connection_without_a_secret_is_refused(desk: Desk) -> None:
    body = {
        "name": "mc",
        "plugin": "montecarlo",
        "uses": ["webhook"],
        "options": {"account_id": "1"},
    }
    answer = desk.post("/connections", body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "options.secret")


def test_whom_okta_deactivates_is_out(
    core: Core, desk: Desk, wired: Services, client: Client
) -> None:
    ann = person(core, desk.tenant, "ann@example.com", "editor")
    me = bearer(minted(wired, desk.tenant, "editor", sub=ann.id))
    assert client.get("/api/v1/auth/validate", headers=me).status_code == 200
    made = desk.connect("okta", secret="exactly this text")
    path = urlsplit(made["webhook_url"]).path
    proof = {"Authorization": "exactly this text"}
    greeted = client.get(path, headers={**proof, "X-Okta-Verification-Challenge": "abc"})
    assert (greeted.status_code, greeted.json()) == (200, {"verification": "abc"})
    assert client.get(path, headers={"X-Okta-Verification-Challenge": "abc"}).status_code == 403
    body = json.dumps(okta("user.lifecycle.deactivate")).encode()
    assert call(client, made["webhook_url"], {"Authorization": "no"}, body).status_code == 403
    assert client.get("/api/v1/auth/validate", headers=me).status_code == 200
    for _ in range(2):
        assert call(client, made["webhook_url"], proof, body).status_code == 200
    assert client.get("/api/v1/auth/validate", headers=me).status_code == 401
    told = [item["after"] for item in desk.get("/changes", kinds="UserChanged")["items"]]
    assert [after["active"] for after in told] == [False]


def test_incidents_are_listed_filtered_paged_and_moved(
    core: Core, system: Core, wired: Services, desk: Desk
) -> None:
    seen(system, desk.tenant, NAME, asset_id="artemis")
    ids = [
        desk.post("/incidents", {"asset_id": "artemis", "title": f"t{n}", "severity": s}).json()
        for n, s in enumerate(("low", "high", "critical"))
    ]
    first = ids[0]["incident_id"]
    page = desk.get("/incidents", limit=2)
    rest = desk.get("/incidents", limit=2, after=page["next"])
    assert [i["title"] for i in page["items"] + rest["items"]] == ["t2", "t1", "t0"]
    assert rest["next"] is None
    found = desk.get("/incidents", severity="low,high", asset_id="artemis", state="open")["items"]
    assert [i["title"] for i in found] == ["t1", "t0"]
    assert desk.get("/metadata/artemis")["health"] == "failing"
    done = desk.post(f"/incidents/{first}/acknowledge", {"comment": "on it"})
    assert done.json()["state"] == "acknowledged"
    assert (
        desk.patch(f"/incidents/{first}", {"severity": "medium", "owner": "ann"}).json()["owner"]
        == "ann"
    )
    desk.post(f"/incidents/{first}/comments", {"comment": "hm"})
    desk.patch(f"/incidents/{first}", {"state": "resolved"})
    assert desk.post(f"/incidents/{first}/acknowledge").status_code == 409
    whole = desk.get(f"/incidents/{first}")
    assert [e["kind"] for e in whole["history"]] == [
        "state",
        "comment",
        "changed",
        "state",
        "opened",
    ]
    assert [e["comment"] for e in whole["history"]] == ["", "hm", "", "on it", ""]
    viewer = Desk(wired, desk.client, desk.tenant, "viewer")
    assert viewer.post(f"/incidents/{first}/reopen").status_code == 403
    assert viewer.get(f"/incidents/{first}")["state"] == "resolved"
    assert [kind for kind, _ in facts(core, desk.tenant)][3:] == [
        "IncidentAcknowledged", "IncidentChanged", "IncidentChanged", "IncidentResolved",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "field"),
    [({"state": "odd"}, "state"), ({"severity": "x"}, "severity"), ({"after": "?"}, "after")],
)
def test_a_wrong_filter_is_named(desk: Desk, query: dict[str, str], field: str) -> None:
    answer = desk.client.get("/api/v1/incidents", params=query, headers=desk.headers)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_an_incident_of_another_tenant_is_not_there(
    core: Core, wired: Services, client: Client, desk: Desk
) -> None:
    for id in (INCIDENT, "no-uuid"):
        assert desk.post(f"/incidents/{id}/resolve").status_code == 404


def test_the_graph_shows_which_nodes_suffer(system: Core, desk: Desk) -> None:
    for name in ("up", "down"):
        seen(system, desk.tenant, name, asset_id=name)
    tell(system, desk.tenant, join("up", "down"))
    desk.post("/incidents", {"asset_id": "up", "title": "t", "severity": "critical"})
    nodes = desk.get("/metadata/lineage/down", direction="upstream")["nodes"]
    assert {node["asset_id"]: node.get("health") for node in nodes} == {
        "up": "failing", "down": None,
    }  # fmt: skip


def test_a_restricted_viewer_does_not_see_incidents_of_what_is_hidden(
    core: Core, system: Core, wired: Services, desk: Desk
) -> None:
    for name in ("secret", "known"):
        seen(system, desk.tenant, name, asset_id=name)
        desk.post("/incidents", {"asset_id": name, "title": name})
    policy: dict[str, Any] = {"name": "hide", "effect": "deny", "subject": {"role": "viewer"}}
    policy["resource"] = {"asset": "secret"}
    assert desk.post("/policies", policy).status_code == 201
    viewer = Desk(wired, desk.client, desk.tenant, "viewer")
    end = time.monotonic() + 10  # a policy counts everywhere within two seconds
    while len(viewer.get("/incidents")["items"]) > 1 and time.monotonic() < end:
        time.sleep(0.05)
    assert [i["title"] for i in viewer.get("/incidents")["items"]] == ["known"]
    [hidden] = desk.get("/incidents", asset_id="secret")["items"]
    path = f"/api/v1/incidents/{hidden['incident_id']}"
    assert desk.client.get(path, headers=viewer.headers).status_code == 404
    assert desk.client.get(path, headers=desk.headers).status_code == 200


def test_an_asset_that_was_purged_and_comes_back_suffers_again(
    core: Core, system: Core, desk: Desk
) -> None:
    seen(system, desk.tenant, NAME, asset_id="artemis")
    desk.post("/incidents", {"asset_id": "artemis", "title": "t"})
    assert desk.post("/metadata/artemis/purge").status_code == 204
    seen(system, desk.tenant, NAME, asset_id="artemis")
    assert "incidents" not in desk.get("/metadata/artemis")
    adopt.work(system, {})
    assert len(desk.get("/metadata/artemis")["incidents"]) == 1


def test_the_worker_attaches_what_was_parked(core: Core, system: Core, desk: Desk) -> None:
    heard(system, desk.tenant, external_id="1", state="open", names=["artemis"])
    seen_heads: dict[int, int] = {}
    adopt.work(system, seen_heads)
    assert all_of(core, desk.tenant)[0].guid is None
    seen(system, desk.tenant, NAME)
    adopt.work(system, seen_heads, whole=False)
    assert all_of(core, desk.tenant)[0].guid == read(core, desk.tenant, NAME).guid


PAGER = '''
from pydantic import BaseModel, SecretStr

from lily.sdk import SignalSeen, signing


class Pager:
    """Pages become incidents."""

    class Options(BaseModel):
        secret: SecretStr

    def __init__(self, options):
        self._secret = options.secret.get_secret_value()

    def receive(self, headers, body):
        signing.same(headers.get("x-pager"), signing.hexadecimal(self._secret, body, "sha256"))
        page = signing.document(body)
        return [SignalSeen(key=page["id"], external_id=page["id"], state="open",
                           title=page["text"], names=[page["table"]])]
'''


def test_a_strangers_webhook_comes_through_the_same_door(
    core: Core,
    system: Core,
    desk: Desk,
    corridor: Corridor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(tmp_path, monkeypatch, "lily-pager", {"pager": "Pager"}, PAGER, "lily.webhooks")
    seen(system, desk.tenant, NAME)
    made = desk.connect("pager", secret="of the pager")
    body = json.dumps({"id": "p1", "text": "Late", "table": "artemis"}).encode()
    proof = {"X-Pager": signing.hexadecimal("of the pager", body, "sha256")}
    assert call(desk.client, made["webhook_url"], {"X-Pager": "0"}, body).status_code == 403
    assert call(desk.client, made["webhook_url"], proof, body).status_code == 200
    odd = b'{"text": "no id"}'
    odd_proof = {"X-Pager": signing.hexadecimal("of the pager", odd, "sha256")}
    assert call(desk.client, made["webhook_url"], odd_proof, odd).status_code == 400
    corridor.run()
    [incident] = all_of(core, desk.tenant)
    assert (incident.title, incident.source, incident.guid is not None) == ("Late", "pager", True)
