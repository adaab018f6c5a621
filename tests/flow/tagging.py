"""People of a tenant who tag things."""

from typing import Any
from urllib.parse import quote

import pytest
from httpx import Client, Response

from lily.wiring import Core, Services
from tests.callers import bearer, minted, tenant_with_admin

NAME = "postgres://h:1/shop.public.people"


def place(name: str = NAME) -> str:
    """As a part of a path."""
    return quote(name, safe="")


class People:
    """Those of one tenant, by name."""

    def __init__(self, wired: Services, client: Client, core: Core) -> None:
        self.tenant = tenant_with_admin(core)
        self._wired, self._client = wired, client

    def __call__(
        self, who: str, method: str, path: str, role: str = "editor", **more: Any
    ) -> Response:
        token = minted(self._wired, self.tenant, role, name=who)
        headers = {**bearer(token), **more.pop("headers", {})}
        return self._client.request(method, f"/api/v1/{path}", headers=headers, **more)

    def tags(self, name: str = NAME) -> dict[str, Any]:
        answer = self("reader", "GET", f"metadata/{place(name)}/tags", "viewer")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def says(self, who: str, tag: str, name: str = NAME, **more: Any) -> Response:
        path = f"metadata/{place(name)}/tags"
        answer = self(who, "POST", path, json={"tag": tag, **more})
        assert answer.status_code == 200, answer.text
        return answer

    def takes(
        self, who: str, tag: str, role: str = "editor", name: str = NAME, **more: Any
    ) -> Response:
        return self(who, "DELETE", f"metadata/{place(name)}/tags/{tag}", role, **more)


# A test of tags takes these as its own.


@pytest.fixture
def people(wired: Services, client: Client, core: Core) -> People:
    return People(wired, client, core)
