"""What a recomputation of everything reads: slices of one moment, each for one executor."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.lineage.travel import SETS, Carrier, Filter
from lily.store.database import PATIENT, bind_many
from lily.store.propagation_plan import COLUMNS, Own

SLICES = 16
BATCH = 20_000

EDGES = """
SELECT e.upstream::text, e.downstream::text, e.id::text, e.type, b.stops
  FROM live_edge e
  LEFT JOIN (SELECT edge, array_agg(name) AS stops FROM block
              WHERE tenant = %(tenant)s AND NOT lifted GROUP BY edge) b ON b.edge = e.id
 WHERE e.tenant = %(tenant)s AND e.downstream BETWEEN %(low)s AND %(high)s
"""
# Assets that are there: the own labels of all, and of what rules carry the own values.
ASSETS = """
SELECT a.guid, a.lane, a.qualified_name, a.asset_type, a.data_source, a.layers,
       coalesce(a.own_tags, a.tags), coalesce(a.own_terms, a.business_terms),
       a.asset_owner, a.description, a.metadata, a.edited
  FROM asset a
 WHERE a.tenant = %(tenant)s AND a.guid BETWEEN %(low)s AND %(high)s
   AND a.deleted_by IS NULL AND a.archived_at IS NULL
   AND (%(all)s OR a.tags <> '{}' OR a.business_terms <> '{}' OR a.own_tags <> '{}')
"""
LABEL_VALUES = """
SELECT guid, kind, tag, value FROM tag_assignment
 WHERE tenant = %s AND guid = ANY(%s) AND state = 'active' AND value <> ''
"""
STORED = """
SELECT p.guid::text, p.field, p.name, p.value, p.root::text, p.depth, p.via::text,
       coalesce(p.rule::text, '')
  FROM propagated p JOIN asset a ON a.tenant = p.tenant AND a.guid = p.guid
   AND a.deleted_by IS NULL AND a.archived_at IS NULL
   AND (a.lane = 'core' OR NOT EXISTS (
     SELECT FROM asset t WHERE t.tenant = a.tenant AND t.guid = a.parent AND t.lane = 'core'
        AND (t.deleted_by IS NOT NULL OR t.archived_at IS NOT NULL)))
 WHERE p.tenant = %(tenant)s AND p.guid BETWEEN %(low)s AND %(high)s
