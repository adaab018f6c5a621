"""Somebody of a tenant, logged in."""

import msgspec
from httpx import Client

from lily.types import Tenant
from lily.wiring import Core
from tests.callers import logged_in, person, tenant_with_admin


class Person(msgspec.Struct):
    """Who asks, with the header that proves it."""

    tenant: Tenant
    client: Client
    headers: dict[str, str]


def admin(core: Core, client: Client) -> Person:
    tenant = tenant_with_admin(core)
    return Person(tenant, client, logged_in(client, tenant))


def with_role(core: Core, boss: Person, role: str) -> Person:
    person(core, boss.tenant, role, role)
    return Person(boss.tenant, boss.client, logged_in(boss.client, boss.tenant, role))
