"""Story 1, whole: Monte Carlo to every channel, a click in Slack to Jira, the end everywhere."""

import hashlib
import hmac
import json
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

from httpx import Client

from lily.wiring import Core, Services
from tests.callers import tenant_with_admin
from tests.flow.apply import seen
from tests.flow.corridor import Corridor
from tests.flow.notifying import staged
from tests.flow.signals import facts
from tests.flow.test_notify_channels import Town
from tests.flow.test_webhooks import NAME, Desk, call
from tests.montecarlo import ANOMALY, SECRET, signed

SIGNING = "8f742231b10e8888abcd99yyyzzz85a5"


def clicked(wired: Services, value: str) -> tuple[dict[str, str], bytes]:
    """A click on the button of a message, as Slack sends it."""
    at = str(int(wired.core.clock.now().timestamp()))
    action = {"action_id": "lily_ack", "value": value, "action_ts": "1.1"}
    payload = {"type": "block_actions", "user": {"id": "U1"}, "message": {"ts": "1"},
               "actions": [action]}  # fmt: skip
    body = urlencode({"payload": json.dumps(payload)}).encode()
    proof = hmac.new(SIGNING.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": f"v0={proof}"}, body


def button(message: dict[str, Any]) -> str:
    elements = [e for block in message["blocks"] for e in block.get("elements", [])]
    return next(str(e["value"]) for e in elements if e.get("action_id") == "lily_ack")


def moved(issue: str, labels: list[str], to: str) -> tuple[dict[str, str], bytes]:
    category = {"In Progress": "indeterminate", "Done": "done"}[to]
    fields = {"labels": labels, "status": {"name": to, "statusCategory": {"key": category}}}
    items = [{"field": "status", "toString": to}]
    call = {"issue": {"key": issue, "fields": fields}, "changelog": {"items": items}}
    body = json.dumps(call).encode()
    digest = hmac.new(b"of the webhook", body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature": f"sha256={digest}", "X-Atlassian-Webhook-Identifier": to}, body


def test_an_incident_goes_everywhere_and_ends_everywhere_once(
    core: Core, system: Core, wired: Services, client: Client, corridor: Corridor
) -> None:
    tenant = tenant_with_admin(core)
    with ExitStack() as stack:
        stage = stack.enter_context(staged(core, system, tenant))
        town = Town(stage, stack)
        desk = Desk(wired, client, tenant)
        seen(system, tenant, NAME, asset_type="table", asset_owner="ann")
        monte = desk.connect("montecarlo", secret=SECRET)["webhook_url"]
        inbound = desk.connect("slack", signing_secret=SIGNING, users={"U1": "ann"})["webhook_url"]
        jira = desk.connect("jira", secret="of the webhook")["webhook_url"]

        def said(url: str, proof: dict[str, str], body: bytes) -> None:
            for _ in range(2):  # tools repeat themselves
                assert call(client, url, proof, body).status_code == 200
            corridor.run()
            for _ in range(3):
                stage.tell()
                stage.after(seconds=10)

        said(monte, *signed(ANOMALY))
        [message] = town.slack.roots()
        [(key, issue)] = town.jira.issues.items()
        said(f"{inbound}/interactive", *clicked(wired, button(message)))
        assert issue["moves"] == ["In Progress"]
        assert town.slack.replies() == []  # it is known there
        # What Lily did in Jira comes back from there, and is no news.
        said(jira, *moved(key, issue["fields"]["labels"], "In Progress"))
        fixed = {**ANOMALY["payload"], "alert_feedback": "fixed"}
        said(monte, *signed({**ANOMALY, "payload": fixed}))
        said(jira, *moved(key, issue["fields"]["labels"], "Done"))
        assert issue["moves"] == ["In Progress", "Done"]
        [ticket] = town.desk.tickets.values()
        assert ticket["status"] == 4
        assert {sent.state for sent in stage.deliveries()} == {"delivered"}
    assert [(kind, after["via"]) for kind, after in facts(core, tenant)] == [
        ("IncidentOpened", "montecarlo"),
        ("IncidentAcknowledged", "slack"),
        ("IncidentResolved", "montecarlo"),
    ]
