"""Rows that are packed for COPY are, in the database, the rows that text makes."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace
from psycopg import sql

from lily.assets.model import Asset
from lily.events.chain import Link
from lily.store import assets, bulk_rows, feed, outcome, packing
from lily.store.copying import text
from lily.store.vectors import written

AT = datetime(2026, 11, 15, 12, 30, 0, 250, UTC)
EARLY, LATE = datetime(1999, 12, 31, 23, 59, 59, 999_999, UTC), datetime(9999, 12, 31, tzinfo=UTC)
SPECIAL = 'tab\there, line\nend\r, back\\slash, "quote", it\'s {ümlaut} 日本語'
ASSET = Asset(
    1, "core", UUID(int=5), "postgres://h:1/a.people", None, "people", "table", None, None, None,
    None, None, [], [], {}, None, 1, None, None, None, None, AT, AT, AT, AT, 2**40, "cause",
    "source", 2**41, 0, None, None,
)  # fmt: skip
FULL = Asset(
    2**31 - 1, "fields", UUID(int=2**128 - 1), f"{SPECIAL}#x", SPECIAL, SPECIAL, SPECIAL, SPECIAL,
    f"{SPECIAL} and {SPECIAL * 400}", UUID(int=7), SPECIAL, SPECIAL, ["PII", "pii", SPECIAL, ""],
    [SPECIAL], {SPECIAL: [SPECIAL, 1e300, None], "n": 12345678901234567890}, {"a": {}}, 7, "person",
    EARLY, LATE, AT, EARLY, LATE, AT, AT, 0, SPECIAL, SPECIAL, 0, 63, {"b": SPECIAL}, {}, [], ["a"],
)  # fmt: skip
LINK = Link(1, 5, "AssetCreated", AT, UUID(int=3), 3, "request-1", "{}", b"\x00s", b"p", b"h")

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
names = words.filter(bool)
labels = st.lists(names, max_size=5)
made = st.builds(
    lambda name, title, owner, told, tags, terms, metadata: replace(
        ASSET, qualified_name=name, asset_name=title, asset_owner=owner, description=told,
        tags=tags, business_terms=terms, metadata=metadata,
    ),
    names, names, st.none() | words, st.none() | st.text("aB7 .İ\n", max_size=700), labels, labels,
    st.dictionaries(names, st.none() | st.booleans() | st.integers(-9, 9) | words, max_size=4),
)  # fmt: skip


@pytest.fixture(scope="module")
def conn(home: str) -> Iterator[psycopg.Connection]:
    path = "-c search_path=lily,pg_temp"
    with psycopg.connect(home, autocommit=True, options=path) as conn:
        yield conn


def both(
    conn: psycopg.Connection, table: str, columns: str, packed: bytes, lines: str
) -> tuple[list[Any], list[Any]]:
    """The same rows by either way, read back."""
    found = []
    for block, how in ((packed, " (FORMAT binary)"), (lines, "")):
        conn.execute("DROP TABLE IF EXISTS pg_temp.way")
        like = "CREATE TEMP TABLE way AS SELECT {} FROM {} WITH NO DATA"
        names = sql.SQL(", ").join(map(sql.Identifier, columns.split(", ")))
        conn.execute(sql.SQL(like).format(names, sql.Identifier(table)))
        with conn.cursor().copy(f"COPY way ({columns}) FROM STDIN{how}".encode()) as copy:
            copy.write(block)
        found.append(conn.execute("SELECT way::text FROM way").fetchall())
    return found[0], found[1]


def as_text(rows: Sequence[Asset]) -> str:
    return "".join(text((*astuple(each), written(assets.lexemes(each)))) for each in rows)


@pytest.mark.parametrize("asset", [ASSET, FULL, replace(FULL, lane="core", edited=None)])
def test_an_asset_is_the_same_packed_and_as_text(conn: psycopg.Connection, asset: Asset) -> None:
    packed = packing.block([assets.packed(asset)] * 2)
    ours, theirs = both(conn, "asset", assets.ALL, packed, as_text([asset] * 2))
    assert ours == theirs and len(ours) == 2


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(made, min_size=1, max_size=20))
def test_whatever_an_asset_says_is_the_same_packed_and_as_text(
    conn: psycopg.Connection, several: list[Asset]
) -> None:
    packed = packing.block([assets.packed(each) for each in several])
    ours, theirs = both(conn, "asset", assets.ALL, packed, as_text(several))
    assert ours == theirs and len(ours) == len(several)


@settings(max_examples=50, deadline=None)
@given(st.lists(made, min_size=1, max_size=10))
def test_a_new_asset_of_a_file_is_the_same_packed_and_as_text(
    conn: psycopg.Connection, several: list[Asset]
) -> None:
    columns = (*bulk_rows.LEAN, "search")
    rows = bulk_rows.rows_of(several)
    assert rows.lean and not rows.whole
    lines = "".join(
        text([*(getattr(each, name) for name in bulk_rows.LEAN), written(assets.lexemes(each))])
        for each in several
    )
    ours, theirs = both(conn, "asset", ", ".join(columns), rows.lean, lines)
    assert ours == theirs and len(ours) == len(several)


@pytest.mark.parametrize(
    "link",
    [
        LINK,
        replace(LINK, guid=None, payload=None, salt=None),
        replace(LINK, payload=SPECIAL, cause=SPECIAL, position=2**40, at=EARLY),
    ],
)
def test_a_fact_is_the_same_packed_and_as_text(conn: psycopg.Connection, link: Link) -> None:
    packed = packing.block([outcome.packed(link)])
    ours, theirs = both(conn, "fact", feed.COLUMNS, packed, text(astuple(link)))
    assert ours == theirs and len(ours) == 1
