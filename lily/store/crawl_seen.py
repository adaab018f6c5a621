"""What a connection last said of every asset: so that only differences are sent."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.types.json import Jsonb

# Each by its key: a join would read all that is known of the connection, for every chunk.
COMPARE = """
SELECT g.guid, s.hash IS NULL
  FROM unnest(%(guids)s::uuid[], %(hashes)s::bytea[]) AS g (guid, hash)
  LEFT JOIN LATERAL (
    SELECT hash FROM crawl_seen
     WHERE tenant = %(tenant)s AND connection = %(connection)s AND guid = g.guid LIMIT 1
  ) s ON true
 WHERE s.hash IS DISTINCT FROM g.hash
"""
MARK = """
INSERT INTO crawl_seen AS s (tenant, connection, guid, run, hash, qualified_name, edge)
SELECT %(tenant)s, %(connection)s, g.guid, %(run)s, g.hash, g.name, g.edge
  FROM unnest(%(guids)s::uuid[], %(hashes)s::bytea[], %(names)s::text[], %(edges)s::text[])
       AS g (guid, hash, name, edge)
 ORDER BY g.guid
ON CONFLICT (tenant, connection, guid) DO UPDATE
   SET run = greatest(s.run, excluded.run), hash = excluded.hash
"""
TOUCH = (
    "UPDATE crawl_seen SET run = greatest(run, %s)"
    " WHERE tenant = %s AND connection = %s AND guid = ANY(%s)"
)
# The boundary is one of . # / so that `shop.people` does not mean `shop.people_old`.
UNSEEN = """
SELECT guid, qualified_name, edge FROM crawl_seen
 WHERE tenant = %(tenant)s AND connection = %(connection)s AND run < %(run)s
   AND (%(scope)s::text IS NULL OR qualified_name = %(scope)s
     OR (starts_with(qualified_name, %(scope)s)
       AND (right(%(scope)s, 1) IN ('.', '#', '/')
         OR substr(qualified_name, length(%(scope)s) + 1, 1) IN ('.', '#', '/'))))
 LIMIT %(limit)s
"""


class Stated(msgspec.Struct, frozen=True):
    """An asset by name, and a hash of what is said of it.

    An edge goes by the name of its downstream end, and `edge` tells which one it is.
    """

    guid: UUID
    hash: bytes
    qualified_name: str
    edge: str | None = None


class Progress(msgspec.Struct, frozen=True):
    """A reading under way: the run that began it, and where to go on."""

    run: int
    cursor: Any = None


class Seen:
    """The memory of one connection, inside one transaction."""

    def __init__(self, conn: psycopg.Connection, tenant: int, connection: UUID) -> None:
        self._conn = conn
        self._key = {"tenant": tenant, "connection": connection}

    def differing(self, stated: Sequence[Stated]) -> dict[UUID, bool]:
        """Those that were not sent like this before; true for those never sent at all."""
        values = {"guids": [s.guid for s in stated], "hashes": [s.hash for s in stated]}
        return dict(self._conn.execute(COMPARE, {**self._key, **values}).fetchall())

    def mark(self, run: int, stated: Sequence[Stated]) -> None:
        """Remember what is said now, and that this run saw it."""
        values = {
            "run": run,
            "guids": [s.guid for s in stated],
            "hashes": [s.hash for s in stated],
            "names": [s.qualified_name for s in stated],
            "edges": [s.edge for s in stated],
        }
        self._conn.execute(MARK, {**self._key, **values})

    def touch(self, run: int, guids: Sequence[UUID]) -> None:
        """This run saw them, though what it saw could not be sent."""
        self._conn.execute(TOUCH, [run, *self._key.values(), list(guids)])

    def known(self, guids: Sequence[UUID]) -> set[UUID]:
        rows = self._conn.execute(
            "SELECT guid FROM crawl_seen WHERE tenant = %s AND connection = %s AND guid = ANY(%s)",
            [*self._key.values(), list(guids)],
        ).fetchall()
        return {row[0] for row in rows}

    def unseen(self, run: int, scope: str | None, limit: int) -> list[tuple[UUID, str, str | None]]:
        """What this run, now complete, did not see."""
        values = {**self._key, "run": run, "scope": scope, "limit": limit}
        return self._conn.execute(UNSEEN, values).fetchall()

    def forget(self, guids: Sequence[UUID]) -> None:
        self._conn.execute(
            "DELETE FROM crawl_seen WHERE tenant = %s AND connection = %s AND guid = ANY(%s)",
            [*self._key.values(), list(guids)],
        )

    def progress(self) -> Progress | None:
        """Where the last reading stopped, if it did not come to its end."""
        row = self._conn.execute(
            "SELECT pass, cursor FROM crawl_state WHERE tenant = %s AND connection = %s",
            list(self._key.values()),
        ).fetchone()
        return Progress(*row) if row and row[0] is not None else None

    def keep(self, progress: Progress | None, schedule: str) -> None:
        """In the transaction of what came before the cursor, so that it never runs ahead."""
        self._conn.execute(
            "INSERT INTO crawl_state AS s (tenant, connection, schedule, pass, cursor)"
            " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (tenant, connection)"
            " DO UPDATE SET pass = excluded.pass, cursor = excluded.cursor",
            [
                *self._key.values(),
                schedule,
                progress.run if progress else None,
                Jsonb(progress.cursor) if progress and progress.cursor is not None else None,
            ],
        )
