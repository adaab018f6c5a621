"""Raw limits of lineage, for benches: the walk as the API asks for it, and a bare recursive one."""

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from lily.lineage.graph import Asked
from lily.store.database import Database
from lily.store.graph import PAGE, page_of, values
from lily.types import Tenant

BARE: LiteralString = """
WITH RECURSIVE w (guid, depth) AS (
  SELECT %(root)s::uuid, 0
  UNION
  SELECT e.downstream, w.depth + 1 FROM w JOIN lily.edge e
      ON e.tenant = %(me)s AND e.upstream = w.guid WHERE w.depth < %(depth)s)
SELECT guid, min(depth) FROM w GROUP BY guid
"""


def walks(
    database: Database, tenant: Tenant, roots: Sequence[UUID], depth: int, seconds: float
) -> tuple[list[float], list[int]]:
    """Times of walks with row security, tags and edges, and how many nodes each found."""
    asked = Asked(depth=depth)
    with psycopg.connect(database.role_url(tenant.cell)) as conn:
        given = ({**values(tenant.number, r, asked), "sight": ""} for r in _again(roots))
        return _timed(conn, PAGE, given, seconds, lambda rows: len(page_of(rows[0]).nodes))


def bare(
    url: str, tenant: Tenant, roots: Sequence[UUID], depth: int, seconds: float
) -> tuple[list[float], list[int]]:
    """The same walks as the administrator: guids and depths, nothing else."""
    with psycopg.connect(url) as conn:
        given = ({"me": tenant.number, "root": r, "depth": depth} for r in _again(roots))
        return _timed(conn, BARE, given, seconds, len)


def _again(roots: Sequence[UUID]) -> Iterator[UUID]:
    while True:
        yield from roots


def _timed(
    conn: psycopg.Connection,
    query: LiteralString,
    given: Iterator[dict[str, Any]],
    seconds: float,
    counted: Any,
) -> tuple[list[float], list[int]]:
    times: list[float] = []
    sizes: list[int] = []
    began = perf_counter()
    for each in given:
        start = perf_counter()
        rows = conn.execute(query, each, prepare=True).fetchall()
        sizes.append(counted(rows))
        times.append(perf_counter() - start)
        if perf_counter() - began > seconds:
            break
    warm = min(20, len(times) // 2)
    return times[warm:], sizes[warm:]
