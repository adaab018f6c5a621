"""The event log in PostgreSQL. An appender holds a shared lock, the reader an exclusive one for a
moment: so no offset below the high-water mark can still be in an open transaction."""

import struct
from collections.abc import Sequence
from typing import Any, LiteralString

import msgspec
import psycopg

from lily.errors import Unavailable
from lily.events.envelope import Envelope, encode
from lily.events.lanes import lane_of
from lily.types import LANES, Lane

FENCE = 0x6C6F67  # "log"

# The second statement looks after the lock is held: a tenant that closed before is seen.
SHARED: LiteralString = "SELECT pg_advisory_xact_lock_shared(7106407); SELECT number FROM departure"
CLOSED = "The tenant is moving to another database; what was sent can be taken in a moment."
CLOSED_SECONDS = 5.0
OFFSETS: dict[Lane, LiteralString] = {
    "core": "SELECT nextval('log_core_offset') FROM generate_series(1, %s)",
    "fields": "SELECT nextval('log_fields_offset') FROM generate_series(1, %s)",
}
COPY = 'COPY log (lane, "offset", tenant, key, value) FROM STDIN (FORMAT binary)'
WAKE = "SELECT pg_notify('lily_log', '')"
# The lane stands first in the index: without it, every row would be looked at.
LAST: dict[Lane, LiteralString] = {
    "core": """SELECT coalesce(max("offset"), 0) FROM log_core WHERE lane = 'core'""",
    "fields": """SELECT coalesce(max("offset"), 0) FROM log_fields WHERE lane = 'fields'""",
}
READ = (
    'SELECT "offset", tenant, at, key, value FROM log'
    ' WHERE lane = %s AND "offset" > %s AND "offset" <= %s ORDER BY "offset" LIMIT %s'
)


class Record(msgspec.Struct):
    """An observation on its way into the log."""

    lane: Lane
    tenant: int
    key: str
    value: bytes


def record_of(envelope: Envelope, qualified_name: str) -> Record:
    return Record(lane_of(qualified_name), envelope.tenant, qualified_name, encode(envelope))


_HEAD, _END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_LANE = {lane: struct.pack(">hi", 5, len(lane)) + lane.encode() for lane in LANES}
_place = struct.Struct(">iqiii").pack
_size = struct.Struct(">i").pack


def block(records: Sequence[Record], offsets: Sequence[int]) -> bytes:
    """As one binary COPY takes them: of text the database would look at every letter twice."""
    return b"".join((_HEAD, *map(_row, records, offsets), _END))


def _row(record: Record, offset: int) -> bytes:
    key, value = record.key.encode(), record.value
    place = _place(8, offset, 4, record.tenant, len(key))
    return b"".join((_LANE[record.lane], place, key, _size(len(value)), value))


def append_in(
    conn: psycopg.Connection, envelopes: Sequence[Envelope], keys: Sequence[str]
) -> list[int]:
    """Append inside the caller's transaction, which must be short; offsets in order."""
    records = [record_of(envelope, key) for envelope, key in zip(envelopes, keys, strict=True)]
    cursor = conn.execute(SHARED)
    cursor.nextset()
    if {number for (number,) in cursor} & {record.tenant for record in records}:
        raise Unavailable(CLOSED, after=CLOSED_SECONDS)
    offsets = _offsets(conn, records)
    with conn.cursor().copy(COPY) as copy:
        copy.write(block(records, offsets))
    conn.execute(WAKE)
    return offsets


def _offsets(conn: psycopg.Connection, records: Sequence[Record]) -> list[int]:
    pools = {
        lane: iter(conn.execute(OFFSETS[lane], [count]).fetchall())
        for lane in LANES
        if (count := sum(record.lane == lane for record in records))
    }
    return [next(pools[record.lane])[0] for record in records]


def high_water(conn: psycopg.Connection, after: dict[Lane, int]) -> dict[Lane, int]:
    """The offsets up to which nothing can still appear; takes no lock while nothing is new.

    `conn` is in autocommit. An appender that hangs makes this raise LockNotAvailable after a
    second rather than hold up all others.
    """
    if all(_last(conn, lane) <= position for lane, position in after.items()):
        return after
    with conn.transaction():
        conn.execute("SET LOCAL lock_timeout = '1s'")
        conn.execute("SELECT pg_advisory_xact_lock(%s)", [FENCE])
        return {lane: _last(conn, lane) for lane in after}


def read(
    conn: psycopg.Connection, lane: Lane, after: int, upto: int, limit: int
) -> list[tuple[Any, ...]]:
    """Rows (offset, tenant, at, key, value) behind a position, in order."""
    return conn.execute(READ, [lane, after, upto, limit]).fetchall()


def trim(
    conn: psycopg.Connection,
    lane: Lane,
    keep_hours: float,
    chunk: int = 20_000,
    unarchived: bool = False,
) -> int:
    """Forget a chunk of what was applied long ago; returns how many rows went.

    What the lake has not archived yet stays, unless there is no lake.
    """
    done = conn.execute(
        'DELETE FROM log WHERE lane = %(lane)s AND "offset" IN ('
        ' SELECT l."offset" FROM log l, applied a, archived r'
        " WHERE l.lane = %(lane)s AND a.lane = %(lane)s AND a.part = 0 AND r.lane = %(lane)s"
        ' AND l."offset" <= a.position AND (%(unarchived)s OR l."offset" <= r.position)'
        " AND l.at < now() - make_interval(secs => %(age)s)"
        ' ORDER BY l."offset" LIMIT %(chunk)s)',
        {"lane": lane, "age": keep_hours * 3600, "chunk": chunk, "unarchived": unarchived},
    )
    return done.rowcount


def _last(conn: psycopg.Connection, lane: Lane) -> int:
    row = conn.execute(LAST[lane]).fetchone()
    assert row is not None
    return int(row[0])
