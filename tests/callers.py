"""Tenants with people, and tokens for callers, without the cost of logging in."""

from typing import Any
from uuid import UUID, uuid4

from httpx import Client

from lily.clock import micros
from lily.identity import jwt, passwords
from lily.identity.actor import Actor
from lily.store import people, tenants
from lily.store.desk import desk
from lily.types import Tenant
from lily.wiring import Core, Services

PASSWORD = "correct horse 1"
HASHED = passwords.hashed(PASSWORD)
TESTER = Actor("tester", "test")


def tenant_with_admin(core: Core, platform: bool = False) -> Tenant:
    """A fresh tenant whose admin `root` has the password above."""
    admin = tenants.Admin("root", HASHED, platform)
    return tenants.create(core.database, core.clock, f"t-{uuid4().hex[:10]}", admin, TESTER)


def person(core: Core, tenant: Tenant, username: str, role: str) -> people.Person:
    with desk(core.database, core.clock, tenant, TESTER) as work:
        return people.create(work, username, username, role, HASHED)


def claims(services: Services, tenant: Tenant, role: str = "admin", **other: Any) -> jwt.Claims:
    """Of somebody who is logged in; `other` changes single claims."""
    now = services.core.clock.now()
    given: dict[str, Any] = {
        "iss": services.identity.keys.signing().issuer,
        "aud": jwt.AUDIENCE,
        "exp": int(now.timestamp()) + 600,
        "nbf": int(now.timestamp()),
        "iat": int(now.timestamp()),
        "lat": micros(now),
        "jti": uuid4(),
        "sid": uuid4(),
        "sub": uuid4(),
        "tenant": tenant.id,
        "role": role,
        "name": f"some {role}",
    }
    return jwt.Claims(**{**given, **other})


def minted(services: Services, tenant: Tenant, role: str = "admin", **other: Any) -> str:
    """A good token for a role."""
    return jwt.sign(claims(services, tenant, role, **other), services.identity.keys.signing())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def log_in(client: Client, tenant: Tenant, username: str = "root") -> dict[str, Any]:
    body = {"username": username, "password": PASSWORD, "tenant": tenant.name}
    answer = client.post("/api/v1/auth/login", json=body)
    assert answer.status_code == 200, answer.text
    grant: dict[str, Any] = answer.json()
    return grant


def logged_in(client: Client, tenant: Tenant, username: str = "root") -> dict[str, str]:
    return bearer(log_in(client, tenant, username)["access_token"])


def subject_of(client: Client, headers: dict[str, str]) -> UUID:
    return UUID(client.get("/api/v1/auth/validate", headers=headers).json()["subject"])
