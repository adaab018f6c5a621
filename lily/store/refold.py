"""Assets folded again after exclusive groups have changed: what shows is right everywhere, soon.

Whoever was writing when the groups changed may still fold by the old ones. So there are two walks:
one at once, and one when the transactions of that moment have ended.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

import msgspec

from lily.assets import labels
from lily.assets.edits import Who
from lily.assets.model import ASSIGNMENTS, PROPAGATED
from lily.clock import Clock
from lily.events.facts import Fact
from lily.store import assets, feed
from lily.store.database import Database, Unit
from lily.store.edits import patiently
from lily.store.propagation import context_of
from lily.types import Tenant

CHUNK = 500
FIRST = UUID(int=0)

ASKED = "SELECT tenant FROM tag_settings WHERE tenant = ANY(%s) AND refold IS NOT NULL"
TASK = (
    "SELECT revision, refold, refold_cause FROM tag_settings"
    " WHERE tenant = %s AND refold IS NOT NULL"
)
# One of the group shows wherever any of it was said. Alone, and alone said, it stays.
NEXT = f"""
SELECT guid, lane, qualified_name FROM asset
 WHERE tenant = %(tenant)s AND guid > %(after)s AND tags && %(tags)s
   AND (cardinality(tags) > 1 OR own_tags IS NOT NULL
     OR (layers & {ASSIGNMENTS | PROPAGATED}) > 0)
 ORDER BY guid LIMIT %(chunk)s
"""
DONE = "UPDATE tag_settings SET refold = NULL WHERE tenant = %s AND revision = %s"
RUNNING = """
SELECT l.virtualtransaction FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'virtualxid' AND l.pid <> pg_backend_pid() AND a.datname = current_database()
"""


class Task(msgspec.Struct, frozen=True):
    """Which tags are concerned, and who was at work when this was read."""

    tenant: Tenant
    revision: int
    tags: list[str]
    cause: str
    others: frozenset[str]


def asked(database: Database, cell: str, tenants: Collection[Tenant]) -> list[Tenant]:
    """The tenants whose groups have changed."""
    numbers = [tenant.number for tenant in tenants]
    with database.cell(cell, numbers) as conn:
        found = {number for (number,) in conn.execute(ASKED, [numbers])}
    return [tenant for tenant in tenants if tenant.number in found]


def begin(database: Database, tenant: Tenant) -> Task | None:
    """Null where it has been done meanwhile."""
    with database.cell(tenant.cell, [tenant.number]) as conn:
        row = conn.execute(TASK, [tenant.number]).fetchone()
        running = frozenset(each for (each,) in conn.execute(RUNNING))
    return Task(tenant, row[0], row[1], row[2], running) if row else None


def still_running(database: Database, task: Task) -> bool:
    """Whether a transaction goes on that may know the old groups."""
    with database.cell(task.tenant.cell) as conn:
        return any(each in task.others for (each,) in conn.execute(RUNNING))


def step(
    database: Database, clock: Clock, task: Task, after: UUID = FIRST, chunk: int = CHUNK
) -> UUID | None:
    """Fold the next assets again, and tell what shows otherwise now. Null: there are no more."""
    return patiently(lambda: _step(database, clock, task, after, chunk))


def finish(database: Database, task: Task) -> None:
    """Done, unless the groups have changed again since."""
    with database.cell(task.tenant.cell, [task.tenant.number]) as conn:
        conn.execute(DONE, [task.tenant.number, task.revision])


def _step(database: Database, clock: Clock, task: Task, after: UUID, chunk: int) -> UUID | None:
    tenant = task.tenant
    values: dict[str, Any] = {
        "tenant": tenant.number, "after": after, "tags": task.tags, "chunk": chunk
    }  # fmt: skip
    with database.cell(tenant.cell, [tenant.number]) as conn:
        rows = conn.execute(NEXT, values).fetchall()
        context = context_of(database, conn, tenant, clock)
        who = Who("system", task.cause)
        wanted = {(tenant.number, guid): (lane, name) for guid, lane, name in rows}
        facts: list[Fact] = []
        changed = []
        for known in assets.load(conn, wanted).values():
            if known.asset is not None and (told := labels.refold(known, who, context)):
                changed.append(known.asset)
                facts += told
        if facts:
            first = feed.record(Unit(conn, tenant), facts)
            places = {fact.guid: first + index for index, fact in enumerate(facts)}
            for asset in changed:
                asset.feed_position = places[asset.guid]
            assets.save(conn, changed)
    return rows[-1][0] if len(rows) == chunk else None