"""

Row = tuple[Any, ...]


class Moment(msgspec.Struct, frozen=True):
    """A snapshot that others can join while its owner keeps it open."""

    snapshot: str
    tenant: int


def open_moment(conn: psycopg.Connection, tenant: int) -> Moment:
    """Begin it; `conn` must not be in a transaction, and stays in one until `rollback`."""
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    conn.execute(PATIENT)  # it stays open while executors work on what they read
    bind_many(conn, [tenant])
    row = conn.execute("SELECT pg_export_snapshot()").fetchone()
    assert row is not None
    return Moment(row[0], tenant)


def join_moment(conn: psycopg.Connection, moment: Moment) -> None:
    """See exactly what its owner sees, until `rollback`."""
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    conn.execute(f"SET TRANSACTION SNAPSHOT '{moment.snapshot}'")
    conn.execute(PATIENT)
    bind_many(conn, [moment.tenant])


def edges(conn: psycopg.Connection, tenant: int, part: int) -> Iterator[list[Row]]:
    """Upstream, downstream, id, type, and what is stopped."""
    yield from _read(conn, EDGES, _bounds(tenant, part))


def stored(conn: psycopg.Connection, tenant: int, part: int) -> Iterator[list[Row]]:
    """What has arrived, by the store."""
    yield from _read(conn, STORED, _bounds(tenant, part))


def seeds(
    conn: psycopg.Connection, tenant: int, part: int, carriers: Sequence[Carrier], own: Own
) -> Iterator[list[Row]]:
    """What assets have of their own: number of the carrier, name, slot, guid, value."""
    derived = sorted({c.field for c in carriers if not c.plugin}.difference(SETS))
    computes = any(each.plugin for each in carriers)
    values = {**_bounds(tenant, part), "all": bool(derived) or computes}
    for rows in _read(conn, ASSETS, values):
        found = _labels(conn, tenant, rows, carriers)
        if derived:
            found += _values(rows, carriers, derived, own)
        if computes:
            found += _computed(rows, carriers, own)
        yield found


def allowed(
    conn: psycopg.Connection, tenant: int, part: int, carriers: Sequence[Carrier]
) -> Iterator[list[Row]]:
    """Which assets may receive what only some may: number of the carrier, guid."""
    values = {**_bounds(tenant, part), "all": True}
    choosy = [(n, c.receivers) for n, c in enumerate(carriers) if not c.receivers.is_empty]
    for rows in _read(conn, ASSETS, values):
        yield [(n, str(row[0])) for row in rows for n, which in choosy if _fits(which, row)]


def _labels(
    conn: psycopg.Connection, tenant: int, rows: Sequence[Row], carriers: Sequence[Carrier]
) -> list[Row]:
    assigned = [row[0] for row in rows if row[5] & 4]
    valued: dict[tuple[UUID, str, str], list[str]] = {}
    if assigned:
        for guid, kind, name, value in conn.execute(LABEL_VALUES, [tenant, assigned]):
            valued.setdefault((guid, kind, name), []).append(value)
    found = []
    for row in rows:
        for field, names in (("tag", row[6]), ("term", row[7])):
            for name in names:
                for n, each in enumerate(carriers):
                    if each.field == field and each.name in (None, name) and _fits(each.roots, row):
                        for value in valued.get((row[0], field, name), [""]):
                            found.append((n, name, value, str(row[0]), value))
    return found


def _computed(rows: Sequence[Row], carriers: Sequence[Carrier], own: Own) -> list[Row]:
    """What plug-ins make of the assets that their rules start from."""
    roots = [row for row in rows if any(c.plugin and _fits(c.roots, row) for c in carriers)]
    made = own.computed([(row[0], row[1], row[2]) for row in roots], carriers) if roots else {}
    return [
        (n, "", "", str(row[0]), value)
        for row in roots
        for n, (each, value) in enumerate(zip(carriers, made[row[0]], strict=True))
        if value and _fits(each.roots, row)
    ]


def _values(
    rows: Sequence[Row], carriers: Sequence[Carrier], fields: Sequence[str], own: Own
) -> list[Row]:
    brought = [(row[0], row[1], row[2]) for row in rows if row[5] & 8]
    said = own.values(brought, fields) if brought else {}
    found: list[Row] = []
    for row in rows:
        mine = said[row[0]] if row[5] & 8 else _plain(row, fields)
        for n, each in enumerate(carriers):
            if (value := mine.get(each.field)) and each.field not in SETS and not each.plugin:
                edited = each.always and each.field in (row[11] or {})
                if _fits(each.roots, row) or edited:
                    found.append((n, "", "", str(row[0]), value))
    return found


def _plain(row: Row, fields: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in fields:
        value = row[8 + COLUMNS.index(field)] if field in COLUMNS else None
        if field not in COLUMNS:
            known = row[10].get(field.removeprefix("metadata."))
            value = None if known in (None, "") else msgspec.json.encode(known).decode()
        if value:
            found[field] = value
    return found


def _fits(which: Filter, row: Row) -> bool:
    return (
        (not which.asset_type or row[3] in which.asset_type)
        and (not which.data_source or row[4] in which.data_source)
        and (not which.under or row[2].startswith(which.under))
    )


def _bounds(tenant: int, part: int) -> dict[str, Any]:
    width = 1 << (128 - SLICES.bit_length() + 1)
    low = part * width
    return {"tenant": tenant, "low": UUID(int=low), "high": UUID(int=low + width - 1)}


def _read(conn: psycopg.Connection, query: str, values: dict[str, Any]) -> Iterator[list[Row]]:
    with conn.cursor(name="part") as cur:
        cur.execute(query, values)
        while rows := cur.fetchmany(BATCH):
            yield rows
