"""Somebody of a tenant, logged in."""

from uuid import uuid4

import msgspec
from httpx import Client

from lily.store import tenants
from lily.types import Tenant
from lily.wiring import Core
from tests.callers import HASHED, TESTER, logged_in, person, tenant_with_admin


class Person(msgspec.Struct):
    """Who asks, with the header that proves it."""

    tenant: Tenant
    client: Client
    headers: dict[str, str]


def admin(core: Core, client: Client) -> Person:
    tenant = tenant_with_admin(core)
    return Person(tenant, client, logged_in(client, tenant))


def dedicated(core: Core, client: Client, url: str) -> Person:
    """The admin of a tenant with a database of its own."""
    root = tenants.Admin("root", HASHED)
    name = f"t-{uuid4().hex[:10]}"
    tenant = tenants.create_dedicated(core.database, core.clock, core.seal, name, url, root, TESTER)
    return Person(tenant, client, logged_in(client, tenant))


def with_role(core: Core, boss: Person, role: str) -> Person:
    person(core, boss.tenant, role, role)
    return Person(boss.tenant, boss.client, logged_in(boss.client, boss.tenant, role))
