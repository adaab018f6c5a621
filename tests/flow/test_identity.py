"""Logging in, tokens, and what ends them."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from httpx import Client

from lily.api.app import create_app
from lily.identity import passwords
from lily.identity.actor import Actor
from lily.store import tenants
from lily.types import Tenant
from lily.wiring import Core, services
from tests.serving import serving

PASSWORD = "correct horse 1"
HASHED = passwords.hashed(PASSWORD)


@pytest.fixture(scope="module")
def client(core: Core) -> Iterator[Client]:
    with serving(create_app(services(core))) as built:
        yield built


@pytest.fixture
def own(core: Core) -> Tenant:
    admin = tenants.Admin("root", HASHED, platform=True)
    return tenants.create(core.database, core.clock, f"t-{uuid4().hex[:8]}", admin, Actor("t", "t"))


def login(client: Client, tenant: str, username: str = "root") -> dict[str, str]:
    body = {"username": username, "password": PASSWORD, "tenant": tenant}
    answer = client.post("/api/v1/auth/login", json=body)
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


def test_smoke(client: Client, own: Tenant) -> None:
    me = login(client, own.name)
    print(client.get("/api/v1/auth/validate", headers=me).json())
    print(client.get("/api/v1/users", headers=me).json())
    print(client.get("/api/v1/users/x%2Fy", headers=me).json())
    print(client.get("/api/v1/tenants", headers=me).json())
    print(client.get(f"/api/v1/tenants/{own.name}", headers=me).json())
    print(client.get("/nope").json(), client.put("/healthz").json())
    print(client.get("/readyz").json(), client.get("/.well-known/jwks.json").json())
    h = {**me, "Idempotency-Key": "k"}
    a = client.post("/api/v1/tokens", headers=h, json={"name": "x"})
    b = client.post("/api/v1/tokens", headers=h, json={"name": "x"})
    print(a.json(), b.headers)
    assert a.json() == b.json()
    print(client.post("/api/v1/tokens", headers=h, json={"name": "xy"}).json())
    assert client.post("/api/v1/auth/logout", headers=me).status_code == 204
    assert client.get("/api/v1/auth/validate", headers=me).status_code == 401
    assert len(client.get("/openapi.json").json()["paths"]) > 10
    assert client.get("/metrics").status_code == 200
