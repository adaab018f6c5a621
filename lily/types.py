"""Values that several rooms share."""

from typing import Literal
from uuid import UUID

import msgspec

Lane = Literal["core", "fields"]
LANES: tuple[Lane, ...] = ("core", "fields")

Isolation = Literal["pooled", "dedicated"]
TenantState = Literal["active", "suspended"]

Json = dict[str, object]


class Tenant(msgspec.Struct, frozen=True):
    """A customer. Rows carry its number, people say its name, guids derive from its id."""

    number: int
    id: UUID
    name: str
    cell: str
    isolation: Isolation = "pooled"
    state: TenantState = "active"


class Caller(msgspec.Struct, frozen=True):
    """Who asks, for which tenant, and what they may do."""

    tenant: Tenant
    subject: str
    name: str
    scopes: frozenset[str]
    token: str
    role: str = ""

    def may(self, scope: str) -> bool:
        return scope in self.scopes
