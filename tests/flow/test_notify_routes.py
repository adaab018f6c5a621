"""Subscriptions, deliveries, notices and notifications over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from httpx import Client

from lily.incidents.model import Incident
from lily.notify import acknowledge
from lily.store import incidents
from lily.wiring import Core
from tests.flow.apply import seen
from tests.flow.notifying import SECRET, Stage, staged
from tests.flow.people import Person, admin, with_role
from tests.vendors.server import Scripted, running

API = "/api/v1"
TARGET = {"plugin": "webhook", "uses": ["target"],
          "options": {"url": "https://hooks.invalid/secret-path", "secret": SECRET}}  # fmt: skip


@pytest.fixture
def stage(core: Core, system: Core, boss: Person) -> Iterator[Stage]:
    with staged(core, system, boss.tenant) as made:
        made.clock.at = core.clock.now()
        yield made


def send(who: Person, method: str, path: str, body: Any = None, status: int | None = None) -> Any:
    answer = who.client.request(method, path, json=body, headers=who.headers)
    assert status is None or answer.status_code == status, answer.text
    return answer.json() if answer.content and status != 204 else answer


def connected(who: Person, name: str = "out") -> str:
    made = send(who, "POST", f"{API}/connections", {"name": name, **TARGET}, 201)
    return str(made["id"])


def subscribed(who: Person, connection: str | None, **more: Any) -> Any:
    body = {"name": f"s {uuid4()}", "match": {"facts": ["AssetChanged"]}, **more}
    if connection is not None:
        body["connection_id"] = connection
    return send(who, "POST", f"{API}/subscriptions", body, 201)


def test_a_subscription_can_be_made_read_listed_changed_muted_and_deleted(boss: Person) -> None:
    connection = connected(boss)
    made = subscribed(boss, connection, template={"text": "{asset} has changed"})
    path = f"{API}/subscriptions/{made['id']}"
    assert send(boss, "GET", path) == made
    assert send(boss, "GET", f"{API}/subscriptions")["items"] == [made]
    changed = send(boss, "PATCH", path, {"enabled": False, "template": None}, 200)
    assert (changed["enabled"], changed["template"], changed["revision"]) == (False, None, 2)
    assert changed["connection_id"] == connection
    until = send(boss, "POST", f"{path}/mute", {"until": "2030-01-01T00:00:00Z"}, 200)
    assert until["muted_until"].startswith("2030-01-01")
    assert send(boss, "POST", f"{path}/mute", None, 200)["muted_until"].startswith("9999")
    assert send(boss, "POST", f"{path}/unmute", None, 200)["muted_until"] is None
    send(boss, "DELETE", path, None, 204)
    send(boss, "GET", path, None, 404)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"match": {"facts": ["Nonsense"]}}, "match.facts"),
        ({"match": {"facts": ["LoginRefused"]}}, "match.facts"),
        ({"match": {}}, "match.facts"),
        ({"match": {"facts": ["AssetChanged"], "asset_id": "nobody"}}, "match.asset_id"),
        ({"match": {"facts": ["AssetChanged"], "severity": "bad"}}, "match.severity"),
        ({"match": {"facts": ["AssetChanged"], "depth": 99}}, "match.depth"),
        ({"match": {"facts": ["AssetChanged"], "colour": 1}}, "match.colour"),
        ({"connection_id": str(uuid4())}, "connection_id"),
        ({"template": {"text": "{secret}"}}, "template.text"),
        ({"template": 7}, "template"),
        ({"name": ""}, "name"),
    ],
)
def test_a_wrong_subscription_is_refused_and_the_field_named(
    boss: Person, body: dict[str, Any], field: str
) -> None:
    given = {"name": "x", "match": {"facts": ["AssetChanged"]}, **body}
    answer = send(boss, "POST", f"{API}/subscriptions", given, 422)
    assert field in [error["field"] for error in answer["errors"]]


def test_facts_of_the_audit_trail_are_for_those_who_may_read_it(core: Core, boss: Person) -> None:
    body = {"name": "x", "match": {"facts": ["ConnectionChanged"]}}
    editor = with_role(core, boss, "editor")
    answer = send(editor, "POST", f"{API}/subscriptions", body, 422)
    assert "audit:read" in answer["detail"]
    send(boss, "POST", f"{API}/subscriptions", body, 201)


def test_a_connection_that_is_no_target_is_refused(boss: Person) -> None:
    hook = {"name": "h", "plugin": "classify", "uses": ["hook"]}
    id = send(boss, "POST", f"{API}/connections", hook, 201)["id"]
    body = {"name": "x", "match": {"facts": ["AssetChanged"]}, "connection_id": id}
    answer = send(boss, "POST", f"{API}/subscriptions", body, 422)
    assert answer["errors"][0]["field"] == "connection_id"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/",
        "http://localhost/",
        "file:///etc/passwd",
        "http://169.254.169.254/latest",
        "http://2130706433/",
    ],
)
def test_an_address_that_must_not_be_called_is_refused_when_it_is_saved(
    boss: Person, url: str
) -> None:
    body = {**TARGET, "name": "inside", "options": {"url": url, "secret": SECRET}}
    answer = send(boss, "POST", f"{API}/connections", body, 422)
    assert answer["errors"][0]["field"] == "options"
    id = connected(boss)
    send(boss, "PATCH", f"{API}/connections/{id}", {"options": {"url": url}}, 422)


def test_the_test_button_a_delivery_with_its_attempts_and_a_replay(
    boss: Person, stage: Stage
) -> None:
    with running(Scripted((404, {}, b"who?"), 200)) as vendor:
        target = stage.webhook(f"{vendor.url}/very-secret")
        made = subscribed(boss, str(target))
        test = send(boss, "POST", f"{API}/subscriptions/{made['id']}/test", None, 202)
        stage.catch_up()
        stage.tell()
        path = f"{API}/deliveries/{test['delivery_id']}"
        found = send(boss, "GET", path, None, 200)
        assert (found["state"], found["status"], found["kind"]) == ("dead", 404, "Test")
        [attempt] = found["history"]
        assert attempt["outcome"] == "permanent" and "who?" in attempt["reason"]
        assert attempt["calls"][0]["call"] == "POST 127.0.0.1" and attempt["millis"] > 0
        assert "very-secret" not in str(found) and SECRET not in str(found)
        assert send(boss, "GET", f"{API}/deliveries?state=dead")["items"][0]["id"] == found["id"]
        assert send(boss, "GET", f"{API}/deliveries?state=waiting")["items"] == []
        again = send(boss, "POST", f"{path}/replay", None, 202)
        assert (again["state"], again["attempts"]) == ("waiting", 0)
        stage.clock.at = stage.clock.at.replace(year=2999)
        stage.deliver()
        whole = send(boss, "GET", path, None, 200)
        assert (whole["state"], len(whole["history"])) == ("delivered", 2)
        ids = {headers["webhook-id"] for _, _, headers, _ in vendor.calls}
        assert ids == {test["delivery_id"]}


def test_dead_deliveries_are_replayed_by_filter(boss: Person, stage: Stage) -> None:
    with running(Scripted(400)) as vendor:
        target = stage.webhook(vendor.url)
        stage.subscribe(target)
        stage.happen(count=5)
        stage.tell()
        body = {"filter": {"connection_id": str(target)}}
        done = send(boss, "POST", f"{API}/deliveries/replay", body, 200)
        assert done == {"replayed": 5, "more": False}
        ids = {"ids": [str(stage.deliveries()[0].id), str(uuid4())]}
        assert send(boss, "POST", f"{API}/deliveries/replay", ids, 200)["replayed"] == 1


def test_own_notices_are_counted_acknowledged_and_muted(
    core: Core, boss: Person, stage: Stage
) -> None:
    subscribed(boss, None)
    one = uuid4()
    stage.happen(guid=one)
    stage.happen(count=2)
    stage.match()
    inbox = send(boss, "GET", f"{API}/notices", None, 200)
    assert (inbox["unread"], len(inbox["items"])) == (3, 3)
    first = {"ids": [inbox["items"][0]["id"]]}
    assert send(boss, "POST", f"{API}/notices/acknowledge", first, 200) == {
        "acknowledged": 1, "unread": 2,
    }  # fmt: skip
    assert len(send(boss, "GET", f"{API}/notices?unread=true")["items"]) == 2
    send(boss, "POST", f"{API}/notices/acknowledge", {"all": True}, 200)
    send(boss, "POST", f"{API}/notices/mute", {"about": f"asset:{one}"}, 200)
    assert send(boss, "GET", f"{API}/notices/muted")["items"][0]["about"] == f"asset:{one}"
    stage.happen(guid=one)
    stage.match()
    assert send(boss, "GET", f"{API}/notices")["unread"] == 0
    send(boss, "POST", f"{API}/notices/unmute", {"about": f"asset:{one}"}, 200)
    stage.happen(guid=one)
    stage.match()
    assert send(boss, "GET", f"{API}/notices")["unread"] == 1
    other = with_role(core, boss, "viewer")
    assert send(other, "GET", f"{API}/notices")["items"] == []


@contextmanager
def working(stage: Stage) -> Iterator[None]:
    """Deliveries go on in the background."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.05):
            stage.clock.at = stage.clock.at.replace(year=2999)
            stage.match()
            stage.deliver()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_something_can_be_told_now_and_what_failed_can_be_retried(
    boss: Person, stage: Stage
) -> None:
    with running(Scripted((400, {}, b"no"), (500, {}, b"oops"), 200)) as vendor:
        stage.connect("webhook", url=vendor.url, secret=SECRET, name="pager")
        body = {"message": "The schema has drifted.", "severity": "high", "system_name": "pager"}
        told = send(boss, "POST", f"{API}/metadata/notifications", body, 202)
        retry = {"notification_id": told["notification_id"], "retry_count": 1, "reason": "again"}
        path = "/lily/v1/notifications/retry"
        early = send(boss, "POST", path, retry, 400)
        assert "Invalid notification ID or retry data." in early["detail"]
        stage.catch_up()
        stage.tell()
        with working(stage):
            failed = send(boss, "POST", path, retry, 500)
            assert failed["detail"].startswith("Failed to retry notification.")
            done = send(boss, "POST", path, retry, 200)
            assert done == {"status": "success", "message": "Notification retry successful."}
        for wrong in ({"notification_id": "nope"}, {"notification_id": ""}, {},
                      {**retry, "retry_count": 0}, {**retry, "retry_count": "many"}):  # fmt: skip
            send(boss, "POST", path, wrong, 400)


