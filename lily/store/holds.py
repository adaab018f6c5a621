"""Tables that are kept back until they were verified once: whether all has arrived."""

from collections.abc import Mapping
from uuid import UUID

import psycopg

from lily.access.compile import Compiled
from lily.access.holding import Held
from lily.sdk.enforcers import Grantee
from lily.store import circles, policies, protections
from lily.store.connections import Connection
from lily.store.database import Unit

# A crawler has seen it, and no crawl is under way that could have more to say.
IS_TOLD = """
SELECT EXISTS (SELECT FROM crawl_seen WHERE tenant = %(tenant)s AND connection = %(id)s
                  AND guid = %(guid)s)
   AND NOT EXISTS (SELECT FROM crawl_run WHERE tenant = %(tenant)s AND connection = %(id)s
                      AND state = 'running')
"""
HEADS = """
SELECT a.lane, coalesce((SELECT max("offset") FROM log WHERE lane = a.lane), 0)
  FROM applied a WHERE a.part = 0
"""
APPLIED = "SELECT lane, position FROM applied WHERE part = 0"


def is_told(conn: psycopg.Connection, tenant: int, connection: UUID, guid: UUID) -> bool:
    """Whether the crawler of this connection has said all that it has to say of a table."""
    values = {"tenant": tenant, "id": connection, "guid": guid}
    row = conn.execute(IS_TOLD, values).fetchone()
    return bool(row and row[0])


def heads(conn: psycopg.Connection) -> dict[str, int]:
    """How far the log goes now, by lane."""
    return dict(conn.execute(HEADS).fetchall())


def is_applied(conn: psycopg.Connection, upto: Mapping[str, int]) -> bool:
    """Whether everything up to there is in the store."""
    done: dict[str, int] = dict(conn.execute(APPLIED).fetchall())
    return all(done.get(lane, 0) >= offset for lane, offset in upto.items())


class Holding:
    """The tables of one engine that were never verified.

    A table is let go once its crawler has told all, the log has arrived up to there, and lineage
    has carried what it carries. What this process forgets is only waited for once more.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._heads: dict[UUID, dict[str, int]] = {}
        self.waiting: set[UUID] = set()

    def is_held(self, unit: Unit, guid: UUID) -> bool:
        held = self._is_held(unit, guid)
        if held:
            self.waiting.add(guid)
        else:
            self.waiting.discard(guid)
            self._heads.pop(guid, None)
        return held

    def held(self, unit: Unit, guid: UUID, found: Compiled) -> Held:
        """Kept back from all but those whom any policy lets read in the clear."""
        exempt = {group for kept in policies.load(unit) for group in kept.policy.exempt_groups}
        memberships = circles.memberships(unit)

        def is_exempt(grantee: Grantee) -> bool:
            return not exempt.isdisjoint(memberships.groups(grantee.name) | grantee.groups)

        return Held(found, protections.columns(unit, guid), is_exempt)

    def _is_held(self, unit: Unit, guid: UUID) -> bool:
        conn, tenant, id = unit.conn, unit.tenant.number, self._connection.id
        kept = protections.get(conn, tenant, id, guid)
        if kept is not None and kept.verified_at is not None:
            return False
        if "source" in self._connection.uses and not is_told(conn, tenant, id, guid):
            self._heads.pop(guid, None)
            return True
        upto = self._heads.setdefault(guid, heads(conn))
        return not (is_applied(conn, upto) and protections.is_settled(unit))
