"""A person's own notices: unread, read, muted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from lily.store.database import Unit

PAGE = """
SELECT id, number, kind, key, guid, content, at, read_at FROM notice
 WHERE tenant = %(tenant)s AND recipient = %(recipient)s
   AND (%(before)s::bigint IS NULL OR number < %(before)s)
   AND (NOT %(unread)s OR read_at IS NULL)
 ORDER BY number DESC LIMIT %(limit)s
"""
UNREAD = """
SELECT count(*) FROM (SELECT FROM notice WHERE tenant = %s AND recipient = %s AND read_at IS NULL
 LIMIT 1000) n
"""
READ = """
UPDATE notice SET read_at = %(now)s
 WHERE tenant = %(tenant)s AND recipient = %(recipient)s AND read_at IS NULL
   AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s))
"""
MUTE = """
INSERT INTO notice_mute (tenant, recipient, about, until) VALUES (%s, %s, %s, %s)
ON CONFLICT (tenant, recipient, about) DO UPDATE SET until = excluded.until
"""
UNMUTE = "DELETE FROM notice_mute WHERE tenant = %s AND recipient = %s AND about = %s"
MUTES = """
SELECT about, until FROM notice_mute WHERE tenant = %s AND recipient = %s AND until > %s
 ORDER BY about LIMIT 1000
"""


class Mine(msgspec.Struct, frozen=True):
    id: UUID
    number: int
    kind: str
    key: str
    guid: UUID | None
    content: dict[str, Any]
    at: datetime
    read_at: datetime | None


def page(unit: Unit, recipient: str, before: int | None, limit: int, unread: bool) -> list[Mine]:
    """Newest first."""
    values = {
        "tenant": unit.tenant.number, "recipient": recipient, "before": before, "limit": limit,
        "unread": unread,
    }  # fmt: skip
    return [Mine(*row) for row in unit.conn.execute(PAGE, values).fetchall()]


def unread(unit: Unit, recipient: str) -> int:
    """Exact to 1,000, then at least."""
    row = unit.conn.execute(UNREAD, [unit.tenant.number, recipient]).fetchone()
    return row[0] if row else 0


def read(unit: Unit, recipient: str, ids: Sequence[UUID] | None, now: datetime) -> int:
    """Acknowledge some, or all; how many were unread."""
    values = {
        "tenant": unit.tenant.number, "recipient": recipient, "now": now,
        "ids": None if ids is None else list(ids),
    }  # fmt: skip
    return unit.conn.execute(READ, values).rowcount


def mute(unit: Unit, recipient: str, about: str, until: datetime) -> None:
    unit.conn.execute(MUTE, [unit.tenant.number, recipient, about, until])


def unmute(unit: Unit, recipient: str, about: str) -> bool:
    return unit.conn.execute(UNMUTE, [unit.tenant.number, recipient, about]).rowcount > 0


def mutes(unit: Unit, recipient: str, now: datetime) -> list[tuple[str, datetime]]:
    rows = unit.conn.execute(MUTES, [unit.tenant.number, recipient, now]).fetchall()
    return [(about, until) for about, until in rows]
