"""The live feed: in order, without gap or double, for whoever may hear it, and only that."""

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import AsyncClient, Client
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from lily.api.app import create_app
from lily.api.live import hub
from lily.api.serve import serve
from lily.clock import SystemClock
from lily.events.observations import AssetSeen
from lily.settings import Settings
from lily.types import Tenant
from lily.wiring import Core, Services
from lily.wiring import core as build_core
from tests.callers import minted, tenant_with_admin
from tests.conftest import new_tenant
from tests.flow.apply import apply, gone, read, seen
from tests.flow.corridor import Corridor
from tests.serving import serving

PATIENCE = 10


@pytest.fixture(scope="module")
def app(wired: Services) -> FastAPI:
    return create_app(wired)


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[Client]:
    with serving(app) as client:
        yield client


class Ear:
    """Sockets of one tenant."""

    def __init__(self, wired: Services, client: Client, tenant: Tenant, live: hub.Live) -> None:
        self.live = live
        self.wired = wired
        self.tenant = tenant
        self.base = str(client.base_url).replace("http://", "ws://").rstrip("/")

    def token(self, role: str = "admin", **claims: Any) -> str:
        return minted(self.wired, self.tenant, role, **claims)

    def open(self, query: str = "", role: str = "admin", path: str = "notifications") -> connect:
        headers = {"Authorization": f"Bearer {self.token(role)}"}
        return connect(f"{self.base}/ws/{path}?{query}", additional_headers=headers, proxy=None)


@pytest.fixture
def ear(core: Core, wired: Services, client: Client, app: FastAPI) -> Ear:
    return Ear(wired, client, tenant_with_admin(core), app.state.live)


async def heard(socket: ClientConnection) -> Any:
    return json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))


async def updates(socket: ClientConnection, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        message = await heard(socket)
        if message["type"] == "update":
            found.append(message)
    return found


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def test_changes_come_as_they_happen_in_the_documents_shape(system: Core, ear: Ear) -> None:
    async def work() -> None:
        async with ear.open() as socket:
            assert (await heard(socket))["type"] == "hello"
            seen(system, ear.tenant, "a", asset_type="table", asset_id="own")
            seen(system, ear.tenant, "a", asset_type="table", asset_id="own", description="x")
            gone(system, ear.tenant, "a")
            told = await updates(socket, 3)
            assert [each["change"] for each in told] == ["created", "updated", "deleted"]
            first = told[0]
            assert (first["metadata_id"], first["entity_type"]) == ("own", "table")
            assert first["timestamp"] and first["position"] < told[1]["position"]

    run(work)


def test_a_follower_resumes_without_gap_or_double(system: Core, ear: Ear) -> None:
    for number in range(14):
        seen(system, ear.tenant, f"asset-{number}")

    async def work() -> None:
        names: list[str] = []
        position = 0
        for _ in range(4):
            async with ear.open(f"after={position}&facts=AssetCreated") as socket:
                for told in await updates(socket, 3):
                    names.append(told["qualified_name"])
                    position = told["position"]
            seen(system, ear.tenant, f"asset-{len(names) + 11}")
        async with ear.open(f"after={position}&facts=AssetCreated") as socket:
            seen(system, ear.tenant, "the end")
            while names[-1] != "the end":
                names.append((await updates(socket, 1))[0]["qualified_name"])
        assert len(names) == len(set(names))
        assert set(names) >= {f"asset-{number}" for number in range(14)}

    run(work)


def test_many_sockets_hear_the_same_from_one_reader(system: Core, ear: Ear) -> None:
    async def work() -> None:
        sockets = [await ear.open() for _ in range(50)]
        try:
            for socket in sockets:
                await heard(socket)
            for number in range(5):
                seen(system, ear.tenant, f"n{number}")
            heard_by = [await updates(socket, 5) for socket in sockets]
            assert all([u["qualified_name"] for u in each] == [f"n{n}" for n in range(5)]
                       for each in heard_by)  # fmt: skip
            readers = [eyes for eyes in ear.live._streams if eyes[0] == ear.tenant.number]
            assert readers == [(ear.tenant.number, ear.tenant.cell, "")]
        finally:
            await asyncio.gather(*(socket.close() for socket in sockets))

    run(work)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("facts=AssetDeleted", ["db/two"]),
        ("change=created", ["db/one", "db/two", "other"]),
        ("under=db", ["db/one", "db/two", "db/two"]),
        ("asset_id=own", ["db/one"]),
        ("entity_type=view", ["db/two", "db/two"]),
        ("tag=PII", ["other"]),
    ],
)
def test_filters(system: Core, ear: Ear, query: str, wanted: list[str]) -> None:
    seen(system, ear.tenant, "db/one", asset_id="own", asset_type="table")
    seen(system, ear.tenant, "db/two", asset_type="view")
    seen(system, ear.tenant, "other", tags=["PII"])
    gone(system, ear.tenant, "db/two")

    async def work() -> None:
        async with ear.open(f"after=0&{query}") as socket:
            found = await updates(socket, len(wanted))
            assert [each["qualified_name"] for each in found] == wanted
            await socket.send(json.dumps({"type": "ping"}))
            assert (await heard(socket))["type"] == "pong"

    run(work)


