"""What the lake archives: the applied part of the log, and the facts of every tenant."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from lily.store import positions
from lily.store.database import Database
from lily.types import LANES, Lane

Rows = list[tuple[Any, ...]]

# Only what is applied: behind that, an offset may still be in an open transaction.
LOG = (
    'SELECT tenant, lane, "offset", at, key, value, 0 FROM log'
    ' WHERE lane = %s AND "offset" > %s AND "offset" <= %s ORDER BY "offset" LIMIT %s'
)
LOG_OF = (
    'SELECT tenant, lane, "offset", at, key, value, 0 FROM log'
    ' WHERE lane = %s AND "offset" > %s AND tenant = %s ORDER BY "offset"'
)
HEADS = "SELECT tenant, position FROM feed_head WHERE tenant = ANY(%s)"
FACTS = (
    "SELECT tenant, position, kind, at, guid::text, version, cause, payload, encode(hash, 'hex')"
    " FROM fact WHERE tenant = %s AND position > %s AND position <= %s"
    " ORDER BY position LIMIT %s"
)
SINCE = (
    "SELECT coalesce(extract(epoch FROM now() - min(at)), 0)::float8 FROM fact"
    " WHERE tenant = %s AND position = %s"
)
ARCHIVED = (
    "SELECT r.lane, a.position - r.position, extract(epoch FROM now() - r.at)::float8"
    " FROM archived r JOIN applied a ON a.lane = r.lane AND a.part = 0"
)


def catalog_url(database: Database, cell: str) -> str:
    """The lake's catalog in a cell's own database, as SQLAlchemy writes addresses."""
    given = {key: str(value) for key, value in conninfo_to_dict(database.role_url(cell)).items()}
    given["options"] = given["options"].replace("search_path=lily,", "search_path=lake,")
    return "postgresql+psycopg:///?" + urlencode(given, quote_via=quote)


def log_after(
    conn: psycopg.Connection, start: Mapping[str, int], limit: int
) -> tuple[Rows, dict[str, int]]:
    """The next applied observations of both lanes, and where the lanes then stand."""
    applied = positions.applied(conn)
    found: Rows = []
    end: dict[str, int] = {}
    for lane in LANES:
        after, left = start.get(lane, 0), limit - len(found)
        rows = conn.execute(LOG, [lane, after, applied[lane], left]).fetchall() if left else []
        found += rows
        if len(rows) == left:
            end[lane] = rows[-1][2] if rows else after
        else:
            end[lane] = max(after, applied[lane])
    return [row for row in found if row[0]], end  # tenant 0 is the pipeline warming itself up


def log_of(conn: psycopg.Connection, tenant: int, start: Mapping[str, int]) -> Rows:
    """What the log holds of one tenant behind a position."""
    return [
        row
        for lane in LANES
        for row in conn.execute(LOG_OF, [lane, start.get(lane, 0), tenant]).fetchall()
    ]


def mark_archived(conn: psycopg.Connection, reached: Mapping[str, int]) -> None:
    """The lake has committed the log up to here: now it may be trimmed."""
    for lane in LANES:
        conn.execute(
            "UPDATE archived SET position = greatest(position, %s), at = now() WHERE lane = %s",
            [reached.get(lane, 0), lane],
        )


def heads(conn: psycopg.Connection, tenants: Sequence[int]) -> dict[int, int]:
    return dict(conn.execute(HEADS, [list(tenants)]).fetchall())


def facts_after(
    conn: psycopg.Connection, start: Mapping[str, int], heads: Mapping[int, int], limit: int
) -> tuple[Rows, dict[str, int]]:
    """The next facts of these tenants, and how far each feed then is read."""
    found: Rows = []
    end = dict(start)
    for tenant, head in sorted(heads.items()):
        after, left = start.get(str(tenant), 0), limit - len(found)
        if head <= after or left <= 0:
            continue
        rows = [_with_names(*row) for row in conn.execute(FACTS, [tenant, after, head, left])]
        found += rows
        if rows:
            end[str(tenant)] = rows[-1][1]
    return found, end


class _Names(msgspec.Struct):
    """Of a payload only what has a column of its own."""

    by: str | None = None
    qualified_name: str | None = None


_names = msgspec.json.Decoder(_Names).decode
_ERASED = _Names()


def _with_names(
    tenant: int, position: int, kind: str, at: datetime, guid: str | None, version: int,
    cause: str, payload: str | None, digest: str,
) -> tuple[Any, ...]:  # fmt: skip
    """Read out here: the database would parse each payload once a column."""
    said = _ERASED if payload is None else _names(payload)
    return (
        tenant, position, kind, at, said.by, guid, said.qualified_name, version, cause, payload,
        digest,
    )  # fmt: skip


def waits_since(conn: psycopg.Connection, tenant: int, position: int) -> float:
    """Seconds since the first fact behind a position was recorded; 0 if there is none."""
    row = conn.execute(SINCE, [tenant, position + 1]).fetchone()
    return max(0.0, row[0]) if row else 0.0


def log_lag(conn: psycopg.Connection) -> dict[Lane, float]:
    """Seconds that each lane's archive is behind at most; 0 when it has everything applied."""
    rows = conn.execute(ARCHIVED).fetchall()
    return {lane: max(0.0, seconds) if behind > 0 else 0.0 for lane, behind, seconds in rows}
