"""What people are told when something could not be told."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
import psycopg

from lily.events.facts import Fact
from lily.store import feed
from lily.store.database import Unit
from lily.types import Tenant

GONE = """
INSERT INTO outlet AS o (tenant, connection, gone_revision, reason) VALUES (%s, %s, %s, %s)
ON CONFLICT (tenant, connection) DO UPDATE
   SET gone_revision = excluded.gone_revision, reason = excluded.reason
 WHERE o.gone_revision IS DISTINCT FROM excluded.gone_revision
"""
GIVE_UP = """
UPDATE delivery SET state = 'dead', settled_at = %s, reason = %s
 WHERE tenant = %s AND connection = %s AND state = 'waiting'
"""
# What tells of a failure is not told of again: two broken channels would never come to rest.
ABOUT = """
SELECT n.kind FROM delivery d JOIN notice n ON n.tenant = d.tenant AND n.id = d.notice
 WHERE d.tenant = %s AND d.id = %s
"""
QUIET = ("DeliveryFailed", "TargetDisabled")


class Bad(msgspec.Struct, frozen=True):
    """Deliveries to one connection that were given up together."""

    tenant: int
    connection: UUID
    name: str
    revision: int
    delivery: UUID
    gone: bool
    reason: str
    attempts: int
    count: int


def tell(
    conn: psycopg.Connection, tenants: Sequence[Tenant], bad: Sequence[Bad], now: datetime
) -> None:
    """Record facts of them; an endpoint that is gone is switched off until somebody changes it."""
    known = {tenant.number: tenant for tenant in tenants}
    for each in sorted(bad, key=lambda b: b.tenant):
        unit = Unit(conn, known[each.tenant])
        if each.gone:
            news = conn.execute(
                GONE, [each.tenant, each.connection, each.revision, each.reason]
            ).rowcount
            conn.execute(GIVE_UP, [now, "The endpoint is gone.", each.tenant, each.connection])
            if not news:
                continue
        elif (row := conn.execute(ABOUT, [each.tenant, each.delivery]).fetchone()) is None or (
            row[0] in QUIET
        ):
            continue
        feed.record(unit, [_fact(each, now)])


def _fact(bad: Bad, now: datetime) -> Fact:
    after = {
        "connection": str(bad.connection),
        "name": bad.name,
        "reason": bad.reason,
        "delivery": str(bad.delivery),
        "attempts": bad.attempts,
        "count": bad.count,
    }
    kind = "TargetDisabled" if bad.gone else "DeliveryFailed"
    return Fact(kind=kind, at=now, by="lily", cause=str(bad.delivery), after=after)  # type: ignore[arg-type]