def test_an_unknown_system_is_refused(boss: Person) -> None:
    body = {"message": "x", "system_name": "nowhere"}
    answer = send(boss, "POST", f"{API}/metadata/notifications", body, 422)
    assert answer["errors"][0]["field"] == "system_name"


def test_an_asset_is_pushed_by_name_or_by_the_only_connection_of_a_plugin(
    system: Core, boss: Person, stage: Stage
) -> None:
    seen(system, boss.tenant, "people", description="Everybody.")
    with running(Scripted(200)) as vendor:
        path = f"{API}/metadata/external"
        send(boss, "POST", f"{path}/pager", {"asset_id": "people"}, 422)
        send(boss, "POST", f"{path}/pager", {"asset_id": "nobody"}, 404)
        stage.connect("webhook", url=vendor.url, secret=SECRET, name="pager")
        for name in ("pager", "webhook"):
            send(boss, "POST", f"{path}/{name}", {"asset_id": "people"}, 202)
        stage.connect("webhook", url=vendor.url, secret=SECRET, name="second")
        send(boss, "POST", f"{path}/webhook", {"asset_id": "people"}, 422)
        stage.catch_up()
        stage.tell()
        assert len(vendor.calls) == 2 and b"Everybody." in vendor.calls[0][3]


def test_a_link_asks_first_and_acknowledges_once(boss: Person, stage: Stage) -> None:
    target = stage.webhook("https://hooks.invalid")
    now = stage.core.clock.now()
    with stage.core.database.unit(boss.tenant) as unit:
        who = incidents.Who("montecarlo", "montecarlo", now, "test")
        incident = incident_of(now)
        incidents.settle(unit, [incident], [incidents.open_one(unit, incident, who)])
    ticket = acknowledge.Ticket(
        boss.tenant.number, incident.id, target, uuid4(), now + acknowledge.LIFE
    )
    link = acknowledge.link("", ticket, stage.core.seal.seal)
    page = boss.client.get(link)
    assert page.status_code == 200 and "<button>" in page.text and "&lt;b&gt;" in page.text
    with stage.core.database.unit(boss.tenant) as unit:
        assert incidents.get(unit, incident.id).state == "open", "looking changes nothing"
    for _ in range(2):
        assert "acknowledged" in boss.client.post(link).text
    [fact] = stage.facts("IncidentAcknowledged")
    assert fact.after and fact.after["via"] == str(target)
    old = acknowledge.Ticket(boss.tenant.number, incident.id, target, uuid4(), now)
    for bad in (f"{link[:-4]}AAAA", acknowledge.link("", old, stage.core.seal.seal), "/n/ack?t=x"):
        assert boss.client.get(bad).status_code == 404
        assert boss.client.post(bad).status_code == 404


