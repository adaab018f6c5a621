"""The feed over HTTP: in order, without gaps, live, and verified."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import psycopg
import pytest
from httpx import Client

from lily.clock import SystemClock
from lily.events.facts import Fact
from lily.store import feed
from lily.types import Tenant
from lily.wiring import Core, Services
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import seen


class Follower:
    def __init__(self, wired: Services, client: Client, tenant: Tenant, role: str) -> None:
        self.tenant = tenant
        self._client = client
        self._headers = bearer(minted(wired, tenant, role))

    def page(self, path: str = "", **query: Any) -> Any:
        answer = self._client.get(f"/api/v1/changes{path}", params=query, headers=self._headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def status(self, **query: Any) -> int:
        answer = self._client.get("/api/v1/changes", params=query, headers=self._headers)
        return answer.status_code


@pytest.fixture
def follower(core: Core, wired: Services, client: Client) -> Follower:
    return Follower(wired, client, tenant_with_admin(core), "admin")


def test_pages_follow_each_other_and_end_at_the_head(system: Core, follower: Follower) -> None:
    start = follower.page(after="now")["next"]
    for number in range(7):
        seen(system, follower.tenant, f"asset-{number}")
    first = follower.page(after=start, limit=5)
    second = follower.page(after=first["next"], limit=5)
    names = [fact["qualified_name"] for fact in first["items"] + second["items"]]
    assert names == [f"asset-{number}" for number in range(7)]
    assert follower.page(after=second["next"]) == {"items": [], "next": second["next"]}


def test_a_viewer_sees_assets_but_not_who_logs_in(
    core: Core, system: Core, wired: Services, client: Client, follower: Follower
) -> None:
    seen(system, follower.tenant, "a")
    viewer = Follower(wired, client, follower.tenant, "viewer")
    everything = {fact["kind"] for fact in follower.page()["items"]}
    assert {"TenantCreated", "UserCreated", "AssetCreated"} <= everything
    assert {fact["kind"] for fact in viewer.page()["items"]} == {"AssetCreated"}
    assert viewer.page(kinds="UserCreated")["items"] == []
    assert viewer.page()["next"] == follower.page()["next"]


def test_facts_are_filtered_by_kind_and_asset(system: Core, follower: Follower) -> None:
    for name in ("a", "b"):
        seen(system, follower.tenant, name)
        seen(system, follower.tenant, name, description="new")
    only = follower.page(kinds="AssetChanged", asset_id="b")
    assert [(f["kind"], f["qualified_name"]) for f in only["items"]] == [("AssetChanged", "b")]
    assert only["next"] == follower.page()["next"]
    assert follower.status(kinds="Nonsense") == 422
    assert follower.status(after="-1") == 422
    assert follower.status(wait=31) == 422
    assert follower.status(asset_id="nobody") == 404


def test_a_waiting_reader_is_answered_when_something_happens(
    system: Core, follower: Follower
) -> None:
    position = follower.page(after="now")["next"]
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(follower.page, after=position, wait=20) for _ in range(8)]
        seen(system, follower.tenant, "a")
        began = time.monotonic()
        pages = [each.result(20) for each in waiting]
    assert all([f["qualified_name"] for f in page["items"]] == ["a"] for page in pages)
    assert time.monotonic() - began < 5


def test_a_reader_who_waits_in_vain_gets_an_empty_page(system: Core, follower: Follower) -> None:
    position = follower.page(after="now")["next"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(follower.page, after=position, wait=1, kinds="AssetPurged")
        seen(system, follower.tenant, "a")
        page = waiting.result(10)
    assert page["items"] == []
    assert int(page["next"]) == int(position) + 1


def test_a_tenant_never_hears_of_another(
    core: Core, system: Core, wired: Services, client: Client, follower: Follower
) -> None:
    other = Follower(wired, client, tenant_with_admin(core), "admin")
    position = other.page(after="now")["next"]
    seen(system, follower.tenant, "secret")
    assert other.page(after=position, wait=0.5) == {"items": [], "next": position}


def test_eight_writers_and_a_reader_who_sees_every_fact_once(
    core: Core, follower: Follower
) -> None:
    start = follower.page(after="now")["next"]

    def write(writer: int) -> None:
        for turn in range(25):
            with core.database.unit(follower.tenant) as unit:
                at = SystemClock().now()
                facts = [
                    Fact(kind="AssetChanged", at=at, by="w", cause=f"{writer}-{turn}-{n}")
                    for n in range(2)
                ]
                feed.record(unit, facts)

    threads = [Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    causes: list[str] = []
    positions: list[int] = []
    after = start
    while len(causes) < 400:
        page = follower.page(after=after, wait=10, limit=30)
        assert page["items"], "nobody writes any more, and something is missing"
        causes += [fact["cause"] for fact in page["items"]]
        positions += [fact["position"] for fact in page["items"]]
        after = page["next"]
    for thread in threads:
        thread.join()
    assert positions == list(range(int(start) + 1, int(start) + 401))
    assert set(causes) == {f"{w}-{t}-{n}" for w in range(8) for t in range(25) for n in range(2)}
    assert follower.page("/verify")["verified"] is True


@pytest.mark.parametrize(
    ("damage", "where", "reason"),
    [
        ("UPDATE lily.fact SET payload = replace(payload, 'fact-3', 'fact-x')", 3, "payload"),
        ("DELETE FROM lily.fact", 3, "missing"),
        ("UPDATE lily.fact SET at = at + interval '1 second'", 3, "does not follow"),
    ],
)
def test_a_damaged_feed_names_the_place(
    home: str, core: Core, follower: Follower, damage: str, where: int, reason: str
) -> None:
    assert follower.page("/verify")["verified"] is True
    base = int(follower.page(after="now")["next"])
    with core.database.unit(follower.tenant) as unit:
        now = SystemClock().now()
        feed.record(
            unit,
            [Fact(kind="AssetChanged", at=now, by="w", cause=f"fact-{n}") for n in range(1, 6)],
        )
    with psycopg.connect(home) as conn:
        conn.execute(
            f"{damage} WHERE tenant = %s AND position = %s", [follower.tenant.number, base + where]
        )
    verdict = follower.page("/verify")
    assert (verdict["verified"], verdict["broken_at"]) == (False, base + where)
    assert reason in verdict["reason"]
