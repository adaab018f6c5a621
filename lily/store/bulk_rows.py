"""New assets of a chunk on their way into the table: staged with the columns that differ.

Half of the columns are the same in all new assets of a chunk, so they are said once, where the
staged rows are inserted. An asset of which more is to be said is staged with all its columns.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec
import psycopg
from msgspec.structs import astuple

from lily.assets.model import COLUMNS, Asset
from lily.store.assets import ALL, search_vector
from lily.store.copying import NULL, array, dump, moment, string, text

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
COPY_LEAN = f"COPY batch_fresh ({', '.join(LEAN)}, search) FROM STDIN"
COPY_WHOLE = f"COPY batch_fresh ({ALL}) FROM STDIN"
INSERT = (
    f"INSERT INTO asset ({ALL})"
    f" SELECT {', '.join(_SAME.get(name, name) for name in COLUMNS)}, search FROM batch_fresh"
)


class Rows(msgspec.Struct, frozen=True):
    """New assets as COPY text: those that are like most, and the others."""

    lean: str
    whole: str


def rows_of(new: Iterable[Asset]) -> Rows:
    lean, whole = [], []
    for asset in new:
        line = lean_line(asset)
        if line is None:
            whole.append(text((*astuple(asset), search_vector(asset))))
        else:
            lean.append(line)
    return Rows("".join(lean), "".join(whole))


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


def lean_line(asset: Asset) -> str | None:
    """The columns of LEAN and the search vector; None if the asset has more to say."""
    a = asset
    words = (
        f"{a.qualified_name}{a.caller_id}{a.asset_name}{a.asset_type}{a.asset_owner}{a.description}"
        f"{a.data_source}{a.external_id}{a.cause}{a.source}"
    )
    if "\\" in words or "\n" in words or "\t" in words or "\r" in words:
        return None
    if a.created_at is not a.applied_at or _says_more(a):
        return None
    null = NULL
    return (
        f"{a.lane}\t{a.guid.int:032x}\t{a.qualified_name}\t"
        f"{null if a.caller_id is None else a.caller_id}\t{a.asset_name}\t{a.asset_type}\t"
        f"{null if a.asset_owner is None else a.asset_owner}\t"
        f"{null if a.description is None else a.description}\t"
        f"{null if a.parent is None else f'{a.parent.int:032x}'}\t"
        f"{null if a.data_source is None else a.data_source}\t"
        f"{null if a.external_id is None else a.external_id}\t"
        f"{array(a.tags)}\t{array(a.business_terms)}\t{dump(a.metadata) if a.metadata else '{}'}\t"
        f"{moment(a.observed_at)}\t{a.feed_position}\t{a.cause}\t{a.source}\t{a.log_offset}\t"
        f"{string(search_vector(a))}\n"
    )


def _says_more(a: Asset) -> bool:
    return (
        a.details is not None
        or a.statement is not None
        or a.own_tags is not None
        or a.own_terms is not None
        or a.expires_at is not None
    )
