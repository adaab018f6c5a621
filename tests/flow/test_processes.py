"""Several API processes are one: what was begun at one of them goes on at another."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from httpx import Client
from websockets.asyncio.client import connect

from lily.api.app import create_app
from lily.types import Tenant
from lily.wiring import Core, services
from tests.callers import logged_in, tenant_with_admin
from tests.flow.apply import seen
from tests.serving import serving

PATIENCE = 30


@pytest.fixture(scope="module")
def two(core: Core) -> Iterator[tuple[Client, Client]]:
    """Each with services of its own, as in a process of its own."""
    with (
        serving(create_app(services(core))) as one,
        serving(create_app(services(core))) as other,
    ):
        yield one, other


@pytest.fixture
def tenant(core: Core) -> Tenant:
    return tenant_with_admin(core)


def test_an_answer_to_a_key_is_given_again_by_another_process(
    two: tuple[Client, Client], tenant: Tenant
) -> None:
    one, other = two
    headers = {**logged_in(one, tenant), "Idempotency-Key": "at-both"}
    body = {"username": "anna", "password": "correct horse 1"}
    first = one.post("/api/v1/users", headers=headers, json=body)
    again = other.post("/api/v1/users", headers=headers, json=body)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content


def test_a_follower_goes_on_at_another_process(
    two: tuple[Client, Client], tenant: Tenant, system: Core
) -> None:
    one, other = two
    headers = logged_in(one, tenant)

    async def next_at(client: Client, query: str, name: str) -> int:
        base = str(client.base_url).replace("http://", "ws://").rstrip("/")
        url = f"{base}/ws/notifications?facts=AssetCreated&{query}"
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            told = {"type": "hello"}
            while told["type"] != "update":
                told = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))
                if told["type"] == "hello":
                    seen(system, tenant, name)
        assert told["qualified_name"] == name
        return int(told["position"])

    position = asyncio.run(next_at(one, "", "a"))
    assert asyncio.run(next_at(other, f"after={position}", "b")) > position
