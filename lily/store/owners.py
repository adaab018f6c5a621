"""Channels tell what the owner of a subscription may hear: who that is now, and what they see."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from time import monotonic
from uuid import UUID

import msgspec
import psycopg

from lily.identity.roles import scopes_of
from lily.notify.match import OPEN
from lily.store.database import Database
from lily.store.guard import Guard
from lily.store.outbox import Claimed
from lily.types import Tenant

FRESH = 0.5  # seconds for which an owner is not looked up again

Name = tuple[int, str]  # a tenant, and a person or service account of it

# A person first: who has the name of a person is taken for them.
OWNERS = """
SELECT w.tenant, w.name, coalesce(p.role, a.role, ''), coalesce(p.active, a.active, false)
  FROM unnest(%s::int[], %s::text[]) AS w(tenant, name)
  LEFT JOIN person p ON p.tenant = w.tenant AND p.username = w.name
  LEFT JOIN service_account a ON a.tenant = w.tenant AND a.name = w.name
"""
# Logins stay at home, also those of tenants that have gone elsewhere.
SEE = "SELECT set_config('lily.tenants', %s, true)"
ACCOUNT = "SELECT 1 FROM service_account WHERE tenant = %s AND name = %s AND active"
LOOK = "SELECT set_config('lily.sight', %s, true)"
# As the feed shows facts: those of an edge name both ends.
HIDDEN = """
SELECT w.id FROM unnest(%(ids)s::uuid[], %(guids)s::uuid[], %(upstreams)s::uuid[])
       AS w(id, guid, upstream)
 WHERE NOT visible(%(tenant)s, w.guid)
    OR (w.upstream IS NOT NULL AND NOT visible(%(tenant)s, w.upstream))
"""


class Owner(msgspec.Struct, frozen=True):
    """Somebody that a subscription belongs to; without a role they are unknown here."""

    name: str
    role: str
    active: bool

    @property
    def silence(self) -> str:
        """Why nothing is told in their name; empty when something may be."""
        if not self.name:
            return "The subscription was deleted."
        if not self.role:
            return f"It belongs to {self.name}, who is no user and no service account here."
        if not self.active:
            return f"It belongs to {self.name}, who is not active any more."
        if "feed:read" not in scopes_of(self.role):
            return f"It belongs to {self.name}, whose role {self.role} may not read the feed."
        return ""

    def may_hear(self, kind: str) -> bool:
        return kind.startswith(OPEN) or "audit:read" in scopes_of(self.role)


def found(conn: psycopg.Connection, wanted: Iterable[Name]) -> dict[Name, Owner]:
    """All of them, in a transaction of the home database that may see their tenants."""
    names = list(dict.fromkeys(wanted))
    rows = conn.execute(OWNERS, [[t for t, _ in names], [name for _, name in names]]).fetchall()
    return {(tenant, name): Owner(name, role, active) for tenant, name, role, active in rows}


def is_account(conn: psycopg.Connection, tenant: Tenant, name: str) -> bool:
    """Whether it is a service account that is active."""
    return conn.execute(ACCOUNT, [tenant.number, name]).fetchone() is not None


class Ears:
    """What owners may hear. Never says more than policies of half a second ago allow."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._guard = Guard(database)
        self._known: dict[Name, Owner] = {}
        self._asked = float("-inf")

    def withheld(
        self,
        conn: psycopg.Connection,
        tenants: Mapping[int, Tenant],
        claimed: Sequence[Claimed],
        now: datetime,
    ) -> dict[UUID, str]:
        """Those that must not be sent, each with the reason. `conn` sees these tenants."""
        groups: dict[Name, list[Claimed]] = defaultdict(list)
        for each in claimed:
            if each.owner is not None:
                groups[each.tenant, each.owner].append(each)
        owners = self._owners(groups)
        reasons: dict[UUID, str] = {}
        for name, own in groups.items():
            reasons |= self._of_owner(conn, tenants[name[0]], owners[name], own, now)
        return reasons

    def _of_owner(
        self,
        conn: psycopg.Connection,
        tenant: Tenant,
        owner: Owner,
        claimed: Sequence[Claimed],
        now: datetime,
    ) -> dict[UUID, str]:
        if owner.silence:
            return {each.id: owner.silence for each in claimed}
        reasons = {
            each.id: f"It belongs to {owner.name}, who may not read {each.kind} facts any more."
            for each in claimed
            if not owner.may_hear(each.kind)
        }
        sight = self._guard.sight(tenant, owner.name, [owner.role], now)
        about = [each for each in claimed if each.guid is not None] if sight else []
        if about:
            told = f"It belongs to {owner.name}, who may not read this asset."
            reasons |= dict.fromkeys(_hidden(conn, tenant, sight, about), told)
        return reasons

    def _owners(self, wanted: Iterable[Name]) -> dict[Name, Owner]:
        began = monotonic()
        if began - self._asked >= FRESH:
            self._known.clear()
            self._asked = began
        if missing := [name for name in wanted if name not in self._known]:
            tenants = ",".join(map(str, sorted({tenant for tenant, _ in missing})))
            with self._database.home() as conn:
                conn.execute(SEE, [f"{{{tenants}}}"])
                self._known |= found(conn, missing)
        return self._known


def _hidden(
    conn: psycopg.Connection, tenant: Tenant, sight: str, about: Sequence[Claimed]
) -> list[UUID]:
    conn.execute(LOOK, [sight])
    values = {
        "tenant": tenant.number,
        "ids": [each.id for each in about],
        "guids": [each.guid for each in about],
        "upstreams": [_upstream(each) for each in about],
    }
    rows = conn.execute(HIDDEN, values).fetchall()
    conn.execute(LOOK, [""])
    return [id for (id,) in rows]


def _upstream(claimed: Claimed) -> str | None:
    """The other end of the edge that a notice tells of."""
    if not claimed.kind.startswith("Edge"):
        return None
    data = msgspec.json.decode(claimed.content).get("data") or {}
    upstream: str | None = (data.get("after") or {}).get("upstream")
    return upstream
