"""Calls of other tools: proven with the vendors' own vectors, understood, or refused."""

import base64
import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlencode

import pytest

from lily.connectors.cloudevents_in import CloudEvents
from lily.connectors.montecarlo import MonteCarlo, signal
from lily.connectors.okta_in import Okta
from lily.connectors.slack_in import Slack
from lily.connectors.tickets_in import Freshdesk, Jira
from lily.errors import Reject, Unreadable
from lily.events.signals import SignalSeen
from lily.incidents.names import parts
from lily.sdk import Webhook, signing
from lily.sdk.testing import WebhookContract
from lily.sdk.webhooks import PersonLeft
from tests.montecarlo import ANOMALY, BREACH, SECRET, signed

DIGEST = (
    "c35f3f267adf56d97d6af47e539d71e7ef1d9a412321836d0573f8752e8554867bde39039850d7123bdf102e9def5438"
    "a8e7c20dd91809793969eea987704483"
)
NOW = 1_700_000_000
INCIDENT = "1d4b3f8a-52c9-4f0e-9d0b-6a2f1e5c7b90"


class TestMonteCarlo(WebhookContract):
    def make(self) -> Webhook:
        return MonteCarlo(MonteCarlo.Options.model_validate({"secret": SECRET}))

    def genuine(self) -> list[tuple[dict[str, str], bytes]]:
        return [signed(ANOMALY), signed(BREACH)]


class TestSlack(WebhookContract):
    def make(self) -> Webhook:
        options = {"signing_secret": "8f742231b10e8888abcd99yyyzzz85a5", "users": {"U1": "ann"}}
        return Slack(Slack.Options.model_validate(options))

    def genuine(self) -> list[tuple[dict[str, str], bytes]]:
        return [slack(click())]


class TestJira(WebhookContract):
    def make(self) -> Webhook:
        return Jira(Jira.Options.model_validate({"secret": "It's a Secret to Everybody"}))

    def genuine(self) -> list[tuple[dict[str, str], bytes]]:
        return [jira(moved("Done", "done"))]


class TestFreshdesk(WebhookContract):
    signs_body = False

    def make(self) -> Webhook:
        return Freshdesk(Freshdesk.Options.model_validate({"secret": "s" * 20}))

    def genuine(self) -> list[tuple[dict[str, str], bytes]]:
        body = {"ticket_id": 7, "status": "Resolved", "tags": f"lily, lily-{INCIDENT[:8]}",
                "updated_at": "2026-01-31"}  # fmt: skip
        return [({"x-lily-secret": "s" * 20}, json.dumps(body).encode())]


class TestOkta(WebhookContract):
    signs_body = False

    def make(self) -> Webhook:
        return Okta(Okta.Options.model_validate({"secret": "exactly this text"}))

    def genuine(self) -> list[tuple[dict[str, str], bytes]]:
        body = okta("user.lifecycle.suspend")
        return [({"authorization": "exactly this text"}, json.dumps(body).encode())]


class TestCloudEvents(WebhookContract):
    def make(self) -> Webhook:
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        return CloudEvents(CloudEvents.Options.model_validate({"secret": secret}))

    def genuine(self) -> list[tuple[dict[str, str], bytes]]:
        data = {"title": "Late", "severity": "high", "asset": "zeus.ares.artemis"}
        head = {"specversion": "1.0", "id": "1", "source": "/tool", "type": "io.tool.broken"}
        event = {**head, "data": data}
        asset = {"type": "io.tool.seen", "data": {"qualified_name": "a/b", "asset_type": "table"}}
        return [standard(event), standard(asset)]