def test_filters_can_be_changed_and_mistakes_are_named(system: Core, ear: Ear) -> None:
    async def work() -> None:
        async with ear.open("facts=AssetDeleted") as socket:
            await heard(socket)
            for wrong, field in (({"facts": ["Odd"]}, "facts"), ({"colour": 1}, "colour")):
                await socket.send(json.dumps({"type": "subscribe", **wrong}))
                assert (await heard(socket))["errors"][0]["field"] == field
            await socket.send("[")
            assert (await heard(socket))["type"] == "error"
            await socket.send(json.dumps({"type": "subscribe", "under": "mine", "after": 0}))
            assert (await heard(socket))["type"] in ("subscribed", "heartbeat")
            seen(system, ear.tenant, "mine/a")
            assert [u["qualified_name"] for u in await updates(socket, 1)] == ["mine/a"]

    run(work)


def test_nobody_gets_in_without_the_right(ear: Ear) -> None:
    async def status(token: str | None, path: str) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with connect(
                f"{ear.base}/ws/{path}", additional_headers=headers, proxy=None
            ) as socket:
                if token is None:
                    await socket.send(json.dumps({"type": "auth", "token": "wrong"}))
                while True:
                    await asyncio.wait_for(socket.recv(), PATIENCE)
        except InvalidStatus as refused:
            return refused.response.status_code
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 0

    async def work() -> None:
        assert await status("wrong", "notifications") == 401
        assert await status(ear.token("ingester"), "notifications") == 403
        assert await status(ear.token("viewer"), "ingest") == 403
        assert await status(None, "notifications") == 4401

    run(work)


def test_a_browser_proves_itself_with_its_first_message(system: Core, ear: Ear) -> None:
    async def work() -> None:
        async with connect(f"{ear.base}/ws/notifications", proxy=None) as socket:
            await socket.send(json.dumps({"type": "auth", "token": ear.token("viewer")}))
            assert (await heard(socket))["type"] == "hello"

    run(work)


def test_a_viewer_hears_of_assets_and_not_of_logins(system: Core, ear: Ear) -> None:
    seen(system, ear.tenant, "a")

    async def work() -> None:
        async with ear.open("after=0", "viewer") as socket:
            assert (await updates(socket, 1))[0]["kind"] == "AssetCreated"
        async with ear.open("after=0", "admin") as socket:
            assert (await updates(socket, 1))[0]["kind"] == "TenantCreated"

    run(work)


def test_another_tenant_hears_nothing(core: Core, system: Core, wired: Services, ear: Ear) -> None:
    other = new_tenant(core)

    async def work() -> None:
        async with ear.open("after=0&facts=AssetCreated") as socket:
            await heard(socket)
            seen(system, other, "foreign")
            seen(system, ear.tenant, "own")
            assert (await updates(socket, 1))[0]["qualified_name"] == "own"

    run(work)


