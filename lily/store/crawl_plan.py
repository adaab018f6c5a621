"""Which connections are sources, and when each is due."""

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
import psycopg

from lily.store import crawls
from lily.store.database import Unit
from lily.types import Tenant

# `due_at` is null for new connections, and again when a schedule was changed.
PLANS = """
SELECT c.tenant, c.id, coalesce(c.schedule, %(default)s), s.due_at,
       s.connection IS NULL OR s.schedule IS DISTINCT FROM coalesce(c.schedule, %(default)s)
       OR s.due_at IS NULL
  FROM connection c
  LEFT JOIN crawl_state s ON s.tenant = c.tenant AND s.connection = c.id
 WHERE c.tenant = ANY(%(tenants)s) AND c.enabled AND 'source' = ANY(c.uses)
   AND coalesce(c.schedule, %(default)s) <> %(never)s
   AND (s.due_at IS NULL OR s.due_at <= %(now)s
     OR s.schedule IS DISTINCT FROM coalesce(c.schedule, %(default)s))
"""
PLAN = (
    "INSERT INTO crawl_state AS s (tenant, connection, schedule, due_at) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (tenant, connection) DO UPDATE"
    " SET schedule = excluded.schedule, due_at = excluded.due_at"
    " WHERE s.due_at IS NOT DISTINCT FROM %s"
)

Next = Callable[[str, datetime, UUID], datetime | None]


class Plan(msgspec.Struct, frozen=True):
    tenant: int
    connection: UUID
    schedule: str
    due_at: datetime | None
    new: bool


def plan(
    conn: psycopg.Connection,
    tenants: Sequence[Tenant],
    next: Next,
    default: str,
    never: str,
    now: datetime,
) -> list[UUID]:
    """Ask for every crawl that is due, and note when it is due again; returns which."""
    by_number = {tenant.number: tenant for tenant in tenants}
    values = {"tenants": list(by_number), "default": default, "never": never, "now": now}
    asked = []
    for each in [Plan(*row) for row in conn.execute(PLANS, values).fetchall()]:
        due = next(each.schedule, now, each.connection)
        row = [each.tenant, each.connection, each.schedule, due, each.due_at]
        if conn.execute(PLAN, row).rowcount and not each.new:
            unit = Unit(conn, by_number[each.tenant])
            crawls.ask(unit, each.connection, "schedule", "schedule", None, now)
            asked.append(each.connection)
    return asked
