"""A tenant with its admin, logged in."""

from uuid import uuid4

import msgspec
from httpx import Client

from lily.identity import passwords
from lily.identity.actor import Actor
from lily.store import tenants
from lily.types import Tenant
from lily.wiring import Core

PASSWORD = "correct horse 1"
HASHED = passwords.hashed(PASSWORD)


class Person(msgspec.Struct):
    """Who asks, with the header that proves it."""

    tenant: Tenant
    client: Client
    headers: dict[str, str]


def admin(core: Core, client: Client) -> Person:
    name = f"t-{uuid4().hex[:8]}"
    root = tenants.Admin("root", HASHED, platform=False)
    tenant = tenants.create(core.database, core.clock, name, root, Actor("test", "test"))
    return Person(tenant, client, _login(client, name, "root"))


def with_role(boss: Person, role: str) -> Person:
    body = {"username": role, "password": PASSWORD, "role": role}
    made = boss.client.post("/api/v1/users", json=body, headers=boss.headers)
    assert made.status_code == 201, made.text
    return Person(boss.tenant, boss.client, _login(boss.client, boss.tenant.name, role))


def _login(client: Client, tenant: str, username: str) -> dict[str, str]:
    body = {"username": username, "password": PASSWORD, "tenant": tenant}
    answer = client.post("/api/v1/auth/login", json=body)
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}
