"""A dbt project on a running Lily: crawled, through log and Spark, and read as lineage."""

import json
import shutil
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

from lily.workers import crawl
from tests.flow.people import Person
from tests.live import Live
from tests.waiting import until

EXAMPLE = Path(__file__).parents[1] / "examples" / "dbt"
SHOP = "postgres://db:5432/shop"
PEOPLE, PAYMENTS = f"{SHOP}.crm.customers", f"{SHOP}.raw.raw_payments"
STAGED, MART = f"{SHOP}.staging.stg_customers", f"{SHOP}.marts.dim%2Ecustomers"
RECENT = "dbt://jaffle_shop/model.jaffle_shop.recent_payments"
REPORT = "dbt://jaffle_shop/exposure.jaffle_shop.weekly_revenue"
GRAPH = {(PEOPLE, STAGED), (PAYMENTS, RECENT), (STAGED, MART), (RECENT, MART), (MART, REPORT)}


def crawled(live: Live, who: Person) -> None:
    """A crawl as it is asked for over HTTP, and run by a worker."""

    def send(path: str, body: Any = None) -> Any:
        answer = who.client.post(f"/api/v1/connections{path}", json=body, headers=who.headers)
        assert answer.is_success, answer.text
        return answer.json()

    folder = live.settings.home / "inbox" / who.tenant.name / "dbt"
    if not folder.exists():
        shutil.copytree(EXAMPLE, folder)
        options = {"path": str(folder), "namespace": "postgres://db:5432"}
        send("", {"name": "dbt", "plugin": "dbt", "uses": ["source"], "options": options})
    page = who.client.get("/api/v1/connections", headers=who.headers).json()["items"]
    run = send(f"/{page[0]['id']}/run")
    crawl.work(live.system, Event())
    done = who.client.get(f"/api/v1/crawls/{run['id']}", headers=who.headers).json()
    assert (done["state"], done["error"]) == ("succeeded", "")


def graph(who: Person, direction: str, name: str) -> set[tuple[str, str]]:
    path = f"/api/v1/metadata/lineage/{quote(name, safe='')}"
    query: dict[str, Any] = {"direction": direction, "depth": 5}
    found = who.client.get(path, params=query, headers=who.headers).json()
    names = {node["guid"]: node["qualified_name"] for node in found.get("nodes", ())}
    return {(names[edge["from"]], names[edge["to"]]) for edge in found.get("edges", ())}


def test_a_crawled_dbt_project_is_read_as_lineage(live: Live, api: Person) -> None:
    crawled(live, api)
    until(lambda: graph(api, "upstream", REPORT) == GRAPH, 60)
    down = {(PEOPLE, STAGED), (STAGED, MART), (MART, REPORT)}
    assert graph(api, "downstream", PEOPLE) == down
    edges = api.client.get(
        f"/api/v1/metadata/lineage/{quote(MART, safe='')}",
        params={"direction": "upstream", "depth": 1},
        headers=api.headers,
    ).json()["edges"]
    assert {(edge["source"], edge["process"]) for edge in edges} == {
        ("dbt", "model.jaffle_shop.customers")
    }
    _forget(live, api, "model.jaffle_shop.recent_payments")
    crawled(live, api)
    until(lambda: graph(api, "downstream", PAYMENTS) == {(PAYMENTS, RECENT)}, 60)
    assert graph(api, "downstream", PEOPLE) == down


def _forget(live: Live, who: Person, key: str) -> None:
    """The mart is no longer made of this model."""
    path = live.settings.home / "inbox" / who.tenant.name / "dbt" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["nodes"]["model.jaffle_shop.customers"]["depends_on"]["nodes"].remove(key)
    path.write_text(json.dumps(manifest))
