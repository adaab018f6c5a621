"""The edges of a cell as the lake keeps the latest of them: in slices that change alone."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import psycopg

from lily.store.slices import BUCKETS, Slice, read

# As with assets: what touches a row gives it a new xmin.
DIGESTS = f"""
SELECT tenant %% {BUCKETS}, get_byte(uuid_send(id), 0) >> 4,
       concat_ws('.', count(*), sum(xmin::text::bigint), max(xmin::text::bigint))
  FROM edge WHERE tenant = ANY(%(tenants)s) GROUP BY 1, 2 ORDER BY 1, 2
"""
# Names one by one: while an estate grows, a join is planned as if it were still small.
ROWS = """
SELECT e.tenant, e.id::text, e.upstream::text, e.downstream::text,
       (SELECT u.qualified_name FROM asset u WHERE u.tenant = e.tenant AND u.guid = e.upstream),
       (SELECT d.qualified_name FROM asset d WHERE d.tenant = e.tenant AND d.guid = e.downstream),
       e.type, e.level, e.process, e.transformation, e.masking, e.origin,
       e.source, e.properties, e.version, e.feed_position, e.deleted_by IS NOT NULL, e.deleted_by,
       e.created_at, e.updated_at, e.observed_at
  FROM edge e
 WHERE e.tenant = ANY(%(members)s) AND e.id BETWEEN %(low)s AND %(high)s
 ORDER BY e.tenant, e.id
"""
_PROPERTIES = 13

_encode = msgspec.json.Encoder(order="sorted").encode


def digests(conn: psycopg.Connection, tenants: Sequence[int]) -> dict[Slice, str]:
    """What each slice adds up to."""
    rows = conn.execute(DIGESTS, {"tenants": list(tenants)}).fetchall()
    return {(bucket, part): digest for bucket, part, digest in rows}


def rows_of(
    conn: psycopg.Connection, tenants: Sequence[int], which: Slice
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a slice for the lake, in batches; `conn` is in a transaction."""
    return read(conn, ROWS, tenants, which, _row)


def _row(bucket: int, part: int, row: Sequence[Any]) -> tuple[Any, ...]:
    properties = row[_PROPERTIES]
    said = _encode(properties).decode() if properties else None
    return (bucket, part, *row[:_PROPERTIES], said, *row[_PROPERTIES + 1 :])
