"""Keys with which a tenant's own programs sign what they write to Kafka."""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import NamedTuple
from uuid import uuid4

import msgspec

from lily.clock import Clock
from lily.errors import NotFound
from lily.events.facts import Fact, FactKind
from lily.events.signed import Key
from lily.store import feed
from lily.store.database import Database
from lily.store.seal import Seal
from lily.types import Tenant

FRESH = 5.0  # a revoked key is good for so long at most
AGAIN = 0.1  # an unknown one may be new; who makes ids up does not keep us busy
BYTES = 32
SUSPENDED = "SELECT number FROM move WHERE before = 'suspended' AND step <> 'failed'"


class ProducerKey(msgspec.Struct, frozen=True):
    """What is shown of a key; its secret is shown once, when it is made."""

    id: str
    name: str
    created_at: datetime
    revoked_at: datetime | None = None


def create(
    database: Database, seal: Seal, clock: Clock, tenant: Tenant, name: str
) -> tuple[ProducerKey, bytes]:
    """The key and its secret."""
    made = ProducerKey(f"pk_{secrets.token_hex(8)}", name, clock.now())
    secret = secrets.token_bytes(BYTES)
    with database.home_unit(tenant) as unit:
        unit.conn.execute(
            "INSERT INTO producer_key (tenant, id, name, secret, created_at)"
            " VALUES (%s, %s, %s, %s, %s)",
            [tenant.number, made.id, name, seal.seal(secret, _about(made.id)), made.created_at],
        )
    _note(database, tenant, "TokenCreated", made.id, name, made.created_at)
    return made, secret


def every(database: Database, tenant: Tenant) -> list[ProducerKey]:
    with database.home_unit(tenant) as unit:
        rows = unit.conn.execute(
            "SELECT id, name, created_at, revoked_at FROM producer_key WHERE tenant = %s"
            " ORDER BY created_at, id",
            [tenant.number],
        ).fetchall()
    return [ProducerKey(*row) for row in rows]


def revoke(database: Database, clock: Clock, tenant: Tenant, id: str) -> None:
    now = clock.now()
    with database.home_unit(tenant) as unit:
        row = unit.conn.execute(
            "UPDATE producer_key SET revoked_at = coalesce(revoked_at, %s)"
            " WHERE tenant = %s AND id = %s RETURNING name",
            [now, tenant.number, id],
        ).fetchone()
    if row is None:
        raise NotFound("producer key", id)
    _note(database, tenant, "TokenRevoked", id, row[0], now)


def owners(database: Database) -> dict[str, int]:
    """The tenant of every key, good or not; as the system's role."""
    numbers = [tenant.number for tenant in database.tenants()]
    with database.at_home(numbers) as conn:
        return dict(conn.execute("SELECT id, tenant FROM producer_key").fetchall())


class _Kept(NamedTuple):
    key: Key
    revoked_at: datetime | None
    active: bool  # whether its tenant is


class _Ring:
    """Every key there ever was; looked up again every few seconds, and at once for one that is
    not among them."""

    def __init__(self, database: Database, unseal: Callable[[bytes, bytes], bytes]) -> None:
        self._database = database
        self._unseal = unseal
        self._known: dict[str, _Kept] = {}
        self._looked = float("-inf")

    def _find(self, id: str) -> _Kept | None:
        age = monotonic() - self._looked
        if age > FRESH or (id not in self._known and age > AGAIN):
            self._known = self._load()
            self._looked = monotonic()
        return self._known.get(id)

    def _load(self) -> dict[str, _Kept]:
        active = {each.number: each.state != "suspended" for each in self._database.tenants()}
        with self._database.at_home(list(active)) as conn:
            active |= {number: False for (number,) in conn.execute(SUSPENDED).fetchall()}
            rows = conn.execute(
                "SELECT id, tenant, name, secret, revoked_at FROM producer_key"
            ).fetchall()
        return {
            id: _Kept(Key(tenant, name, self._unseal(sealed, _about(id))), revoked, active[tenant])
            for id, tenant, name, sealed, revoked in rows
        }


class Keys(_Ring):
    """Those that are good now, asked for by id."""

    def __call__(self, id: str) -> Key | None:
        kept = self._find(id)
        return kept.key if kept and kept.active and kept.revoked_at is None else None


class PastKeys(_Ring):
    """Those that were good at a moment."""

    def __call__(self, id: str, at: datetime) -> Key | None:
        kept = self._find(id)
        if kept is None:
            return None
        was = kept.revoked_at is None or at <= kept.revoked_at + timedelta(seconds=FRESH)
        return kept.key if was else None


def _note(
    database: Database, tenant: Tenant, kind: FactKind, id: str, name: str, at: datetime
) -> None:
    after = {"producer_key": id, "name": name}
    fact = Fact(kind=kind, at=at, by="operator", cause=str(uuid4()), after=after)
    with database.unit(tenant) as unit:
        feed.record(unit, [fact])


def _about(id: str) -> bytes:
    return f"producer-key:{id}".encode()
