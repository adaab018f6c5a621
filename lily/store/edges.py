"""Edges: reading what is known of them, writing what became of them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from msgspec.structs import astuple
from psycopg.types.json import Jsonb

from lily.clock import from_micros, micros
from lily.lineage.edges import CLAIMED, COLUMNS, Claim, Edge, Ends, Known, When, first_claim
from lily.store.copying import NULL, Pour, Stage, dump, listed, moment, string

Key = tuple[int, UUID]  # tenant, edge id

_COLUMNS = ", ".join(COLUMNS)
_KEPT = ("tenant", "id", "upstream", "downstream", "type", "level", "up_top", "down_top", "implies")
SELECT = f"SELECT {_COLUMNS} FROM edge"
LOCK = f"{SELECT} WHERE tenant = ANY(%s) AND id = ANY(%s::uuid[]) ORDER BY id FOR UPDATE"
NEW = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS batch_new_edge (LIKE lily.edge) ON COMMIT DELETE ROWS",
    f"COPY batch_new_edge ({_COLUMNS}) FROM STDIN",
    f"INSERT INTO edge ({_COLUMNS}) SELECT {_COLUMNS} FROM batch_new_edge",
    "TRUNCATE batch_new_edge",
)
CHANGED = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS batch_edge (LIKE lily.edge) ON COMMIT DELETE ROWS",
    f"COPY batch_edge ({_COLUMNS}) FROM STDIN",
    "UPDATE edge e SET "
    + ", ".join(f"{name} = b.{name}" for name in COLUMNS if name not in _KEPT)
    + " FROM batch_edge b WHERE e.tenant = b.tenant AND e.id = b.id",
    "TRUNCATE batch_edge",
)
REPLACE = (
    f"UPDATE edge SET ({_COLUMNS}) = ROW({', '.join(['%s'] * len(COLUMNS))})"
    " WHERE tenant = %s AND id = %s"
)
CLAIMS = (
    "SELECT tenant, edge, source, observed_at, log_offset, gone, stated FROM edge_claim"
    " WHERE tenant = ANY(%s) AND edge = ANY(%s::uuid[])"
)
SAVE_CLAIM = (
    "INSERT INTO edge_claim (tenant, edge, source, observed_at, log_offset, gone, stated)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (tenant, edge, source) DO UPDATE"
    " SET observed_at = excluded.observed_at, log_offset = excluded.log_offset,"
    " gone = excluded.gone, stated = excluded.stated"
)
JOBS = (
    "SELECT tenant, source, at, log_offset FROM lineage_job"
    " WHERE tenant = ANY(%s) AND source = ANY(%s)"
)
SAVE_JOB = (
    "INSERT INTO lineage_job (tenant, source, at, log_offset) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (tenant, source) DO UPDATE SET at = excluded.at,"
    " log_offset = excluded.log_offset"
)
OF_JOBS = """
SELECT tenant, source, id FROM edge
 WHERE tenant = ANY(%(tenants)s) AND source = ANY(%(sources)s) AND source LIKE 'job:%%'
   AND deleted_by IS NULL
UNION
SELECT tenant, source, edge FROM edge_claim
 WHERE tenant = ANY(%(tenants)s) AND source = ANY(%(sources)s) AND source LIKE 'job:%%' AND NOT gone
