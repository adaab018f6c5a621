"""An incident goes out to every channel, and its course is told there once, without an echo."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from jira import JIRA

from lily.store import connections
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.notifying import SECRET, TESTER, Stage, staged
from tests.packages import install
from tests.vendors import freshdesk, jira, slack, teams
from tests.vendors.server import Scripted, running

COURSE = ["IncidentOpened", "IncidentAcknowledged", "IncidentChanged", "IncidentResolved"]


class Town:
    """One of every vendor, connected and subscribed to incidents."""

    def __init__(self, stage: Stage, stack: ExitStack) -> None:
        self.stage = stage
        self.slack = stack.enter_context(running(slack.Slack()))
        self.jira = stack.enter_context(running(jira.Jira()))
        self.teams = stack.enter_context(running(teams.Teams()))
        self.desk = stack.enter_context(running(freshdesk.Freshdesk()))
        self.hook = stack.enter_context(running(Scripted(200)))
        self.ids = {
            "slack": stage.connect(
                "slack", token=slack.TOKEN, channel="C1", api_url=f"{self.slack.url}/api"
            ),
            "jira": stage.connect(
                "jira", url=self.jira.url, email=jira.EMAIL, token=jira.TOKEN, project="DQ"
            ),
            "teams": stage.connect("teams", webhook_url=self.teams.url + teams.HOOK),
            "freshdesk": stage.connect(
                "freshdesk", url=self.desk.url, api_key=freshdesk.KEY, requester="a@b.example"
            ),
            "webhook": stage.webhook(self.hook.url),
        }
        for id in self.ids.values():
            stage.subscribe(id, COURSE)

    def tell(self, kind: str, incident: UUID, source: str = "montecarlo", **more: Any) -> None:
        states = {"Opened": "open", "Acknowledged": "acknowledged", "Resolved": "resolved"}
        after = {
            "incident_id": str(incident), "title": "Volume anomaly on people", "severity": "high",
            "state": states.get(kind, "open"), "url": "https://mc.example/1", "rule": "volume",
            "external_id": "x", "source": source, "comment": "", **more,
        }  # fmt: skip
        self.stage.happen(f"Incident{kind}", guid=None, after=after)
        self.stage.tell()
        self.stage.after(seconds=10)


@pytest.fixture
def stage(core: Core, system: Core, tenant: Tenant) -> Iterator[Stage]:
    with staged(core, system, tenant) as made:
        yield made


@pytest.fixture
def town(stage: Stage) -> Iterator[Town]:
    with ExitStack() as stack:
        yield Town(stage, stack)


def test_one_message_one_issue_one_card_one_ticket_and_their_course(town: Town) -> None:
    incident = uuid4()
    town.tell("Opened", incident)
    town.tell("Acknowledged", incident, by="ann")
    town.tell("Resolved", incident, comment="Fixed upstream.")
    assert {sent.state for sent in town.stage.deliveries()} == {"delivered"}
    [message] = town.slack.roots()
    assert message["text"].startswith("✅") and len(town.slack.replies()) == 2
    assert not any(e.get("action_id") == "lily_ack" for b in message["blocks"]
                   for e in b.get("elements", []))  # fmt: skip
    [(key, issue)] = town.jira.issues.items()
    assert (issue["moves"], len(issue["comments"])) == (["In Progress", "Done"], 2)
    assert "Fixed upstream." in jira.texts(issue["comments"][1])
    assert f"lily-{incident}" in issue["fields"]["labels"]
    [ticket] = town.desk.tickets.values()
    assert (ticket["status"], len(ticket["notes"])) == (4, 2)
    assert len(town.teams.cards) == 3 == len(town.hook.calls)
    assert town.teams.cards[0]["actions"][0]["title"] == "Acknowledge"
    client = JIRA(server=town.jira.url, basic_auth=(jira.EMAIL, jira.TOKEN), max_retries=0)
    assert client.issue(key).fields.summary == "Volume anomaly on people"
    client.close()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("origin", ["slack", "jira", "freshdesk"])
def test_a_change_is_not_told_to_the_tool_that_it_came_from(town: Town, origin: str) -> None:
    incident = uuid4()
    town.tell("Opened", incident)
    town.tell("Acknowledged", incident, source=str(town.ids[origin]))
    [message] = town.slack.roots()
    assert len(town.slack.replies()) == (0 if origin == "slack" else 1)
    assert message["text"].startswith("👀"), "the message shows how it stands, also then"
    [issue] = town.jira.issues.values()
    assert issue["moves"] == ([] if origin == "jira" else ["In Progress"])
    assert len(issue["comments"]) == 1
    [ticket] = town.desk.tickets.values()
    assert ticket["status"] == (2 if origin == "freshdesk" else 3)


def test_an_inbound_connection_of_the_same_tool_is_the_same_tool(stage: Stage) -> None:
    with running(slack.Slack()) as vendor:
        out = stage.connect("slack", webhook_url=vendor.url + slack.HOOK)
        inbound = stage.connect("slack", "webhook", signing_secret="12345678")
        stage.subscribe(out, ["IncidentAcknowledged"])
        for source in (str(inbound), "somebody"):
            after = {"incident_id": str(uuid4()), "title": "x", "source": source}
            stage.happen("IncidentAcknowledged", after=after)
        stage.tell()
        assert len(vendor.hooked) == 1


def test_an_answer_that_never_came_does_not_make_a_second_issue(stage: Stage) -> None:
    with running(jira.Jira()) as vendor:
        vendor.silent = 1
        target = stage.connect(
            "jira", url=vendor.url, email=jira.EMAIL, token=jira.TOKEN, project="DQ"
        )
        stage.subscribe(target, ["IncidentOpened"])
        after = {"incident_id": str(uuid4()), "title": "x", "severity": "low"}
        stage.happen("IncidentOpened", after=after)
        stage.tell()
        [sent] = stage.deliveries()
        assert (sent.state, len(vendor.issues)) == ("waiting", 1)
        stage.after(seconds=6)
        stage.tell()
        assert stage.deliveries()[0].state == "delivered"
        assert len(vendor.issues) == 1


def test_a_channel_that_is_archived_is_switched_off(stage: Stage) -> None:
    with running(slack.Slack()) as vendor:
        vendor.errors = ["is_archived"]
        target = stage.connect(
            "slack", token=slack.TOKEN, channel="C1", api_url=f"{vendor.url}/api"
        )
        stage.subscribe(target)
        stage.happen()
        stage.tell()
        stage.happen()
        stage.tell()
        assert len(vendor.calls) == 1
        [told] = stage.facts("TargetDisabled")
        assert told.after and told.after["reason"] == "is_archived"


def test_a_changed_connection_is_tried_again(stage: Stage) -> None:
    with running(Scripted(410, 200)) as vendor:
        target = stage.webhook(vendor.url)
        stage.subscribe(target)
        stage.happen()
        stage.tell()
        with stage.core.database.unit(stage.tenant) as unit:
            before = connections.locked(unit, target, None)
            after = msgspec.structs.replace(before, ordinal=7)
            connections.change(unit, before, after, TESTER)
        stage.happen()
        stage.tell()
        assert [sent.state for sent in stage.deliveries()] == ["dead", "delivered"]


def test_slack_is_sent_no_more_than_its_rate_by_all_processes_together(stage: Stage) -> None:
    with running(slack.Slack(burst=50)) as vendor:
        target = stage.connect(
            "slack", token=slack.TOKEN, channel="C1", api_url=f"{vendor.url}/api"
        )
        stage.subscribe(target)
        stage.happen(count=10)
        stage.match()
        assert stage.deliver(rounds=5) == 3, "a burst"
        counts = []
        for _ in range(4):
            stage.after(seconds=1)
            counts.append(stage.deliver() + stage.deliver())
        assert counts == [1, 1, 1, 1]


def test_filters_change_what_leaves_and_a_broken_one_lets_nothing_pass(stage: Stage) -> None:
    with running(Scripted(200)) as vendor, running(Scripted(200)) as inside:
        outer = stage.connect("webhook", url=vendor.url, secret=SECRET, name="outside")
        stage.connect("redact", "filter", channels=["outside"], patterns=["swordfish"])
        for id in (outer, stage.webhook(inside.url)):
            stage.subscribe(id)
        stage.happen(after={"description": "the word is swordfish"})
        stage.tell()
        assert b"swordfish" not in vendor.calls[0][3] and b"[hidden]" in vendor.calls[0][3]
        assert b"swordfish" in inside.calls[0][3]
        with stage.core.database.unit(stage.tenant) as unit:
            unit.conn.execute(
                'UPDATE connection SET options = \'{"patterns": ["("]}\', revision = 2'
                " WHERE tenant = %s AND 'filter' = ANY(uses)",
                [stage.tenant.number],
            )
        stage.happen()
        stage.tell()
        assert (len(vendor.calls), len(inside.calls)) == (1, 1)
        assert all("nothing leaves" in s.reason for s in stage.deliveries(state="dead"))


def test_words_of_a_template_and_the_inbox_of_a_person(stage: Stage) -> None:
    with running(Scripted(200)) as vendor:
        template = {"title": "{by} touched {qualified_name}", "text": "{severity}{kind}"}
        stage.subscribe(stage.webhook(vendor.url), template=template)
        stage.happen(qualified_name="shop/people", guid=uuid4())
        stage.tell()
        assert b'"title":"ann touched shop/people","text":"AssetChanged"' in vendor.calls[0][3]


PAGER = """
import msgspec
from pydantic import BaseModel
from lily.sdk import Call


