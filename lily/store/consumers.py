"""Who follows a feed, and how far they are. A position moves with the work that it stands for."""

from collections.abc import Sequence

import psycopg

from lily.store.database import Database
from lily.types import Tenant

BEHIND = """
SELECT h.tenant FROM feed_head h
  LEFT JOIN consumer c ON c.name = %s AND c.tenant = h.tenant
 WHERE h.tenant = ANY(%s) AND h.position > coalesce(c.position, 0) ORDER BY h.tenant
"""
BEGIN = "INSERT INTO consumer (name, tenant, position) VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
CLAIM = "SELECT position FROM consumer WHERE name = %s AND tenant = %s FOR UPDATE SKIP LOCKED"
MOVE = "UPDATE consumer SET position = %s, at = now() WHERE name = %s AND tenant = %s"


def behind(database: Database, name: str, cell: str, tenants: Sequence[Tenant]) -> list[Tenant]:
    """The tenants whose feed has grown since this consumer last looked."""
    numbers = [tenant.number for tenant in tenants]
    with database.cell(cell, numbers) as conn:
        found = {row[0] for row in conn.execute(BEHIND, [name, numbers]).fetchall()}
    return [tenant for tenant in tenants if tenant.number in found]


def claim(conn: psycopg.Connection, name: str, tenant: Tenant) -> int | None:
    """How far it is, kept until the end of the transaction; None while another process has it."""
    conn.execute(BEGIN, [name, tenant.number])
    row = conn.execute(CLAIM, [name, tenant.number]).fetchone()
    return row[0] if row else None


def move(conn: psycopg.Connection, name: str, tenant: Tenant, position: int) -> None:
    conn.execute(MOVE, [position, name, tenant.number])