"""


def load(conn: psycopg.Connection, wanted: Mapping[Key, Ends | None]) -> dict[Key, Known]:
    """Lock and read what is stored of these edges, by ascending id.

    Those of which only the id is known, because they must exist, get their ends from the row.
    """
    known = {key: Known(key[0], ends) for key, ends in wanted.items() if ends is not None}
    tenants = sorted({tenant for tenant, _ in wanted})
    more = {key[1] for key in wanted}
    for row in conn.execute(LOCK, [tenants, listed(more)], prepare=True):
        edge = Edge(*row)
        each = known.setdefault((edge.tenant, edge.id), Known(edge.tenant, ends_of(edge)))
        each.edge = edge
        if not edge.layers & CLAIMED:
            each.claims[edge.source] = first_claim(edge)
            more.discard(edge.id)
    if more:
        for tenant, id, source, at, offset, gone, stated in conn.execute(
            CLAIMS, [tenants, listed(more)], prepare=True
        ):
            if (found := known.get((tenant, id))) is not None:
                found.claims[source] = Claim(source, (micros(at), offset), gone, stated)
    return known


def ends_of(edge: Edge) -> Ends:
    return Ends(
        edge.id, edge.upstream, edge.downstream, edge.type, edge.level, edge.up_top,
        edge.down_top, edge.implies,
    )  # fmt: skip


def put(pour: Pour, known: Iterable[Known]) -> None:
    """Bring the rows in.

    Raises UniqueViolation when another writer was quicker: then all has to be decided again.
    """
    touched = [each for each in known if each.touched and each.edge is not None]
    created = [each.edge for each in touched if each.fresh and each.edge is not None]
    changed = [each.edge for each in touched if not each.fresh and each.edge is not None]
    if created:
        pour.put_lines(NEW, created, _line)
    if changed:
        pour.put(CHANGED, changed, astuple)
    for each in touched:
        each.touched = each.fresh = False


def _line(edge: Edge) -> str:
    """As `text` would write the row; an estate comes with very many."""
    up, down = f"{edge.upstream.int:032x}", f"{edge.downstream.int:032x}"
    is_column = edge.level == "column"
    up_top = f"{edge.up_top.int:032x}" if is_column else up
    down_top = f"{edge.down_top.int:032x}" if is_column else down
    implies = f"{edge.implies.int:032x}" if edge.implies is not None else NULL
    said = NULL if edge.properties is None else dump(edge.properties)
    return (
        f"{edge.tenant}\t{edge.id.int:032x}\t{up}\t{down}\t{string(edge.type)}\t{edge.level}"
        f"\t{up_top}\t{down_top}\t{implies}\t{_text(edge.process)}\t{_text(edge.transformation)}"
        f"\t{'t' if edge.masking else 'f'}\t{edge.origin}\t{said}\t{string(edge.source)}"
        f"\t{moment(edge.observed_at)}\t{edge.log_offset}\t{edge.layers}\t{edge.version}"
        f"\t{_text(edge.deleted_by)}\t{_moment(edge.deleted_at)}\t{moment(edge.created_at)}"
        f"\t{moment(edge.updated_at)}\t{string(edge.cause)}\t{edge.feed_position}\n"
    )


def _text(value: str | None) -> str:
    return NULL if value is None else string(value)


def _moment(value: datetime | None) -> str:
    return NULL if value is None else moment(value)


def save_claims(conn: psycopg.Connection, known: Iterable[Known]) -> None:
    claims = [row for each in known for row in claim_rows(each)]
    if claims:
        with conn.cursor() as cur:
            cur.executemany(SAVE_CLAIM, claims)


def claim_rows(known: Known) -> list[tuple[Any, ...]]:
    """The claims that do not live in the row: all of them as soon as there are two."""
    alone = known.edge is not None and not known.edge.layers & CLAIMED
    if alone or not known.touched_claims:
        return []
    return [
        (known.tenant, known.ends.id, c.source, from_micros(c.when[0]), c.when[1], c.gone,
         Jsonb(c.stated))
        for c in sorted(known.claims.values(), key=lambda c: c.source)
    ]  # fmt: skip


def save_one(conn: psycopg.Connection, known: Known) -> None:
    """Replace one edge, without staging: the API has no temporary tables."""
    edge = known.edge
    assert edge is not None
    row = [Jsonb(v) if isinstance(v, dict) else v for v in astuple(edge)]
    conn.execute(REPLACE, [*row, edge.tenant, edge.id])
    with conn.cursor() as cur:
        cur.executemany(SAVE_CLAIM, claim_rows(known))


def jobs(
    conn: psycopg.Connection, tenants: Sequence[int], sources: Sequence[str]
) -> dict[tuple[int, str], When]:
    """When each job last stated all its edges."""
    rows = conn.execute(JOBS, [list(tenants), list(sources)])
    return {(tenant, source): (micros(at), offset) for tenant, source, at, offset in rows}


def of_jobs(
    conn: psycopg.Connection, tenants: Sequence[int], sources: Sequence[str]
) -> list[tuple[int, str, UUID]]:
    """The edges that these jobs claim."""
    found: list[tuple[int, str, UUID]] = conn.execute(
        OF_JOBS, {"tenants": list(tenants), "sources": list(sources)}
    ).fetchall()
    return found


def save_jobs(conn: psycopg.Connection, stated: Mapping[tuple[int, str], When]) -> None:
    with conn.cursor() as cur:
        cur.executemany(
            SAVE_JOB,
            [(tenant, source, from_micros(at), offset)
             for (tenant, source), (at, offset) in sorted(stated.items())],
        )  # fmt: skip