class Pager:
    class Options(BaseModel):
        url: str

    def __init__(self, options):
        self._url = options.url

    def address(self):
        return self._url

    def send(self, notice):
        body = msgspec.json.encode({"what": notice.title, "before": notice.handle})
        answer = yield Call("POST", self._url, {"Content-Type": "application/json"}, body)
        return answer.json()


class Shout:
    class Options(BaseModel):
        pass

    def __init__(self, options):
        pass

    def __call__(self, notice, channel):
        return msgspec.structs.replace(notice, title=notice.title.upper() + " on " + channel)
"""


def test_a_target_and_a_filter_of_a_stranger_work_without_touching_lily(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = {"lily.targets": {"pager": "Pager"}, "lily.filters": {"shout": "Shout"}}
    for number, (group, names) in enumerate(packages.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        install(folder, monkeypatch, f"lily-stranger-{number}", names, PAGER, group)
    with running(Scripted((200, {}, b'{"id": 7}'))) as vendor:
        stage.connect("shout", "filter")
        stage.subscribe(stage.connect("pager", url=vendor.url, name="the pager"))
        asset = uuid4()
        for _ in range(2):
            stage.happen(guid=asset, qualified_name="people")
            stage.tell()
        said = [json.loads(body) for _, _, _, body in vendor.calls]
        assert said[0] == {"what": "PEOPLE HAS CHANGED on the pager", "before": None}
        assert said[1]["before"] == {"id": 7}
