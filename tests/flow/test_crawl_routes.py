"""Crawls and lag over HTTP, and capture within two seconds."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from httpx import Client
from typer.testing import CliRunner

from lily.cli.app import build
from lily.events.observations import AssetSeen
from lily.store.embedded import Server
from lily.telemetry import exposition
from lily.wiring import Core
from lily.workers import capture, crawl, lag
from tests.flow.corridor import Corridor, append
from tests.flow.people import Person, admin, with_role
from tests.flow.sources import Estate
from tests.waiting import until

ROUTE = "/api/v1/connections"
EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def estate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Estate:
    return Estate(tmp_path, monkeypatch)


def send(who: Person, method: str, path: str, body: Any = None) -> Any:
    return who.client.request(method, path, json=body, headers=who.headers)


def make(who: Person, plugin: str, **more: Any) -> Any:
    body = {"name": "ours", "plugin": plugin, "uses": ["source"], **more}
    return send(who, "POST", ROUTE, body)


def test_a_source_is_made_run_followed_and_listed(
    system: Core, boss: Person, estate: Estate
) -> None:
    estate.has("made://a", "made://b")
    made = make(boss, "test-made", options={"plan": str(estate.path), "password": "swordfish-7"})
    assert made.status_code == 201 and made.json()["schedule"] == "24h"
    assert made.json()["options"]["password"] == "********"
    path = f"{ROUTE}/{made.json()['id']}"
    tried = send(boss, "POST", f"{path}/test", {}).json()
    assert (tried["outcome"], tried["found"]) == ("read", ["made://a", "made://b"])
    started = send(boss, "POST", f"{path}/run")
    assert started.status_code == 202 and started.json()["state"] == "queued"
    crawl.work(system, Event())
    run = send(boss, "GET", started.headers["location"]).json()
    assert (run["state"], run["counts"]["new"], run["by"]) == ("succeeded", 2, "root")
    scoped = send(boss, "POST", f"{path}/run", {"scope": "made://a"}).json()
    assert (
        send(boss, "POST", f"/api/v1/crawls/{scoped['id']}/cancel").json()["state"] == "cancelled"
    )
    assert send(boss, "POST", f"/api/v1/crawls/{scoped['id']}/cancel").status_code == 409
    page = send(boss, "GET", f"{path}/runs?limit=1").json()
    assert [item["id"] for item in page["items"]] == [scoped["id"]]
    rest = send(boss, "GET", f"{path}/runs?after={page['next']}").json()
    assert [item["id"] for item in rest["items"]] == [run["id"]] and rest["next"] is None


def test_the_command_line_runs_lists_shows_and_cancels(
    system: Core, boss: Person, estate: Estate
) -> None:
    estate.has("made://a")
    make(boss, "test-made", options={"plan": str(estate.path)})
    token = boss.headers["Authorization"].removeprefix("Bearer ")
    ends = ["--url", str(boss.client.base_url), "--token", token, "--json"]

    def lily(*words: str) -> Any:
        done = CliRunner().invoke(build(), ["crawl", *words, *ends])
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    asked = lily("run", "ours", "--no-wait")
    assert asked["state"] == "queued"
    crawl.work(system, Event())
    assert lily("show", asked["id"])["state"] == "succeeded"
    scoped = lily("run", "ours", "--scope", "made://a", "--no-wait")
    assert lily("cancel", scoped["id"])["state"] == "cancelled"
    assert [item["id"] for item in lily("list", "ours")] == [scoped["id"], asked["id"]]
    lost = CliRunner().invoke(build(), ["crawl", "run", "nobody", *ends])
    assert "There is no connection nobody" in str(lost.exception)


def test_a_dbt_project_lands_with_its_lineage(
    core: Core, system: Core, boss: Person, corridor: Corridor
) -> None:
    folder = core.settings.home / "inbox" / boss.tenant.name / "dbt"
    shutil.copytree(EXAMPLES / "dbt", folder)
    options = {"path": str(folder), "namespace": "postgres://db:5432"}
    made = make(boss, "dbt", options=options).json()
    run = send(boss, "POST", f"{ROUTE}/{made['id']}/run").json()
    crawl.work(system, Event())
    run = send(boss, "GET", f"/api/v1/crawls/{run['id']}").json()
    assert (run["state"], run["error"]) == ("succeeded", "")
    corridor.run()
    query = {"qualified_name": "postgres://db:5432/shop.marts.dim%2Ecustomers"}
    mart = boss.client.get("/api/v1/metadata/by-name", params=query, headers=boss.headers).json()
    assert mart["metadata"]["depends_on"][1] == "postgres://db:5432/shop.staging.stg_customers"
    assert (mart["asset_owner"], mart["tags"]) == ("finance@example.com", ["daily", "mart"])
    columns = send(boss, "GET", f"/api/v1/metadata/{mart['guid']}/children").json()["items"]
    assert len(columns) == 3
    found = send(boss, "GET", "/api/v1/metadata/search?q=weekly+revenue").json()["items"]
    assert [item["asset_type"] for item in found] == ["dashboard"]


def test_schedules_are_checked_and_changed(boss: Person, estate: Estate) -> None:
    options = {"plan": str(estate.path)}
    wrong = make(boss, "test-made", options=options, schedule="now and then")
    assert wrong.status_code == 422 and wrong.json()["errors"][0]["field"] == "schedule"
    made = make(boss, "test-made", options=options, schedule="*/5 3-4 * * 1").json()
    path = f"{ROUTE}/{made['id']}"
    assert send(boss, "PATCH", path, {"schedule": "@daily"}).json()["schedule"] == "@daily"
    assert send(boss, "PATCH", path, {"schedule": "61 * * * *"}).status_code == 422
    hook = {"name": "h", "plugin": "classify", "uses": ["hook"], "schedule": "1h"}
    assert send(boss, "POST", ROUTE, hook).status_code == 422


def test_only_enabled_sources_run_and_only_for_those_who_may(
    core: Core, boss: Person, estate: Estate
) -> None:
    hook = {"name": "h", "plugin": "classify", "uses": ["hook"]}
    id = send(boss, "POST", ROUTE, hook).json()["id"]
    assert send(boss, "POST", f"{ROUTE}/{id}/run").status_code == 409
    made = make(boss, "test-made", options={"plan": str(estate.path)}, enabled=False).json()
    assert send(boss, "POST", f"{ROUTE}/{made['id']}/run").status_code == 409
    assert send(boss, "POST", f"{ROUTE}/{uuid4()}/run").status_code == 404
    steward = with_role(core, boss, "steward")
    assert send(steward, "POST", f"{ROUTE}/{made['id']}/run").status_code == 403
    assert send(steward, "GET", f"{ROUTE}/{made['id']}/runs").status_code == 200


def test_files_outside_of_the_tenants_folders_are_refused(core: Core, boss: Person) -> None:
    refused = make(boss, "files", options={"path": "/etc"})
    assert refused.status_code == 422 and "LILY_SOURCE_FOLDERS" in refused.text
    sneaky = core.settings.home / "inbox" / boss.tenant.name / ".." / "other"
    assert make(boss, "files", options={"path": str(sneaky)}).status_code == 422
    own = core.settings.home / "inbox" / boss.tenant.name / "daily"
    assert make(boss, "files", options={"path": str(own)}).status_code == 201


def test_a_table_is_in_lily_within_two_seconds_of_its_ddl(
    system: Core, server: Server, boss: Person, corridor: Corridor
) -> None:
    url = server.create_database(f"captured_{uuid4().hex[:6]}")
    base = f"postgres://localhost:5432/{psycopg.conninfo.conninfo_to_dict(url)['dbname']}.public"
    made = make(boss, "postgres", options={"url": url, "capture": True}).json()
    path, stop = f"{ROUTE}/{made['id']}", Event()

    def asset(name: str) -> Any:
        query = {"qualified_name": f"{base}.{name}"}
        return boss.client.get("/api/v1/metadata/by-name", params=query, headers=boss.headers)

    def seen(name: str, gone: bool = False) -> bool:
        corridor.run()
        answer = asset(name)
        return answer.status_code == 200 and answer.json()["is_deleted"] is gone

    threads = [Thread(target=loop, args=(system, stop)) for loop in (capture.run, crawl.run)]
    for thread in threads:
        thread.start()
    try:
        with psycopg.connect(url, autocommit=True) as ware:
            until(lambda: listening(ware))
            ware.execute("CREATE TABLE orders (id int, note text)")
            assert until(lambda: seen("orders#note")) < 2
            ware.execute("ALTER TABLE orders DROP COLUMN note, ADD COLUMN total numeric")
            assert until(lambda: seen("orders#total")) < 2
            assert seen("orders#note", gone=True)
            ware.execute("CREATE VIEW totals AS SELECT total FROM orders")
            assert until(lambda: seen("totals#total")) < 2
            ware.execute("COMMENT ON TABLE orders IS 'captured'")
            assert until(lambda: asset_says(corridor, asset, "orders", "captured")) < 2
            ware.execute("ALTER TABLE orders RENAME TO purchases")
            assert until(lambda: seen("purchases#id") and seen("orders", gone=True)) < 2
            ware.execute("DROP TABLE purchases CASCADE")
            assert until(lambda: seen("purchases", gone=True) and seen("totals", gone=True)) < 2
            kept = ware.execute("SELECT sql FROM lily_capture.event WHERE tag = 'CREATE VIEW'")
            assert "SELECT total FROM orders" in str(kept.fetchone())
            causes = {run["cause"] for run in send(boss, "GET", f"{path}/runs").json()["items"]}
            assert causes == {"capture"}
            send(boss, "PATCH", path, {"enabled": False})
            until(lambda: not installed(ware))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def asset_says(corridor: Corridor, asset: Callable[[str], Any], name: str, text: str) -> bool:
    corridor.run()
    return bool(asset(name).json().get("description") == text)


def listening(ware: psycopg.Connection) -> bool:
    found = ware.execute(
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%lily_capture.event%'"
        " AND application_name = 'lily capture' AND state = 'idle'"
        " AND datname = current_database()"
    )
    return found.fetchone() is not None


def installed(ware: psycopg.Connection) -> bool:
    found = ware.execute(
        "SELECT evtname FROM pg_event_trigger WHERE evtname LIKE 'lily%' UNION ALL"
        " SELECT nspname FROM pg_namespace WHERE nspname LIKE 'lily%'"
    )
    return found.fetchone() is not None


def test_capture_is_taken_out_when_its_connection_is_deleted(
    system: Core, server: Server, boss: Person
) -> None:
    url = server.create_database(f"captured_{uuid4().hex[:6]}")
    made = make(boss, "postgres", options={"url": url, "capture": True}).json()
    stop = Event()
    thread = Thread(target=capture.run, args=(system, stop))
    thread.start()
    try:
        with psycopg.connect(url, autocommit=True) as ware:
            until(lambda: listening(ware))
            assert installed(ware)
            assert send(boss, "DELETE", f"{ROUTE}/{made['id']}").status_code == 204
            until(lambda: not installed(ware), 15)
    finally:
        stop.set()
        thread.join()


def test_nothing_is_installed_that_nobody_asked_for(
    system: Core, server: Server, boss: Person
) -> None:
    url = server.create_database(f"plain_{uuid4().hex[:6]}")
    make(boss, "postgres", options={"url": url})
    crawl.work(system, Event())
    capture.Listening(system, Event()).step()
    with psycopg.connect(url, autocommit=True) as ware:
        assert not installed(ware)


def test_lag_tells_amounts_and_ages_of_ones_own_and_of_all(
    core: Core, system: Core, client: Client, boss: Person, corridor: Corridor
) -> None:
    other = admin(core, client)
    corridor.run()
    append(core, boss.tenant, AssetSeen(qualified_name="t"))
    corridor.run()
    append(core, boss.tenant, *(AssetSeen(qualified_name=f"t#c{n}") for n in range(3)))
    append(core, other.tenant, AssetSeen(qualified_name="t#c1"), AssetSeen(qualified_name="t"))
    lanes = {each["lane"]: each for each in send(boss, "GET", "/api/v1/lag").json()["lanes"]}
    assert (lanes["fields"]["own"]["waiting"], lanes["fields"]["all"]["waiting"]) == (3, 4)
    assert (lanes["core"]["own"]["waiting"], lanes["core"]["all"]["waiting"]) == (0, 1)
    assert lanes["core"]["own"]["oldest_waiting_seconds"] is None
    assert 0 <= lanes["core"]["own"]["newest_applied_seconds"] < 60
    assert 0 <= lanes["fields"]["own"]["oldest_waiting_seconds"] < 60
    fresh = send(boss, "GET", "/api/v1/metadata/t/freshness").json()
    assert (fresh["fields_waiting"], fresh["complete"], fresh["lane"]) == (3, False, "core")
    assert send(boss, "GET", "/api/v1/metadata/t/children").json()["fields_waiting"] == 3
    told = lag.work(system, set())
    assert f'lily_tenant_waiting{{lane="fields",tenant="{boss.tenant.name}"}} 3.0' in metrics()
    corridor.run()
    fresh = send(boss, "GET", "/api/v1/metadata/t/freshness").json()
    assert (fresh["fields_waiting"], fresh["complete"]) == (0, True)
    assert len(send(boss, "GET", "/api/v1/metadata/t/children").json()["items"]) == 3
    lanes = {each["lane"]: each for each in send(boss, "GET", "/api/v1/lag").json()["lanes"]}
    assert lanes["fields"]["own"]["waiting"] == lanes["fields"]["all"]["waiting"] == 0
    lag.work(system, told)
    assert f'lily_tenant_waiting{{lane="fields",tenant="{boss.tenant.name}"}} 0.0' in metrics()
    assert 'lily_log_lag_seconds{cell="home",lane="core"} 0.0' in metrics()


def metrics() -> str:
    return exposition().decode()
