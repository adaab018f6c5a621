"""Story 1: Monte Carlo finds an anomaly; every channel hears of it, and of its end, once."""

import hashlib
import hmac
import json
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from lily.cli.pretend import STATUSES, Freshdesk, Jira, Slack, Teams
from lily.cli.told import Teller
from lily.clock import SystemClock

if TYPE_CHECKING:
    from lily.cli.client import Client

# A call as Monte Carlo documents it, and the signature that belongs to it and to the secret.
SECRET = "lily-test-secret"
CALL: dict[str, Any] = {
    "account": {"id": "9a59c6f1-203a-4c72-8cd7-132db7f21b92"},
    "action": "incident",
    "payload": {
        "event_list": [{"event_details": "Has 42 rows vs. 101 expected", "table_name": "artemis"}],
        "group_id": "zeus:ares",
        "incident_id": "f83867b6-8f25-428b-807c-08518f63384c",
        "url": "https://getmontecarlo.com/incidents/f83867b6-8f25-428b-807c-08518f63384c",
    },
    "type": "open_anomaly_incident",
    "version": "v0.1",
}
SIGNATURE = (
    "c35f3f267adf56d97d6af47e539d71e7ef1d9a412321836d0573f8752e855486"
    "7bde39039850d7123bdf102e9def5438a8e7c20dd91809793969eea987704483"
)
TABLE = "bigquery://zeus/zeus.ares.artemis"
COURSE = ["IncidentOpened", "IncidentAcknowledged", "IncidentResolved"]
CLICKS = "the secret of our Slack app"


