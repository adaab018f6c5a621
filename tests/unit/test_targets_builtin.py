"""Built-in targets and filters keep the contract of strangers, and what vendors publish."""

import base64
import json
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from pydantic import ValidationError
from standardwebhooks.webhooks import Webhook as Judge

from lily.connectors import freshdesk, jira, redact, slack, teams, webhook
from lily.errors import Reject, Retry
from lily.sdk import Answer, Call, Filter, Gone, Notice, Refused, Target
from lily.sdk.testing_targets import FilterContract, TargetContract, converse, notices
from tests.vendors.jira import document
from tests.vendors.slack import problem
from tests.vendors.teams import problems

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
JIRA = {"url": "https://x.atlassian.net", "email": "a@b.c", "token": "t0ken", "project": "DQ"}
DESK = {"url": "https://x.freshdesk.com", "api_key": "k3y", "requester": "a@b.c"}


Plugin = TypeVar("Plugin")


def made(plugin: type[Plugin], **options: Any) -> Plugin:
    kind: Any = plugin
    built: Plugin = kind(kind.Options.model_validate(options))
    return built


def ok(call: Call) -> Answer:
    said: dict[str, Any] = {"ok": True, "channel": "C1", "ts": "1.2", "key": "DQ-1", "id": 7,
                            "issues": [], "results": [], "transitions": []}  # fmt: skip
    return Answer(200, {}, json.dumps(said).encode())


class TestSlackBot(TargetContract):
    def make(self) -> Target:
        return made(slack.Slack, token="xoxb-1", channel="C1")

    def answers(self, call: Call) -> Answer:
        return ok(call)


class TestSlackWebhook(TestSlackBot):
    def make(self) -> Target:
        return made(slack.Slack, webhook_url="https://hooks.slack.com/x")


class TestJira(TestSlackBot):
    def make(self) -> Target:
        return made(jira.Jira, **JIRA)


class TestTeams(TestSlackBot):
    def make(self) -> Target:
        return made(teams.Teams, webhook_url="https://logic.example/x")


class TestFreshdesk(TestSlackBot):
    def make(self) -> Target:
        return made(freshdesk.Freshdesk, **DESK)


class TestWebhook(TestSlackBot):
    def make(self) -> Target:
        return made(webhook.Webhook, url="https://x.example/h", secret=SECRET)


class TestRedact(FilterContract):
    def make(self) -> Filter:
        return made(redact.Redact, patterns=["people"], drop_fields=["after"])


def test_slack_takes_every_message_and_the_button_names_the_incident() -> None:
    for notice in notices():
        assert problem(slack.message(notice)) is None, notice.title[:40]
    [actions] = [b for b in slack.message(notices()[0])["blocks"] if b["type"] == "actions"]
    assert actions["block_id"] == f"lily:ack:{notices()[0].id}"
    assert actions["elements"][0]["value"] == f"incident:{notices()[0].incident}"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("internal_error", Retry), ("fatal_error", Retry), ("channel_not_found", Reject),
        ("invalid_auth", Reject), ("invalid_blocks", Reject), ("is_archived", Gone),
        ("channel_is_archived", Gone), ("no_service", Gone), ("something_new", Reject),
        ("ratelimited", Retry),
    ],
)  # fmt: skip
def test_slack_says_200_to_everything_and_is_understood(error: str, kind: type[Exception]) -> None:
    body = json.dumps({"ok": False, "error": error}).encode()
    answer = Answer(200, {"retry-after": "7"}, body)
    with pytest.raises(kind, match=error) as caught:
        converse(TestSlackBot().make(), notices()[0], lambda _: answer)
    if error == "ratelimited":
        assert caught.value.after == 7.0  # type: ignore[attr-defined]


def test_jira_documents_are_documents_and_titles_fit() -> None:
    for notice in notices():
        for brief in (False, True):
            assert document(jira.document(notice, brief)), notice.title[:40]
        for call in converse(TestJira().make(), notice, ok)[0]:
            if call.url.endswith("/issue"):
                fields = json.loads(call.body)["fields"]
                assert 0 < len(fields["summary"]) <= 255 and "\n" not in fields["summary"]
                assert all(label and " " not in label for label in fields["labels"])


