"""The table of roles and what every route really does are the same."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from fastapi import FastAPI
from httpx import Client
from starlette.routing import Route, WebSocketRoute

from lily.api.app import create_app
from lily.api.deps import Requires, requirement_of
from lily.identity.roles import ROLES, SCOPES, scopes_of
from lily.types import Tenant
from lily.wiring import Core, Services, services
from tests.callers import bearer, minted, tenant_with_admin
from tests.serving import serving

PUBLIC = {
    "/healthz",
    "/readyz",
    "/metrics",
    "/docs",
    "/docs/oauth2-redirect",
    "/openapi.json",
    "/api/v1/auth/login",
    "/oauth/token",
    "/.well-known/jwks.json",
    "/.well-known/openid-configuration",
    "/n/ack",  # the link itself is the proof
}
# Tools prove each call themselves; an engine's address cannot be guessed.
PUBLIC_PREFIXES = ("/schemas", "/webhook", "/engine", "/api/v1/auth/oidc")
# Known to be somebody is enough: who one is, leaving, one's own password.
ANYBODY = {"/api/v1/auth/logout", "/api/v1/auth/validate", "/api/v1/users/me/password"}

CALLERS = [*((role, False) for role in ROLES), ("admin", True)]


@pytest.fixture(scope="module")
def built(core: Core) -> Services:
    return services(core)


@pytest.fixture(scope="module")
def app(built: Services) -> FastAPI:
    return create_app(built)


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[Client]:
    with serving(app) as client:
        yield client


@pytest.fixture(scope="module")
def home_tenant(core: Core) -> Tenant:
    return tenant_with_admin(core)


def requests(app: FastAPI) -> Iterator[tuple[str, str, Requires | None]]:
    """Every method of every route, with what it declares."""
    for route in app.routes:
        if isinstance(route, WebSocketRoute):
            continue  # who may open one is in tests/flow/test_live.py
        assert isinstance(route, Route), f"{route} is not covered by this test"
        for method in sorted((route.methods or set()) - {"HEAD", "OPTIONS"}):
            yield method, route.path, requirement_of(route)


def send(client: Client, method: str, path: str, headers: dict[str, str]) -> int:
    """Ask for something that does not exist, with a body that says nothing."""
    url = path
    while "{" in url:
        start, _, rest = url.partition("{")
        url = f"{start}{uuid4()}{rest.partition('}')[2]}"
    body: dict[str, Any] = {} if method == "GET" else {"json": {}}
    return client.request(method, url, headers=headers, **body).status_code


def test_every_route_declares_what_it_needs(app: FastAPI) -> None:
    for method, path, needed in requests(app):
        public = path in PUBLIC or path.startswith(PUBLIC_PREFIXES)
        assert (needed is None) == public, f"{method} {path}"
        if needed is not None:
            assert (needed.scope is None) == (path in ANYBODY), f"{method} {path}"
            assert needed.scope is None or needed.scope in SCOPES


def test_nobody_gets_in_without_a_token(app: FastAPI, client: Client) -> None:
    wrong = {
        f"{method} {path}"
        for method, path, needed in requests(app)
        if (send(client, method, path, {}) == 401) != (needed is not None)
        and path not in ("/api/v1/auth/login", "/oauth/token")
    }
    assert wrong == set()


@pytest.mark.parametrize(("role", "platform"), CALLERS)
def test_a_role_may_exactly_what_the_table_says(
    app: FastAPI, client: Client, built: Services, home_tenant: Tenant, role: str, platform: bool
) -> None:
    allowed = scopes_of(role, platform)
    differing = {}
    for method, path, needed in requests(app):
        if needed is None:
            continue
        me = bearer(minted(built, home_tenant, role, platform=platform))
        status = send(client, method, path, me)
        may = needed.scope is None or needed.scope in allowed
        if (status == 403) == may or status >= 500:
            differing[f"{method} {path}"] = status
    assert differing == {}