def incident_of(now: datetime) -> Incident:
    return Incident(
        id=incidents.new_id(), number=0, guid=None, source="montecarlo", external_id="x", rule="",
        title="<b>Volume</b>", description="", severity="high", state="open", url="", owner="",
        names=[], candidates=[], details={}, version=1, opened_at=now, updated_at=now,
    )  # fmt: skip


def test_what_a_document_asks_for_is_told_and_its_status_is_kept_in_its_shape(
    system: Core, boss: Person, stage: Stage
) -> None:
    wanted = {
        "system_name": "pager", "notification_status": "pending", "attempts": 0,
        "notification_type": "ticket", "recipient": "data-team", "notification_id": "n-1",
        "notification_payload": {"ticket_title": "Check people", "ticket_labels": ["pii"]},
    }  # fmt: skip
    lost = {**wanted, "system_name": "nowhere", "notification_id": "n-2"}
    with running(Scripted(500, 200)) as vendor:
        stage.connect("webhook", url=vendor.url, secret=SECRET, name="pager")
        details = {"downstream_notifications": [wanted, lost]}
        seen(system, boss.tenant, "people", details=details)
        stage.catch_up()
        stage.tell()

        def told() -> list[dict[str, Any]]:
            shown = send(boss, "GET", f"{API}/metadata/people", None, 200)["details"]
            found: list[dict[str, Any]] = shown["downstream_notifications"]
            return found

        first, second = told()
        assert (first["notification_status"], first["attempts"]) == ("pending", 1)
        assert first["next_attempt_at"] and first["last_attempted_at"]
        assert "500" in first["status_message"] and first["recipient"] == "data-team"
        assert second["notification_status"] == "failed" and second["status_message"]
        assert b"Check people" in vendor.calls[0][3]
        stage.after(seconds=7)
        stage.tell()
        assert told()[0]["notification_status"] == "delivered"
        seen(system, boss.tenant, "people", details=details, tags=["x"])
        stage.tell()
        assert len(vendor.calls) == 2, "sent again it is the same notification"


def test_another_tenant_sees_and_moves_nothing(core: Core, client: Client, boss: Person) -> None:
    made = subscribed(boss, connected(boss, "canary-7f"), name="canary-7f sub")
    test = send(boss, "POST", f"{API}/subscriptions/{made['id']}/test", None, 202)
    stranger = admin(core, client)
    for path in ("subscriptions", "deliveries", "notices", "connections"):
        assert "canary-7f" not in str(send(stranger, "GET", f"{API}/{path}", None, 200))
    send(stranger, "GET", f"{API}/subscriptions/{made['id']}", None, 404)
    send(stranger, "POST", f"{API}/subscriptions/{made['id']}/test", None, 404)
    send(stranger, "GET", f"{API}/deliveries/{test['delivery_id']}", None, 404)
    send(stranger, "POST", f"{API}/deliveries/{test['delivery_id']}/replay", None, 404)
    retry = {"notification_id": test["delivery_id"], "retry_count": 1, "reason": ""}
    send(stranger, "POST", "/lily/v1/notifications/retry", retry, 400)
    body = {"message": "x", "system_name": "canary-7f"}
    send(stranger, "POST", f"{API}/metadata/notifications", body, 422)
