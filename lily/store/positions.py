"""How far the pipeline has come: the one truth, in the same transaction as the rows."""

from datetime import datetime

import msgspec
import psycopg

from lily.types import Lane

APPLIED = "SELECT lane, position FROM applied WHERE part = 0"
LAG = """
SELECT a.lane, a.position, a.at, a.observed,
       (SELECT min(l.at) FROM log l WHERE l.lane = a.lane AND l."offset" =
         (SELECT min(m."offset") FROM log m WHERE m.lane = a.lane AND m."offset" > a.position))
  FROM applied a WHERE a.part = 0
"""


class LaneLag(msgspec.Struct, frozen=True):
    lane: Lane
    position: int
    applied_at: datetime
    newest_applied: datetime | None
    oldest_waiting: datetime | None


def applied(conn: psycopg.Connection) -> dict[Lane, int]:
    return dict(conn.execute(APPLIED).fetchall())


def lag(conn: psycopg.Connection) -> list[LaneLag]:
    """Per lane: where it is, and since when the oldest observation waits. Needs lily_system."""
    return [LaneLag(*row) for row in conn.execute(LAG).fetchall()]
