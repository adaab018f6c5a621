"""Retention: what was not observed for too long is archived or deleted."""

from lily.assets import edits as rules
from lily.assets.edits import Who
from lily.assets.model import Asset
from lily.clock import Clock
from lily.store import assets
from lily.store.containers import bare, save
from lily.store.database import Database, Unit
from lily.store.edits import patiently
from lily.types import Tenant

CHUNK = 1_000
RETENTION = Who("system", "retention")

DUE = (
    "SELECT DISTINCT tenant FROM asset"
    " WHERE tenant = ANY(%s) AND expires_at IS NOT NULL AND expires_at <= %s"
)
EXPIRED = (
    f"{assets.SELECT} WHERE tenant = %s AND (tenant, guid, lane) IN (SELECT tenant, guid, lane"
    " FROM asset WHERE tenant = %s AND expires_at IS NOT NULL AND expires_at <= %s"
    " ORDER BY expires_at LIMIT %s) AND expires_at <= %s ORDER BY guid FOR UPDATE SKIP LOCKED"
)


def due(database: Database, clock: Clock, cell: str, tenants: list[Tenant]) -> list[Tenant]:
    """The tenants in a cell that have something to expire."""
    numbers = [tenant.number for tenant in tenants]
    with database.cell(cell, numbers) as conn:
        found = {row[0] for row in conn.execute(DUE, [numbers, clock.now()]).fetchall()}
    return [tenant for tenant in tenants if tenant.number in found]


def expire(database: Database, clock: Clock, tenant: Tenant, chunk: int = CHUNK) -> bool:
    """Expire a chunk of a tenant's assets; true when there may be more."""
    return patiently(lambda: _expire(database, clock, tenant, chunk))


def _expire(database: Database, clock: Clock, tenant: Tenant, chunk: int) -> bool:
    now, number = clock.now(), tenant.number
    with database.cell(tenant.cell, [number]) as conn:
        rows = conn.execute(EXPIRED, [number, number, now, chunk, now]).fetchall()
        found = [bare(Asset(*row)) for row in rows]
        save(Unit(conn, tenant), found, lambda known: rules.expire(known, RETENTION, now))
        return len(found) == chunk
