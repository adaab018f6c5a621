"""How far the lanes are behind, for a tenant and for all: amounts and ages, never content."""

from datetime import datetime

import msgspec

from lily.store.database import Unit
from lily.types import Lane

COUNTED = 100_000  # beyond this "at least" is all that anybody needs
BEHIND = """
SELECT b.lane, b.position, m.at, m.observed, b.waiting, b.oldest, b.own_newest, b.own_waiting,
       b.own_oldest
  FROM lanes_behind(%s) b
  JOIN (SELECT lane, max(at) AS at, max(observed) AS observed FROM applied GROUP BY lane) m
 USING (lane) ORDER BY b.lane
"""


class Behind(msgspec.Struct, frozen=True):
    """One lane: how far it is applied, what waits, and what of it is the caller's own."""

    lane: Lane
    position: int
    applied_at: datetime
    newest: datetime | None
    waiting: int
    oldest: datetime | None
    own_newest: datetime | None
    own_waiting: int
    own_oldest: datetime | None


def behind(unit: Unit) -> list[Behind]:
    """What waits in the log in PostgreSQL; when a lane moved last holds for whichever log."""
    return [Behind(*row) for row in unit.conn.execute(BEHIND, [COUNTED]).fetchall()]


def fields_waiting(unit: Unit, qualified_name: str) -> int:
    """Observations of a container's fields in the log in PostgreSQL that are not applied yet."""
    row = unit.conn.execute("SELECT fields_waiting(%s, %s)", [qualified_name, COUNTED]).fetchone()
    return int(row[0]) if row else 0
