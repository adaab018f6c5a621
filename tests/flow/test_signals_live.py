"""Story 1 on a running Lily: a signed call, and a second later the incident is on the asset."""

import time
from typing import Any
from urllib.parse import urlsplit

from lily.workers import adopt
from tests.flow.people import Person
from tests.live import Live
from tests.montecarlo import ACCOUNT, ANOMALY, SECRET, signed


def get(who: Person, path: str) -> Any:
    answer = who.client.get(f"/api/v1{path}", headers=who.headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def until(who: Person, path: str, there: Any) -> Any:
    end = time.monotonic() + 30
    while not there(found := get(who, path)):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def test_monte_carlo_calls_and_the_incident_takes_its_course(live: Live, api: Person) -> None:
    def post(path: str, body: Any) -> Any:
        answer = api.client.post(f"/api/v1{path}", json=body, headers=api.headers)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    options = {"account_id": ACCOUNT, "secret": SECRET}
    made = post("/connections", {"name": "mc", "plugin": "montecarlo", "uses": ["webhook"],
                                 "options": options})  # fmt: skip
    path = urlsplit(made["webhook_url"]).path

    def call(**payload: Any) -> None:
        proof, body = signed({**ANOMALY, "payload": {**ANOMALY["payload"], **payload}})
        assert live.other.post(path, content=body, headers=proof).status_code == 200

    call()
    [parked] = until(api, "/incidents?state=unattached", lambda page: page["items"])["items"]
    asset = {"qualified_name": "bigquery://zeus/zeus.ares.artemis", "asset_type": "table"}
    guid = post("/metadata", asset)["guid"]
    adopt.work(live.system, {})
    shown = until(api, f"/metadata/{guid}", lambda found: found.get("incidents"))
    assert [i["incident_id"] for i in shown["incidents"]] == [parked["incident_id"]]
    call(declared_alert_severity="SEV-1", alert_feedback="investigating")
    shown = until(api, f"/metadata/{guid}", lambda found: found.get("health") == "failing")
    assert shown["incidents"][0]["state"] == "acknowledged"
    call(alert_feedback="fixed")
    until(api, f"/metadata/{guid}", lambda found: "incidents" not in found)
    kinds = [item["kind"] for item in get(api, "/changes?after=0&limit=1000")["items"]]
    assert [kind for kind in kinds if kind.startswith("Incident")] == [
        "IncidentOpened", "IncidentAttached", "IncidentAcknowledged", "IncidentResolved",
    ]  # fmt: skip
