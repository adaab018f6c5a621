"""What Lily has installed in sources: kept until it is taken out again."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.store.connections import COLUMNS, Connection

SILENT = timedelta(seconds=15)

WANTED = f"""
SELECT c.tenant, {", ".join(f"c.{name.strip()}" for name in COLUMNS.split(","))} FROM connection c
 WHERE c.tenant = ANY(%s) AND c.enabled AND 'source' = ANY(c.uses)
   AND c.options @> '{{"capture": true}}'
"""
CLAIM = """
INSERT INTO crawl_capture AS k
  (tenant, connection, revision, plugin, options, secrets, worker, beat_at)
VALUES (%(tenant)s, %(connection)s, %(revision)s, %(plugin)s, %(options)s, %(secrets)s,
        %(worker)s, %(now)s)
ON CONFLICT (tenant, connection) DO UPDATE
   SET worker = excluded.worker, beat_at = excluded.beat_at, revision = excluded.revision,
       plugin = excluded.plugin, options = excluded.options, secrets = excluded.secrets
 WHERE k.worker IS NULL OR k.worker = excluded.worker OR k.beat_at < %(silent)s
RETURNING k.cursor
"""
LEFT = """
UPDATE crawl_capture k SET worker = %(worker)s, beat_at = %(now)s
 WHERE k.tenant = ANY(%(tenants)s)
   AND (k.worker IS NULL OR k.worker = %(worker)s OR k.beat_at < %(silent)s)
   AND NOT EXISTS (SELECT FROM connection c WHERE c.tenant = k.tenant AND c.id = k.connection
     AND c.enabled AND 'source' = ANY(c.uses) AND c.options @> '{"capture": true}')
RETURNING k.tenant, k.connection, k.plugin, k.options, k.secrets
"""


class Installed(msgspec.Struct, frozen=True):
    """What is needed to take it out again: the connection itself may be gone."""

    tenant: int
    connection: UUID
    plugin: str
    options: dict[str, Any]
    secrets: bytes | None


def wanted(conn: psycopg.Connection, tenants: Sequence[int]) -> list[tuple[int, Connection]]:
    """Connections that ask for capture."""
    rows = conn.execute(WANTED.encode(), [list(tenants)]).fetchall()
    return [(row[0], Connection(*row[1:])) for row in rows]


def claim(
    conn: psycopg.Connection, tenant: int, connection: Connection, worker: UUID, now: datetime
) -> tuple[bool, Any]:
    """Whether it is ours to listen, and where to go on; written down before anything is done."""
    row = conn.execute(
        CLAIM,
        {
            "tenant": tenant,
            "connection": connection.id,
            "revision": connection.revision,
            "plugin": connection.plugin,
            "options": Jsonb(connection.options),
            "secrets": connection.secrets,
            "worker": worker,
            "now": now,
            "silent": now - SILENT,
        },
    ).fetchone()
    return (row is not None), (row[0] if row else None)


def beat(
    conn: psycopg.Connection,
    tenant: int,
    connection: UUID,
    revision: int,
    worker: UUID,
    now: datetime,
) -> bool:
    """False when somebody else listens, or the connection was changed or ended."""
    done = conn.execute(
        "UPDATE crawl_capture k SET beat_at = %s FROM connection c"
        " WHERE k.tenant = %s AND k.connection = %s AND k.worker = %s"
        " AND c.tenant = k.tenant AND c.id = k.connection AND c.revision = %s AND c.enabled",
        [now, tenant, connection, worker, revision],
    )
    return done.rowcount == 1


def note(
    conn: psycopg.Connection,
    tenant: int,
    connection: UUID,
    worker: UUID,
    cursor: Any = None,
    error: str = "",
) -> None:
    """Where to go on listening, or why it does not work."""
    conn.execute(
        "UPDATE crawl_capture SET cursor = coalesce(%s, cursor), error = %s"
        " WHERE tenant = %s AND connection = %s AND worker = %s",
        [None if cursor is None else Jsonb(cursor), error, tenant, connection, worker],
    )


def release(conn: psycopg.Connection, tenant: int, connection: UUID, worker: UUID) -> None:
    conn.execute(
        "UPDATE crawl_capture SET worker = NULL WHERE tenant = %s AND connection = %s"
        " AND worker = %s",
        [tenant, connection, worker],
    )


def left_behind(
    conn: psycopg.Connection, tenants: Sequence[int], worker: UUID, now: datetime
) -> list[Installed]:
    """Installed by connections that no longer ask for it; ours to take out."""
    values = {
        "tenants": list(tenants),
        "worker": worker,
        "now": now,
        "silent": now - SILENT,
    }
    return [Installed(*row) for row in conn.execute(LEFT, values).fetchall()]


def forget(conn: psycopg.Connection, gone: Installed) -> None:
    conn.execute(
        "DELETE FROM crawl_capture WHERE tenant = %s AND connection = %s",
        [gone.tenant, gone.connection],
    )
