"""How far the pipeline has come: the one truth, in the same transaction as the rows."""

from typing import LiteralString

import psycopg

from lily.types import Lane, Place

APPLIED = "SELECT lane, position FROM applied WHERE part = 0"


RESERVE: dict[Lane, LiteralString] = {
    "core": "SELECT nextval('log_core_offset') FROM generate_series(1, %s)",
    "fields": "SELECT nextval('log_fields_offset') FROM generate_series(1, %s)",
}
REACHED = "SELECT position FROM applied WHERE lane = %s AND part = %s"
PARTS = "SELECT lane, part, position FROM applied WHERE part > 0"
BEGIN = "INSERT INTO applied (lane, part) VALUES (%s, %s) ON CONFLICT DO NOTHING"


def applied(conn: psycopg.Connection) -> dict[Lane, int]:
    return dict(conn.execute(APPLIED).fetchall())


def begun(conn: psycopg.Connection, lane: Lane, parts: int) -> dict[int, int]:
    """How far each of so many parts of a lane is; one that was never read begins at nothing."""
    for part in range(1, parts + 1):
        conn.execute(BEGIN, [lane, part])
    return {part: at for each, part, at in conn.execute(PARTS).fetchall() if each == lane}


def parts(conn: psycopg.Connection) -> dict[tuple[Lane, int], int]:
    """The next offset to read of every part of the log that is in Kafka."""
    return {(lane, part): at for lane, part, at in conn.execute(PARTS).fetchall()}


def reserve(conn: psycopg.Connection, lane: Lane, count: int) -> list[int]:
    """So many places at the end of a lane's order, which PostgreSQL's own log shares."""
    return [place for (place,) in conn.execute(RESERVE[lane], [count]).fetchall()]


def reached(conn: psycopg.Connection, place: Place) -> bool:
    """Whether everything up to a place is in the store."""
    row = conn.execute(REACHED, [place.lane, place.part]).fetchone()
    return row is not None and bool(row[0] >= place.position)


def leaving(conn: psycopg.Connection) -> set[int]:
    """Tenants that are on their way out of this cell, and of which no more may be applied."""
    rows = conn.execute("SELECT number FROM departure WHERE phase <> 'closing'").fetchall()
    return {number for (number,) in rows}
