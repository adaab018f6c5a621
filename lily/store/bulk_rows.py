"""New assets of a chunk on their way into the table: staged with the columns that differ.

Half of the columns are the same in all new assets of a chunk, so they are said once, where the
staged rows are inserted. An asset of which more is to be said is staged with all its columns.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import attrgetter

import msgspec
import psycopg

from lily.assets.model import COLUMNS, Asset
from lily.store.assets import ALL, lexemes, packed, packs
from lily.store.packing import block

LEAN = (
    "lane", "guid", "qualified_name", "caller_id", "asset_name", "asset_type", "asset_owner",
    "description", "parent", "data_source", "external_id", "tags", "business_terms", "metadata",
    "observed_at", "feed_position", "cause", "source", "log_offset",
)  # fmt: skip
_SAME: Mapping[str, str] = {
    "tenant": "%(tenant)s",
    "version": "1",
    "created_at": "coalesce(created_at, %(now)s)",
    "updated_at": "%(now)s",
    "applied_at": "%(now)s",
    "feed_position": "feed_position + %(position)s",
    "layers": "0",
}
STAGE = (
    "CREATE TEMP TABLE IF NOT EXISTS batch_fresh WITH (toast_tuple_target = 8160)"
    " ON COMMIT DELETE ROWS"
    f" AS SELECT {ALL} FROM lily.asset WITH NO DATA"
)
COPY_LEAN = f"COPY batch_fresh ({', '.join(LEAN)}, search) FROM STDIN (FORMAT binary)"
COPY_WHOLE = f"COPY batch_fresh ({ALL}) FROM STDIN (FORMAT binary)"
INSERT = (
    f"INSERT INTO asset ({ALL})"
    f" SELECT {', '.join(_SAME.get(name, name) for name in COLUMNS)}, search FROM batch_fresh"
)
_lean = packs((*LEAN, "search"))
_values = attrgetter(*LEAN)


class Rows(msgspec.Struct, frozen=True):
    """New assets as binary COPY: those that are like most, and the others."""

    lean: bytes
    whole: bytes


def rows_of(new: Iterable[Asset]) -> Rows:
    lean, whole = [], []
    for asset in new:
        if says_more(asset):
            whole.append(packed(asset))
        else:
            lean.append(_lean((*_values(asset), lexemes(asset))))
    return Rows(block(lean) if lean else b"", block(whole) if whole else b"")


def stage(conn: psycopg.Connection, rows: Rows) -> None:
    conn.execute(STAGE.encode())
    with conn.cursor() as cur:
        for statement, block in ((COPY_LEAN, rows.lean), (COPY_WHOLE, rows.whole)):
            if block:
                with cur.copy(statement.encode()) as copy:
                    copy.write(block)


def insert(conn: psycopg.Connection, tenant: int, position: int, now: datetime) -> None:
    """Staged rows become assets; each counted its feed position from `position`."""
    values = {"tenant": tenant, "position": position, "now": now}
    conn.execute(INSERT.encode(), values)


def says_more(a: Asset) -> bool:
    """Than the columns of LEAN can hold."""
    return (
        a.details is not None
        or a.statement is not None
        or a.own_tags is not None
        or a.own_terms is not None
        or a.expires_at is not None
        or a.created_at is not a.applied_at
    )
