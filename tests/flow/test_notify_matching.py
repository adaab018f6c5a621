"""Subscriptions to parts of the estate: below a container, downstream, and for owners there."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from threading import Event, Thread
from typing import Any

import msgspec
import pytest

from lily.notify import egress
from lily.store import inbox
from lily.store.database import SIGHT
from lily.store.sweep import sweep
from lily.types import Tenant
from lily.wiring import Core
from lily.workers import match
from lily.workers.deliver import Engine
from lily.workers.wire import Wire
from tests.flow.apply import seen
from tests.flow.lineage import guid, join, tell
from tests.flow.notifying import Stage, staged
from tests.vendors.server import Scripted, running


@pytest.fixture
def stage(core: Core, system: Core, tenant: Tenant) -> Iterator[Stage]:
    with staged(core, system, tenant) as made:
        yield made


def titles(stage: Stage, recipient: str = "root") -> list[str]:
    with stage.core.database.unit(stage.tenant) as unit:
        found = inbox.page(unit, recipient, None, 100, False)
    return [each.content["title"] for each in found][::-1]


def about(stage: Stage, name: str, kind: str = "AssetDeleted", **more: Any) -> None:
    stage.happen(kind, guid=guid(stage.tenant, name), qualified_name=name, **more)


def test_below_a_container_at_any_depth(stage: Stage) -> None:
    system, tenant = stage.system, stage.tenant
    for name, parent in (("db", None), ("schema", "db"), ("table", "schema"), ("other", None)):
        seen(system, tenant, name, asset_name=name, parent_id=parent)
    stage.subscribe(None, ["AssetDeleted"], under=guid(tenant, "db"))
    for name in ("table", "other", "db"):
        about(stage, name)
    stage.match()
    assert titles(stage) == ["table was deleted", "db was deleted"]


def test_downstream_of_an_asset_so_far_and_no_further(stage: Stage) -> None:
    system, tenant = stage.system, stage.tenant
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        seen(system, tenant, name, asset_name=name, asset_owner=f"owner of {name}")
    for x, y in pairwise(names):
        tell(system, tenant, join(x, y))
    stage.match()
    stage.subscribe(None, ["AssetDeleted"], downstream_of=guid(tenant, "a"), depth=3)
    for name in names:
        about(stage, name)
    stage.match()
    assert titles(stage) == ["b was deleted", "c was deleted", "d was deleted"]


def test_owners_downstream_find_it_in_their_inbox(stage: Stage) -> None:
    system, tenant = stage.system, stage.tenant
    for name in ("a", "b", "c", "d"):
        seen(system, tenant, name, asset_name=name, asset_owner=f"owner of {name}")
    for x, y in pairwise("abcd"):
        tell(system, tenant, join(x, y))
    stage.match()
    wanted: dict[str, Any] = {"asset_id": guid(tenant, "a"), "owners_downstream": 2}
    stage.subscribe(None, ["AssetDeleted"], **wanted)
    about(stage, "a")
    stage.match()
    told = [name for name in ("a", "b", "c", "d") if titles(stage, f"owner of {name}")]
    assert told == ["b", "c"]
    assert titles(stage) == ["a was deleted"]


def test_two_that_follow_the_same_feed_make_each_notice_once(stage: Stage) -> None:
    stage.subscribe(None, ["AssetDeleted"])
    stage.happen("AssetDeleted", count=1500)
    threads = [Thread(target=match.work, args=[stage.system, Event()]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stage.match()
    with stage.core.database.unit(stage.tenant) as unit:
        row = unit.conn.execute("SELECT count(*), count(DISTINCT position) FROM notice").fetchone()
    assert row == (1500, 1500)


def test_two_processes_send_each_notice_once_and_a_hanging_one_holds_up_nobody(
    stage: Stage,
) -> None:
    with running(Hanging()) as bad, running(Scripted(200)) as good:
        stage.subscribe(stage.webhook(bad.url))
        stage.subscribe(stage.webhook(good.url))
        stage.happen(count=120)
        stage.match()
        threads = [Thread(target=stage.deliver, args=[6]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ids = [headers["webhook-id"] for _, _, headers, _ in good.calls]
        assert len(ids) == len(set(ids)) == 120
        assert len(bad.calls) <= 32
        reasons = {sent.reason for sent in stage.deliveries(state="waiting")}
        assert reasons == {"", "no answer within 2 s"}


class Hanging(Scripted):
    def __init__(self) -> None:
        super().__init__(200)

    async def answer(self, request: Any, body: bytes) -> Any:
        await asyncio.sleep(30)
        return await super().answer(request, body)


def test_what_was_told_long_ago_is_swept_and_what_is_still_tried_stays(stage: Stage) -> None:
    with running(Scripted(200)) as good, running(Scripted(500)) as bad:
        stage.subscribe(stage.webhook(good.url))
        stage.subscribe(stage.webhook(bad.url))
        stage.happen()
        stage.tell()
        with stage.system.database.cell(stage.tenant.cell, [stage.tenant.number]) as conn:
            conn.execute("UPDATE notice SET at = now() - interval '91 days'")
        sweep(stage.system.database)
        assert [sent.state for sent in stage.deliveries()] == ["waiting"]
        with stage.core.database.unit(stage.tenant) as unit:
            rows = unit.conn.execute("SELECT count(*) FROM delivery_attempt").fetchall()
            kept = unit.conn.execute("SELECT count(*) FROM notice").fetchall()
        assert (rows, kept) == ([(1,)], [(1,)])


def test_a_worker_that_stops_leaves_nothing_claimed_behind(stage: Stage) -> None:
    with running(Hanging()) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen(count=20)
        stage.match()

        async def play() -> None:
            wire = Wire(egress.networks(stage.allowed))
            engine = Engine(stage.system, wire)
            engine.start(await engine.claim())
            await asyncio.sleep(0.2)
            await engine.finish(0.1)
            await wire.close()

        asyncio.run(play())
        found = stage.deliveries()
        assert {sent.state for sent in found} == {"waiting"}
        begun = [sent for sent in found if sent.tries]
        assert len(begun) == 16 and all("ended" in sent.reason for sent in begun)


def test_a_notice_of_an_asset_that_somebody_may_not_see_is_not_there_for_them(stage: Stage) -> None:
    for name in ("open", "closed"):
        seen(stage.system, stage.tenant, name, asset_name=name)
    stage.subscribe(None, ["AssetDeleted"])
    for name in ("open", "closed"):
        about(stage, name)
    stage.match()
    hidden = [str(guid(stage.tenant, "closed"))]
    none: dict[str, Any] = {"everything": False, "assets": [], "types": [], "under": [], "tags": []}
    sight = {"allowed": {**none, "everything": True}, "denied": {**none, "assets": hidden}}
    token = SIGHT.set(msgspec.json.encode(sight).decode())
    try:
        assert titles(stage) == ["open was deleted"]
        with stage.core.database.unit(stage.tenant) as unit:
            assert inbox.unread(unit, "root") == 1
    finally:
        SIGHT.reset(token)
    assert len(titles(stage)) == 2
