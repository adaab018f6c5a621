"""The feed: dense positions per tenant, a hash chain, one writer at a time per tenant."""

from collections.abc import Iterator, Sequence
from uuid import UUID

import msgspec
import psycopg

from lily.events.chain import GENESIS, Break, Link, forge, verify
from lily.events.facts import Fact
from lily.store.database import Unit

HEAD = "SELECT position, hash FROM feed_head WHERE tenant = %s FOR UPDATE"
FIRST_HEAD = (
    "INSERT INTO feed_head (tenant, position, hash) VALUES (%s, 0, %s) ON CONFLICT DO NOTHING"
)
MOVE_HEAD = "UPDATE feed_head SET position = %s, hash = %s WHERE tenant = %s"
COLUMNS = "tenant, position, kind, at, guid, version, cause, payload, salt, payload_hash, hash"
INSERT = f"INSERT INTO fact ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"


def record(unit: Unit, facts: Sequence[Fact]) -> int:
    """Write facts in this transaction; returns the position of the first.

    Call it after the rows that they are about are locked, and commit soon: the tenant's other
    writers wait from here on.
    """
    position, previous = take_head(unit.conn, unit.tenant.number)
    links = forge(unit.tenant.number, position, previous, facts)
    with unit.conn.cursor() as cur:
        cur.executemany(INSERT, [msgspec.structs.astuple(link) for link in links])
    move_head(unit.conn, links[-1])
    return position + 1


def take_head(conn: psycopg.Connection, tenant: int) -> tuple[int, bytes]:
    """Lock the tenant's feed until the end of the transaction."""
    row = conn.execute(HEAD, [tenant]).fetchone()
    if row is None:
        conn.execute(FIRST_HEAD, [tenant, GENESIS])
        row = conn.execute(HEAD, [tenant]).fetchone()
    assert row is not None
    return row[0], row[1]


def move_head(conn: psycopg.Connection, last: Link) -> None:
    conn.execute(MOVE_HEAD, [last.position, last.hash, last.tenant])
    conn.execute("SELECT pg_notify('lily_facts', %s)", [f"{last.tenant}:{last.position}"])


def after(
    unit: Unit, position: int, limit: int, guid: UUID | None = None, kinds: Sequence[str] = ()
) -> list[Link]:
    """The next facts behind a position, in order."""
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM fact WHERE tenant = %(tenant)s AND position > %(after)s"
        " AND (%(guid)s::uuid IS NULL OR guid = %(guid)s)"
        " AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))"
        " ORDER BY position LIMIT %(limit)s",
        {
            "tenant": unit.tenant.number,
            "after": position,
            "guid": guid,
            "kinds": list(kinds) or None,
            "limit": limit,
        },
    ).fetchall()
    return [Link(*row) for row in rows]


def head(unit: Unit) -> int:
    row = unit.conn.execute(
        "SELECT position FROM feed_head WHERE tenant = %s", [unit.tenant.number]
    ).fetchone()
    return row[0] if row else 0


def check(unit: Unit, chunk: int = 10_000) -> Break | None:
    """Verify a tenant's whole feed, and that its end is where the head says."""
    row = unit.conn.execute(
        "SELECT position, hash FROM feed_head WHERE tenant = %s", [unit.tenant.number]
    ).fetchone()
    position, digest = (row[0], row[1]) if row else (0, GENESIS)
    last: list[Link] = []

    def links() -> Iterator[Link]:
        at = 0
        while at < position and (page := after(unit, at, min(chunk, position - at))):
            yield from page
            at = page[-1].position
            last[:] = page[-1:]

    if (broken := verify(links())) is not None:
        return broken
    end = last[0] if last else None
    if (end.position if end else 0) != position:
        return Break((end.position if end else 0) + 1, f"the feed ends before its head {position}")
    if end is not None and end.hash != digest:
        return Break(end.position, "the head's hash is not that of the last row")
    return None
