"""Values that several rooms share."""

from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

Lane = Literal["core", "fields"]
LANES: tuple[Lane, ...] = ("core", "fields")


class Place(NamedTuple):
    """Where in a lane of the log something is: part 0 is PostgreSQL, others are Kafka's partitions,
    counted from 1 as their records are."""

    lane: Lane
    position: int
    part: int = 0


Isolation = Literal["pooled", "dedicated"]
TenantState = Literal["active", "suspended", "moving"]

Json = dict[str, object]


class Tenant(msgspec.Struct, frozen=True):
    """A customer. Rows carry its number, people say its name, guids derive from its id."""

    number: int
    id: UUID
    name: str
    cell: str
    isolation: Isolation = "pooled"
    state: TenantState = "active"

    @property
    def admitted(self) -> bool:
        """Whether its people get in. While it moves they do, and read."""
        return self.state != "suspended"


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