def test_whoever_may_no_longer_hear_is_cut(
    core: Core, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = int((SystemClock().now() + timedelta(seconds=2)).timestamp())
    token = ear.token(exp=end)

    async def work() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(
            f"{ear.base}/ws/notifications", additional_headers=headers, proxy=None
        ) as socket:
            assert (await heard(socket))["type"] == "hello"
            assert (await heard(socket))["type"] == "unauthenticated"
            with pytest.raises(ConnectionClosed) as closed:
                await heard(socket)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401

    run(work)


def test_who_does_not_keep_up_is_told_and_cut(
    system: Core, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "BEHIND", 3)

    async def work() -> None:
        async with ear.open() as socket:
            position = (await heard(socket))["position"]
            follower = next(iter(ear.live._followers))
            while follower.stream is None:
                await asyncio.sleep(0.01)
            # Five at once are more than may wait.
            apply(system, ear.tenant, [AssetSeen(qualified_name=f"b{n}") for n in range(5)])
            told = await heard(socket)
            assert (told["type"], told["position"]) == ("slow", position)
            with pytest.raises(ConnectionClosed) as closed:
                await heard(socket)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
        async with ear.open(f"after={position}&facts=AssetCreated") as socket:
            assert len(await updates(socket, 5)) == 5

    run(work)


def test_server_sent_events_carry_the_position_as_their_id(
    system: Core, ear: Ear, client: Client
) -> None:
    seen(system, ear.tenant, "a")
    headers = {"Authorization": f"Bearer {ear.token()}", "Accept": "text/event-stream"}
    with client.stream("GET", "/api/v1/changes?after=0&kinds=AssetCreated", headers=headers) as all:
        assert all.headers["content-type"].startswith("text/event-stream")
        first = _event(all.iter_lines())
    assert json.loads(first["data"])["qualified_name"] == "a"
    seen(system, ear.tenant, "b")
    headers["Last-Event-ID"] = first["id"]
    with client.stream("GET", "/api/v1/changes?kinds=AssetCreated", headers=headers) as rest:
        second = _event(rest.iter_lines())
    assert json.loads(second["data"])["qualified_name"] == "b"
    assert int(second["id"]) > int(first["id"])
    del headers["Authorization"]
    assert client.get("/api/v1/changes", headers=headers).status_code == 401


def _event(lines: Iterator[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in found:
                return found
            found = {}
        name, _, value = line.partition(": ")
        found[name] = value
    raise AssertionError("the stream ended")


def test_observations_are_acknowledged_once_they_are_durable(
    core: Core, corridor: Corridor, ear: Ear
) -> None:
    async def work() -> None:
        async with ear.open(role="ingester", path="ingest") as socket:
            await socket.send(json.dumps({"asset_id": "one", "asset_type": "table"}))
            assert (await heard(socket))["accepted"] == 1
            await socket.send(json.dumps({"ref": 7, "asset": {"asset_id": "two"}}))
            told = await heard(socket)
            assert (told["type"], told["ref"]) == ("ack", 7)
            batch = {"ref": "x", "assets": [{"asset_id": "three"}, {"asset_name": 5}]}
            await socket.send(json.dumps(batch))
            told = await heard(socket)
            assert [each["outcome"] for each in told["items"]] == ["accepted", "rejected"]
            await socket.send(json.dumps({"asset": {"asset_name": 5}, "ref": 8}))
            told = await heard(socket)
            assert (told["type"], told["ref"], told["errors"][0]["field"]) == (
                "error", 8, "asset_name",
            )  # fmt: skip
            await socket.send("not json")
            assert (await heard(socket))["type"] == "error"

    run(work)
    corridor.run()
    assert [read(core, ear.tenant, name).asset_id for name in ("one", "two", "three")] == [
        "one", "two", "three",
    ]  # fmt: skip


def test_a_process_that_stops_says_so_and_does_not_wait_for_followers(
    settings: Settings, core: Core, wired: Services
) -> None:
    tenant = tenant_with_admin(core)
    own = build_core(settings, "lily_app")
    listener, stop = socket.create_server(("127.0.0.1", 0)), Event()
    thread = Thread(target=serve, args=(own, listener, stop), name="serve")
    thread.start()
    url = f"127.0.0.1:{listener.getsockname()[1]}"
    headers = {"Authorization": f"Bearer {minted(wired, tenant)}"}

    async def work() -> None:
        async with (
            connect(f"ws://{url}/ws/notifications", additional_headers=headers, proxy=None) as ear,
            AsyncClient(trust_env=False, timeout=30) as client,
        ):
            assert (await heard(ear))["type"] == "hello"
            accept = {**headers, "Accept": "text/event-stream"}
            async with client.stream("GET", f"http://{url}/api/v1/changes", headers=accept) as feed:
                lines = feed.aiter_lines()
                assert (await anext(lines)).startswith("retry")
                stop.set()
                assert "event: restart" in [line async for line in lines]
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await heard(ear)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012

    try:
        run(work)
    finally:
        stop.set()
        thread.join(30)
        own.close()
    assert not thread.is_alive()