def slack(payload: dict[str, Any], at: int = NOW) -> tuple[dict[str, str], bytes]:
    body = urlencode({"payload": json.dumps(payload)}).encode()
    secret = b"8f742231b10e8888abcd99yyyzzz85a5"
    digest = hmac.new(secret, f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {"x-slack-request-timestamp": str(at), "x-slack-signature": f"v0={digest}"}, body


def click(user: str = "U1", action: str = "lily_ack") -> dict[str, Any]:
    return {
        "type": "block_actions",
        "user": {"id": user, "username": "ann"},
        "message": {"ts": "1700000000.000100"},
        "actions": [{"action_id": action, "value": INCIDENT, "action_ts": "1700000001.1"}],
    }


def jira(body: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    raw = json.dumps(body).encode()
    digest = hmac.new(b"It's a Secret to Everybody", raw, hashlib.sha256).hexdigest()
    return {"x-hub-signature": f"sha256={digest}", "x-atlassian-webhook-identifier": "i-1"}, raw


def moved(to: str, category: str) -> dict[str, Any]:
    fields = {"labels": ["lily", f"lily-{INCIDENT.replace('-', '')[:12]}"],
              "status": {"name": to, "statusCategory": {"key": category}}}  # fmt: skip
    return {
        "webhookEvent": "jira:issue_updated",
        "user": {"displayName": "Ann"},
        "issue": {"key": "DQ-24", "fields": fields},
        "changelog": {"items": [{"field": "status", "fromString": "To Do", "toString": to}]},
    }


def okta(kind: str, result: str = "SUCCESS") -> dict[str, Any]:
    person = {"id": "00u1", "type": "User", "alternateId": "ann@example.com"}
    event = {"uuid": "e-1", "eventType": kind, "target": [person], "outcome": {"result": result}}
    return {"eventType": "com.okta.event_hook", "data": {"events": [event]}}


def standard(event: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    body = json.dumps(event).encode()
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    digest = hmac.new(key, f"msg_1.{NOW}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    return headers, body


def test_monte_carlos_published_way_of_signing_is_reproduced() -> None:
    headers, body = signed(ANOMALY)
    assert headers["x-mcd-signature"] == DIGEST
    pretty = json.dumps(json.loads(body), indent=4).encode()
    webhook = MonteCarlo(MonteCarlo.Options.model_validate({"secret": SECRET}))
    assert webhook.receive(headers, pretty) == webhook.receive(headers, body)
    scalars = b'{"a":null,"b":true,"c":1.0,"d":"\xc3\xa9 \'q\'","e":[1]}'
    assert urlencode(json.loads(scalars)) == "a=None&b=True&c=1.0&d=%C3%A9+%27q%27&e=%5B1%5D"


def test_another_account_of_monte_carlo_is_refused() -> None:
    options = {"secret": SECRET, "account_id": "somebody else"}
    with pytest.raises(Reject):
        MonteCarlo(MonteCarlo.Options.model_validate(options)).receive(*signed(ANOMALY))


def test_a_connection_to_monte_carlo_needs_a_secret() -> None:
    for options in ({}, {"secret": ""}, {"secret": "short"}, {"account_id": "1"}):
        with pytest.raises(ValueError, match="secret"):
            MonteCarlo.Options.model_validate(options)


def test_an_anomaly_names_its_table() -> None:
    said = signal(ANOMALY)
    assert said.names == ["zeus:ares.artemis", "artemis"]
    assert (said.state, said.title) == ("open", "Has 42 rows vs. 101 expected")
    assert parts(said.names[0]) == ("zeus", "ares", "artemis")


def test_a_breach_names_its_rule_and_no_table() -> None:
    said = signal(BREACH)
    assert (said.names, said.rule) == ([], "0c8e06aa-a44b-4f2d-8a37-5ed3f394431d")
    assert said.title == "test rule: custom_metric_1234 is 50.0 (> 49.0)"


@pytest.mark.parametrize(
    ("feedback", "state"),
    [("investigating", "acknowledged"), ("no_status", "open"), ("false_positive", "resolved")],
)
@pytest.mark.parametrize("inside", [True, False])
def test_feedback_is_read_in_both_places(feedback: str, state: str, inside: bool) -> None:
    more = {"alert_feedback": feedback, "declared_alert_severity": "SEV-1", "owner": "a@b.c"}
    call: dict[str, Any] = {**ANOMALY, "type": "something_new"}
    call = {**call, "payload": {**call["payload"], **more}} if inside else {**call, **more}
    said = signal(call)
    assert (said.state, said.severity, said.owner) == (state, "critical", "a@b.c")


def test_an_unknown_kind_is_kept() -> None:
    said = signal(
        {"type": "never_heard_of", "payload": {"incident_id": "1", "x": [1, {"y": None}]}}
    )
    assert (said.external_id, said.state, said.details["type"]) == ("1", None, "never_heard_of")
    odd = signal({"type": 7, "payload": [1], "account": "x"})
    assert (odd.external_id, odd.names) == ("", [])


def test_slacks_published_vector_is_accepted_and_an_old_one_is_not() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
        b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    options = {"signing_secret": "8f742231b10e8888abcd99yyyzzz85a5"}
    webhook = Slack(Slack.Options.model_validate(options))
    proof = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    headers = {"x-slack-request-timestamp": "1531420618", "x-slack-signature": proof}
    assert webhook.receive({**headers, "lily-received-at": "1531420618"}, body) == []
    with pytest.raises(Reject):
        webhook.receive({**headers, "lily-received-at": str(1531420618 + 301)}, body)


def test_only_known_people_may_click() -> None:
    webhook = TestSlack().make()
    at = {"lily-received-at": str(NOW)}
    headers, body = slack(click())
    [said] = webhook.receive({**headers, **at}, body)
    assert isinstance(said, SignalSeen)
    assert (said.person, said.state, said.incident) == ("ann", "acknowledged", INCIDENT)
    headers, body = slack(click("U2"))
    assert webhook.receive({**headers, **at}, body) == []


@pytest.mark.parametrize(
    ("to", "category", "state"),
    [("Done", "done", "resolved"), ("In Progress", "indeterminate", "acknowledged"),
     ("To Do", "new", "open"), ("Odd", "undefined", None)],
)  # fmt: skip
def test_a_status_in_jira_moves_the_incident(to: str, category: str, state: str | None) -> None:
    webhook = TestJira().make()
    said = webhook.receive(*jira(moved(to, category)))
    assert [each.state for each in said if isinstance(each, SignalSeen)] == (
        [state] if state else []
    )


def test_jiras_published_vector_is_reproduced() -> None:
    digest = "a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"
    assert signing.hexadecimal("It's a Secret to Everybody", b"Hello World!", "sha256") == digest


def test_okta_is_greeted_and_tells_who_left() -> None:
    webhook = TestOkta().make()
    assert isinstance(webhook, Okta)
    proof = {"authorization": "exactly this text"}
    asked = {**proof, "x-okta-verification-challenge": "abc"}
    assert webhook.greet(asked) == b'{"verification":"abc"}'
    with pytest.raises(Reject):
        webhook.greet({"x-okta-verification-challenge": "abc"})
    [left] = webhook.receive(proof, json.dumps(okta("user.lifecycle.deactivate")).encode())
    assert left == PersonLeft(("ann@example.com", "00u1"), "okta: user.lifecycle.deactivate")
    for other in (okta("user.session.start"), okta("user.lifecycle.suspend", "FAILURE")):
        assert webhook.receive(proof, json.dumps(other).encode()) == []


def test_standard_webhooks_published_vector_is_accepted() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,bad v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "lily-received-at": "1614265330",
    }
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    assert signing.standard(secret, headers, body) == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    with pytest.raises(Reject):
        signing.standard(secret, {**headers, "lily-received-at": "1614265000"}, body)


def test_a_cloud_event_that_makes_no_sense_says_why() -> None:
    webhook = TestCloudEvents().make()
    headers, body = standard({"type": "x", "data": {"state": "odd"}})
    with pytest.raises(Unreadable, match=r"data\.state"):
        webhook.receive({**headers, "lily-received-at": str(NOW)}, body)


def test_each_table_of_a_monte_carlo_incident_is_named_apart() -> None:
    events = [
        {"full_table_id": "zeus:ares.artemis", "table_name": "artemis"},
        {"table_name": "artemis"},
        {"full_table_id": "zeus:hera.artemis"},
        {"table_name": "apollo"},
    ]
    call = {**ANOMALY, "payload": {**ANOMALY["payload"], "event_list": events}}
    said = signal(call)
    assert said.names == ["zeus:ares.artemis", "artemis"]
    assert said.others == [["zeus:hera.artemis"], ["zeus:ares.apollo", "apollo"]]
