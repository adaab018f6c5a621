"""What the bench of propagation asks the store directly."""

import time
from collections.abc import Sequence
from uuid import UUID

from lily.store.database import Database, Unit
from lily.store.propagation import standing, travels
from lily.types import Tenant

ARRIVED = "SELECT count(*) FROM propagated WHERE tenant = %s AND root = %s"
ALL = """
SELECT guid, name, root, depth FROM propagated WHERE tenant = %s AND field = 'tag' AND rule IS NULL
"""
COUNT = "SELECT count(*) FROM propagated WHERE tenant = %s"
HEAD = "SELECT position FROM feed_head WHERE tenant = %s"
PENDING = """
SELECT 1 FROM fact
 WHERE tenant = %s AND position > %s AND kind = ANY(%s) AND payload NOT LIKE '%%"propagated":{%%'
 ORDER BY position LIMIT 1
"""
# Each version of an asset is told once.
TWICE = """
SELECT guid, version, count(*) FROM fact
 WHERE tenant = %s AND position > %s AND kind = 'TagsChanged'
 GROUP BY guid, version HAVING count(*) > 1 LIMIT 10
"""
BARE = """
UPDATE asset SET tags = tags || ARRAY['bare'], version = version + 1, updated_at = now(),
       search = search || '''=tag:bare'''::tsvector
 WHERE tenant = %s AND lane = 'core' AND guid = ANY(%s)
"""
KINDS = ["TagsChanged", "EdgeCreated", "EdgeDeleted", "EdgeRestored", "AssetDeleted",
         "AssetRestored"]  # fmt: skip


def arrived(database: Database, tenant: Tenant, root: UUID) -> int:
    """How many assets have something of this root."""
    with database.unit(tenant) as unit:
        row = unit.conn.execute(ARRIVED, [tenant.number, root]).fetchone()
    return row[0] if row else 0


def everything(unit: Unit) -> set[tuple[UUID, str, UUID, int]]:
    """Asset, tag, root, depth."""
    return set(unit.conn.execute(ALL, [unit.tenant.number]).fetchall())


def count(unit: Unit) -> int:
    """Everything that has arrived anywhere."""
    row = unit.conn.execute(COUNT, [unit.tenant.number]).fetchone()
    return row[0] if row else 0


def is_quiet(database: Database, tenant: Tenant) -> bool:
    """Whether every fact is handled and no task waits."""
    with database.unit(tenant) as unit:
        number = tenant.number
        at = standing(unit.conn, number)
        if unit.conn.execute(PENDING, [number, at, KINDS]).fetchone():
            return False
        return not travels(unit.conn, [number])


def head(unit: Unit) -> int:
    row = unit.conn.execute(HEAD, [unit.tenant.number]).fetchone()
    return row[0] if row else 0


def told_twice(unit: Unit, after: int) -> list[tuple[UUID, int, int]]:
    return unit.conn.execute(TWICE, [unit.tenant.number, after]).fetchall()


def bare_update(database: Database, tenant: Tenant, guids: Sequence[UUID], times: int) -> float:
    """Median seconds of writing the tags of so many assets, and nothing else; taken back."""
    spent = []
    for _ in range(times):
        with database.unit(tenant) as unit, unit.conn.transaction(force_rollback=True):
            began = time.perf_counter()
            unit.conn.execute(BARE, [tenant.number, list(guids)])
            spent.append(time.perf_counter() - began)
    return sorted(spent)[len(spent) // 2]
