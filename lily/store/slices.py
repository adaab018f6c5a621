"""The assets of a cell as the lake keeps the latest of them: in slices that change alone."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, LiteralString
from uuid import UUID

import msgspec
import psycopg

BUCKETS = 16
SLICES = 16
BATCH = 20_000

Slice = tuple[int, int]  # bucket of the tenant, slice of the guid
Row = Callable[[int, int, Sequence[Any]], tuple[Any, ...]]

# A field follows its direct parent, here as everywhere that assets are shown.
_GONE = """
WITH gone AS MATERIALIZED (
  SELECT tenant, guid FROM asset WHERE tenant = ANY(%(tenants)s) AND deleted_by IS NOT NULL
  UNION ALL
  SELECT t.tenant, t.guid FROM tombstone t WHERE t.tenant = ANY(%(tenants)s)
     AND NOT EXISTS (SELECT FROM asset a WHERE a.tenant = t.tenant AND a.guid = t.guid)
)
"""
_JOIN = """
  FROM asset a LEFT JOIN gone g ON a.lane = 'fields' AND a.deleted_by IS NULL
   AND g.tenant = a.tenant AND g.guid = a.parent
"""
# Whatever touches a row gives it a new xmin, so a slice that adds up to the same has not changed.
DIGESTS = f"""
{_GONE}
SELECT a.tenant %% {BUCKETS}, get_byte(uuid_send(a.guid), 0) >> 4,
       concat_ws('.', count(*), sum(a.xmin::text::bigint), max(a.xmin::text::bigint),
                 sum(hashtextextended(a.guid::text, 0)) FILTER (WHERE g.guid IS NOT NULL))
  {_JOIN} WHERE a.tenant = ANY(%(tenants)s) GROUP BY 1, 2 ORDER BY 1, 2
"""
ROWS = f"""
{_GONE}
SELECT a.tenant, a.guid::text, a.version, a.feed_position, a.lane, a.qualified_name,
       coalesce(a.caller_id, a.guid::text), a.asset_name, a.asset_type, a.asset_owner,
       a.description, a.parent::text, a.data_source, a.external_id, a.tags, a.business_terms,
       a.metadata, a.details, a.deleted_by IS NOT NULL OR g.guid IS NOT NULL,
       a.archived_at IS NOT NULL,
       coalesce(a.deleted_by, 'parent:' || g.guid), a.created_at, a.updated_at, a.observed_at,
       a.applied_at
  {_JOIN} WHERE a.tenant = ANY(%(members)s) AND a.guid BETWEEN %(low)s AND %(high)s
 ORDER BY a.tenant, a.guid
"""
_METADATA, _DETAILS = 16, 17
# Places in a row as the lake has it, which begins with bucket and slice.
_LANE, _NAME, _TYPE, _TAGS, _UPDATED = 6, 7, 10, 16, 24

_encode = msgspec.json.Encoder(order="sorted").encode


def digests(conn: psycopg.Connection, tenants: Sequence[int]) -> dict[Slice, str]:
    """What each slice adds up to. Reads every row once, so not to be asked all the time."""
    rows = conn.execute(DIGESTS, {"tenants": list(tenants)}).fetchall()
    return {(bucket, part): digest for bucket, part, digest in rows}


def rows_of(
    conn: psycopg.Connection, tenants: Sequence[int], which: Slice
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a slice for the lake, in batches; `conn` is in a transaction."""
    return read(conn, ROWS, tenants, which, _row)


def read(
    conn: psycopg.Connection, query: LiteralString, tenants: Sequence[int], which: Slice, row: Row
) -> Iterator[list[tuple[Any, ...]]]:
    """What a query finds between the ids `low` and `high` of the tenants `members`."""
    bucket, part = which
    values = {
        "tenants": list(tenants),
        "members": [number for number in tenants if number % BUCKETS == bucket],
        "low": UUID(int=part << 124),
        "high": UUID(int=((part + 1) << 124) - 1),
    }
    with conn.cursor(name="slice") as cur:
        cur.execute(query, values)
        while batch := cur.fetchmany(BATCH):
            yield [row(bucket, part, each) for each in batch]


def tags_of(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """One row a tag, from rows of assets."""
    return [
        (*row[:4], tag, row[_LANE], row[_TYPE], row[_NAME], row[_UPDATED])
        for row in rows
        for tag in row[_TAGS]
    ]


def _row(bucket: int, part: int, row: Sequence[Any]) -> tuple[Any, ...]:
    metadata, details = row[_METADATA], row[_DETAILS]
    return (
        bucket, part, *row[:_METADATA], _encode(metadata).decode(),
        _encode(details).decode() if details else None, *row[_DETAILS + 1 :],
    )  # fmt: skip
