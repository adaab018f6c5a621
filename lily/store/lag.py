"""How far the pipeline is behind the log, in observations and in seconds."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import psycopg

from lily.store.copying import by_key
from lily.store.database import Database
from lily.types import Lane

COUNTED = 100_000  # beyond this "at least" is all that anybody needs

LAG = """
SELECT a.lane, count(l.at), coalesce(extract(epoch FROM now() - min(l.at)), 0)::float8,
       extract(epoch FROM now() -
         (SELECT max(o.observed) FROM applied o WHERE o.lane = a.lane))::float8
  FROM applied a
  LEFT JOIN LATERAL (
    SELECT at FROM log WHERE lane = a.lane AND "offset" > a.position ORDER BY "offset" LIMIT %s
  ) l ON true
 WHERE a.part = 0
 GROUP BY a.lane ORDER BY a.lane
"""
BY_TENANT = """
SELECT l.tenant, a.lane, count(*)
  FROM applied a
 CROSS JOIN LATERAL (
    SELECT tenant FROM log WHERE lane = a.lane AND "offset" > a.position ORDER BY "offset" LIMIT %s
  ) l
 WHERE a.part = 0 AND l.tenant > 0
 GROUP BY l.tenant, a.lane
"""


class Lag(msgspec.Struct, frozen=True):
    """What waits in one lane of one cell, and since when."""

    cell: str
    lane: Lane
    waiting: int
    seconds: float
    newest: float | None = None  # age of the newest applied one


@contextmanager
def looking(database: Database, cell: str) -> Iterator[psycopg.Connection]:
    """A transaction in which little of the log is read, however long it is."""
    with database.cell(cell) as conn:
        by_key(conn, local=True)
        yield conn


def lag(database: Database, cell: str) -> list[Lag]:
    """Per lane; only the system role may look into the log."""
    with looking(database, cell) as conn:
        rows = conn.execute(LAG, [COUNTED]).fetchall()
    return [
        Lag(cell, lane, count, max(oldest, 0.0), newest) for lane, count, oldest, newest in rows
    ]


def by_tenant(database: Database, cell: str) -> list[tuple[int, Lane, int]]:
    """Tenant, lane and how many of its observations wait; those with none are left out."""
    with looking(database, cell) as conn:
        return conn.execute(BY_TENANT, [COUNTED]).fetchall()