class IncidentStory:
    """A table, a monitor that watches it, and four tools where people work."""

    def __init__(self, api: "Client", teller: Teller) -> None:
        self._api, self._teller = api, teller
        self._guid = self._monte = self._clicks = ""

    def play(self) -> None:
        with ExitStack() as stack:
            self._slack, self._jira, self._teams, self._desk = Slack(), Jira(), Teams(), Freshdesk()
            for each in (self._slack, self._jira, self._teams, self._desk):
                stack.callback(each.close)
            self.prepare()
            self.report()
            self.acknowledge()
            self.resolve()

    def prepare(self) -> None:
        tell = self._teller
        tell.title("A table that Monte Carlo watches, and four tools (pretended, on this machine)")
        body = {"qualified_name": TABLE, "asset_type": "table", "asset_owner": "ann"}
        self._guid = self._api.post("/api/v1/metadata", body)["guid"]
        tell.say("asset", TABLE)
        self._monte = self._connect("Monte Carlo", "montecarlo", "webhook", secret=SECRET)
        clicks = {"signing_secret": CLICKS, "users": {"U1": "ann"}}
        self._clicks = self._connect("clicks in Slack", "slack", "webhook", **clicks)
        slack, jira, desk = self._slack, self._jira, self._desk
        for name, plugin, options in (
            ("Slack", "slack", {"api_url": slack.url, "token": slack.token, "channel": "C1"}),
            ("Jira", "jira", {"url": jira.url, "email": jira.email, "token": jira.token,
                              "project": "DQ"}),
            ("Teams", "teams", {"webhook_url": f"{self._teams.url}/workflow"}),
            ("Freshdesk", "freshdesk", {"url": desk.url, "api_key": desk.key,
                                        "requester": "ann@example.org"}),
        ):  # fmt: skip
            id = self._connect(name, plugin, "target", **options)
            self._api.post("/api/v1/subscriptions", {
                "name": f"incidents to {name}", "match": {"facts": COURSE}, "connection_id": id,
            })  # fmt: skip
        tell.say("subscribed to incidents", "Slack, Jira, Teams, Freshdesk")

    def report(self) -> None:
        tell = self._teller
        tell.title("Monte Carlo reports an anomaly of that table, by a signed call")
        tell.say("x-mcd-signature", f"{SIGNATURE[:24]}…")
        tell.begin()
        for _ in range(2):
            self._called(CALL, SIGNATURE)
        tell.say("called twice, as tools do", "200, 200")
        tell.until("on the asset", lambda: bool(self._incidents()))
        [incident] = self._incidents()
        tell.say(f"{incident['state']}, {incident['source']}", incident["title"])
        tell.until("in search: incident=open", self._found)
        tell.until("in the feed", lambda: self._facts() == COURSE[:1])
        tell.until("in Slack, with a button", lambda: bool(self._slack.messages))
        tell.say("message", self._message())
        tell.until("in Jira", lambda: bool(self._jira.issues))
        [(key, issue)] = self._jira.issues.items()
        tell.say(f"{key}, {issue['statuses'][-1]}", issue["summary"])
        tell.until("in Teams", lambda: len(self._teams.cards) == 1)
        tell.until("in Freshdesk", lambda: bool(self._desk.tickets))
        [ticket] = self._desk.tickets.values()
        tell.say(f"ticket 1, {STATUSES[ticket['status']]}", ticket["subject"])

    def acknowledge(self) -> None:
        tell = self._teller
        tell.title("Ann presses *Acknowledge* in Slack")
        tell.begin()
        self._click(self._slack.button())
        tell.until("acknowledged", lambda: self._incidents()[0]["state"] == "acknowledged")
        tell.until("Jira moves", lambda: self._statuses()[-1] == "In Progress")
        tell.say("statuses of the issue", " → ".join(self._statuses()))
        tell.until("Freshdesk follows", lambda: self._desk.tickets[1]["status"] == 3)
        tell.until("in Teams", lambda: len(self._teams.cards) == 2)
        tell.until("in Slack, by the same message", lambda: "👀" in self._message())
        tell.say("message", self._message())

    def resolve(self) -> None:
        tell = self._teller
        tell.title("Monte Carlo says that it is fixed")
        payload = {**CALL["payload"], "alert_feedback": "fixed"}
        call = {**CALL, "payload": payload}
        proof = hmac.new(SECRET.encode(), urlencode(call).encode(), hashlib.sha512).hexdigest()
        tell.begin()
        for _ in range(2):
            self._called(call, proof)
        tell.until("no open incident on the asset", lambda: not self._incidents())
        tell.until("Jira moves", lambda: self._statuses()[-1] == "Done")
        tell.say("statuses of the issue", " → ".join(self._statuses()))
        tell.until("Freshdesk follows", lambda: self._desk.tickets[1]["status"] == 4)
        tell.until("in Teams", lambda: len(self._teams.cards) == 3)
        tell.until("in Slack, by the same message", lambda: "✅" in self._message())
        tell.say("message", self._message())
        tell.until("every delivery has arrived", self._all_delivered)
        tell.title("All of it once")
        tell.say("facts", ", ".join(self._facts()))
        made = f"{len(self._slack.messages)} message, {len(self._jira.issues)} issue,"
        tell.say("made", f"{made} {len(self._teams.cards)} cards, {len(self._desk.tickets)} ticket")
        states = Counter(each["state"] for each in self._deliveries())
        tell.say("deliveries", ", ".join(f"{count} {state}" for state, count in states.items()))

    # What it does ------------------------------------------------------------------------------

    def _connect(self, name: str, plugin: str, use: str, **options: Any) -> str:
        """The id of a target, or where to call a webhook."""
        made = self._api.post("/api/v1/connections", {
            "name": f"{name} of the demonstration", "plugin": plugin, "uses": [use],
            "options": options,
        })  # fmt: skip
        return str(made["id"] if use == "target" else urlsplit(made["webhook_url"]).path)

    def _called(self, call: dict[str, Any], proof: str) -> None:
        self._api.call("POST", self._monte, call, headers={"x-mcd-signature": proof})

    def _click(self, value: str) -> None:
        """As Slack sends it: a signed form."""
        action = {"action_id": "lily_ack", "value": value, "action_ts": "1.1"}
        payload = {"type": "block_actions", "user": {"id": "U1"}, "message": {"ts": "1"},
                   "actions": [action]}  # fmt: skip
        body = urlencode({"payload": json.dumps(payload)})
        stamp = str(int(SystemClock().now().timestamp()))
        signed = hmac.new(CLICKS.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256)
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": f"v0={signed.hexdigest()}",
        }
        path = f"{self._clicks}/interactive"
        self._api.call("POST", path, body.encode(), headers=headers)

    # What it sees ------------------------------------------------------------------------------

    def _incidents(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.get(f"/api/v1/metadata/{self._guid}").get(
            "incidents", []
        )
        return found

    def _found(self) -> bool:
        answer = self._api.get("/api/v1/metadata/search", incident="open")
        return self._guid in [each["guid"] for each in answer["items"]]

    def _facts(self) -> list[str]:
        page = self._api.get("/api/v1/changes", kinds=",".join(COURSE), asset_id=self._guid)
        return [each["kind"] for each in page["items"]]

    def _deliveries(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._api.get("/api/v1/deliveries", limit=100)["items"]
        return items

    def _all_delivered(self) -> bool:
        states = [each["state"] for each in self._deliveries()]
        return len(states) == 12 and set(states) == {"delivered"}

    def _statuses(self) -> list[str]:
        return list(self._jira.issues["DQ-1"]["statuses"])

    def _message(self) -> str:
        """The first one, as it stands now."""
        text = str(next(iter(self._slack.messages.values()))["text"])
        return text.partition("\n")[0]