def test_jira_leaves_out_a_priority_that_is_not_on_the_screen() -> None:
    def answers(call: Call) -> Answer:
        if b'"priority"' in call.body:
            return Answer(400, {}, b'{"errorMessages": [], "errors": {"priority": "no"}}')
        return ok(call)

    calls, handle = converse(TestJira().make(), notices()[0], answers)
    assert (len(calls), handle) == (2, {"key": "DQ-1"})


def test_cards_are_cards_of_their_schema_and_small_enough() -> None:
    for notice in notices():
        body = teams.body(notice)
        assert len(body) <= 20_000
        [attachment] = json.loads(body)["attachments"]
        assert problems(attachment["content"]) == []
    links = json.loads(teams.body(notices()[0]))["attachments"][0]["content"]["actions"]
    assert links[0]["title"] == "Acknowledge" and "/n/ack?t=" in links[0]["url"]


def test_freshdesk_gets_html_that_is_escaped() -> None:
    page = freshdesk.page(notices()[-1])
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_the_published_vector_of_standard_webhooks() -> None:
    key = webhook.key_of(SECRET)
    signed = webhook.signature(
        [key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def sent(secret: str, previous: str | None = None, notice: Notice | None = None) -> Call:
    options = {"url": "https://x.example/h", "secret": secret, "previous_secret": previous}
    target = made(webhook.Webhook, **options)
    now = datetime.now(UTC)  # noqa: TID251  the judge looks at the clock
    given = msgspec.structs.replace(notice or notices()[0], sent_at=now)
    call: Call = converse(target, given, ok)[0][0]
    return call


def test_receivers_verify_with_the_new_secret_and_with_the_old_one() -> None:
    old = "whsec_" + base64.b64encode(b"o" * 24).decode()
    call = sent(SECRET, old)
    for secret in (SECRET, old):
        Judge(secret).verify(call.body.decode(), dict(call.headers))
    with pytest.raises(Exception, match="No matching signature"):
        Judge("whsec_" + base64.b64encode(b"x" * 24).decode()).verify(
            call.body.decode(), dict(call.headers)
        )


def test_the_body_is_a_cloud_event() -> None:
    for notice in notices():
        if notice.echo:
            continue
        call = sent(SECRET, notice=notice)
        assert len(call.body) <= 20_000
        message = HTTPMessage(headers=dict(call.headers), body=call.body)
        event = from_structured_event(message)
        assert event.get_id() == notice.id == call.headers["webhook-id"]
        assert event.get_type().startswith("io.lily.")


@pytest.mark.parametrize(
    "options",
    [
        {"secret": "short"}, {"secret": "whsec_!!!"}, {"headers": {"Host": "x"}},
        {"headers": {"X": "a\r\nb"}}, {"colour": "red"},
    ],
)  # fmt: skip
def test_a_webhook_that_cannot_be_trusted_is_refused(options: dict[str, Any]) -> None:
    given = {"url": "https://x.example", "secret": SECRET, **options}
    with pytest.raises(ValidationError):
        webhook.Webhook.Options(**given)


def test_redact_hides_drops_renames_adds_and_keeps_in() -> None:
    sieve = made(
        redact.Redact, patterns=[r"\d+ rows"], drop_fields=["Severity", "n"], keep_in=["Test"],
        rename_fields={"Asset": "Table"}, add_fields={"Team": "data"},
    )  # fmt: skip
    kept = sieve(notices()[0], "x")
    assert kept is not None
    assert kept.text == "Has [hidden] vs. 101 expected"
    assert kept.fields == {"Table": "postgres://h:5432/shop.public.people", "Team": "data"}
    assert kept.data == {"after": {"state": "open"}}
    assert sieve(notices()[4], "x") is None


def test_a_refusal_shows_what_was_answered() -> None:
    with pytest.raises(Refused) as caught:
        converse(TestJira().make(), notices()[0], lambda _: Answer(401))
    assert caught.value.answer.status == 401
