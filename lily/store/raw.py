"""Raw limits: what PostgreSQL alone does with the same rows, tables and indexes. For benches."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lily.assets.model import COLUMNS
from lily.store.assets import CHANGED
from lily.store.database import Unit
from lily.store.migrate import migrate
from lily.types import Tenant

_COLUMNS = ", ".join((*COLUMNS, "search"))
PATH = "-c search_path=lily,pg_temp -c jit=off"

SPARE = f"CREATE UNLOGGED TABLE spare AS SELECT {_COLUMNS} FROM asset WHERE lane = 'core'"
ONE = CHANGED.use.replace("FROM batch_asset", "FROM spare AS batch_asset WHERE guid = %s")
APPEND = (
    'INSERT INTO log (lane, "offset", tenant, key, value)'
    " VALUES ('core', nextval('log_core_offset'), 1, %s, %s)"
)
BY_GUID = f"SELECT {_COLUMNS} FROM asset WHERE tenant = %s AND lane = 'core' AND guid = ANY(%s)"
MATCHES = (
    "SELECT guid FROM asset WHERE tenant = %s AND search @@ %s::tsquery"
    " AND deleted_by IS NULL AND archived_at IS NULL LIMIT 1000"
)

# Takes a lock and keeps it; where, it reads from its input, because that may hold a password.
HOLD = """
import sys, time, psycopg
conn = psycopg.connect(sys.stdin.readline().strip(), autocommit=True)
conn.execute("SELECT pg_advisory_lock(4711)")
print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def scratch(home: str) -> Iterator[str]:
    """An empty, migrated database on the same server, dropped at the end."""
    name = f"lily_bench_{uuid4().hex[:12]}"
    with psycopg.connect(home, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        url = make_conninfo(home, dbname=name)
        migrate(url)
        yield url
    finally:
        with psycopg.connect(home, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def first_tenant(url: str) -> Tenant:
    with psycopg.connect(url, autocommit=True, options=PATH) as conn:
        row = conn.execute(
            "INSERT INTO tenant (id, name, cell) VALUES (%s, 'bench', 'home')"
            " RETURNING number, id, name, cell, isolation, state",
            [uuid4()],
        ).fetchone()
    assert row is not None
    return Tenant(*row)


def single_upserts(url: str, seconds: float) -> list[float]:
    """Seconds of each commit of one row, inserted or replaced, one after the other."""
    with psycopg.connect(url, autocommit=True, options=PATH) as conn:
        guids = _spare(conn)
        return _timed(conn, ONE, [[guid] for guid in guids], seconds)


def appends(url: str, values: Sequence[str], seconds: float) -> list[float]:
    """Seconds of each commit of one observation appended to the log, one after the other."""
    with psycopg.connect(url, autocommit=True, options=PATH) as conn:
        return _timed(conn, APPEND, [["key", value] for value in values], seconds)


def copy_and_merge(url: str, chunk: int, seconds: float) -> float:
    """Rows per second of COPY into a staging table and one merge a chunk, half of them known."""
    done, spent = 0, 0.0
    with psycopg.connect(url, autocommit=True, options=PATH) as conn:
        guids = _spare(conn)
        conn.execute("CREATE TEMP TABLE batch_asset (LIKE lily.asset)")
        while spent < seconds:
            conn.execute("DELETE FROM asset WHERE get_byte(uuid_send(guid), 15) % 2 = 0")
            conn.execute("VACUUM asset")
            for start in range(0, len(guids), chunk):
                spent += _merge(conn, guids[start : start + chunk])
            done += len(guids)
    return done / spent


def copy_rows(source: str, target: str, tenant: int, chunk: int) -> float:
    """Rows per second of COPY and merge of a tenant's rows into an empty database."""
    done, spent = 0, 0.0
    with (
        psycopg.connect(source, autocommit=True, options=PATH) as there,
        psycopg.connect(target, autocommit=True, options=PATH) as here,
    ):
        here.execute("CREATE TEMP TABLE batch_asset (LIKE lily.asset) ON COMMIT DELETE ROWS")
        wanted = f"COPY (SELECT {_COLUMNS} FROM asset WHERE tenant = %s) TO STDOUT"
        with there.cursor().copy(wanted, [tenant]) as rows:
            held: list[bytes] = []
            for row in rows:
                held.append(bytes(row))
                if len(held) == chunk:
                    spent += _poured(here, held)
                    done, held = done + len(held), []
        spent += _poured(here, held)
    return (done + len(held)) / max(spent, 1e-9)


def _poured(conn: psycopg.Connection, rows: Sequence[bytes]) -> float:
    block = b"".join(rows)
    began = time.perf_counter()
    with conn.transaction(), conn.cursor() as cur:
        with cur.copy(f"COPY batch_asset ({_COLUMNS}) FROM STDIN") as copy:
            copy.write(block)
        cur.execute(CHANGED.use.encode())
    return time.perf_counter() - began


def kinds(unit: Unit) -> dict[str, int]:
    """How many living assets of each kind a tenant has."""
    return dict(
        unit.conn.execute(
            "SELECT asset_type, count(*) FROM asset WHERE tenant = %s AND deleted_by IS NULL"
            " GROUP BY 1",
            [unit.tenant.number],
        ).fetchall()
    )


STATE = """
SELECT a.asset_type, count(*)::int, sum(hashtextextended(row::text, 0))::text
  FROM (SELECT a.asset_type, ROW(a.lane, a.qualified_name, a.caller_id, a.asset_name, a.asset_type,
               a.asset_owner, a.description, p.qualified_name, a.data_source, a.external_id, a.tags,
               a.business_terms, a.metadata, a.details, a.version, a.deleted_by, a.source,
               a.layers, a.statement - 'at', a.edited, a.own_tags, a.own_terms, a.search) AS row
          FROM asset a LEFT JOIN asset p ON p.tenant = a.tenant AND p.guid = a.parent
         WHERE a.tenant = %s AND a.qualified_name LIKE %s) a
 GROUP BY 1 ORDER BY 1
"""
TOLD = """
SELECT kind, count(*)::int, count(DISTINCT cause)::int,
       coalesce(sum((payload::jsonb -> 'after' ->> 'count')::int), 0)::int
  FROM fact WHERE tenant = %s AND kind ~ '^(Asset|Fields|Tags)' AND cause LIKE %s
 GROUP BY 1 ORDER BY 1
"""


def state(unit: Unit, like: str = "%") -> list[tuple[str, int, str]]:
    """Number and hash of all assets of each kind: everything but when, and under which ids."""
    # Right after a load nothing is known of the table, and each asset would look for its parent.
    unit.conn.execute("SET LOCAL enable_nestloop = off")
    return unit.conn.execute(STATE, [unit.tenant.number, like]).fetchall()


def told(unit: Unit, like: str = "%") -> list[tuple[str, int, int, int]]:
    """Of each kind of fact: how many, of how many causes, and how many fields they count."""
    return unit.conn.execute(TOLD, [unit.tenant.number, like]).fetchall()


def disk(url: str) -> int:
    """Bytes of all assets with their indexes, and of the facts about them."""
    with psycopg.connect(url, autocommit=True, options=PATH) as conn:
        row = conn.execute(
            "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'lily' AND c.relkind = 'r'"
            " AND (c.relname LIKE 'asset%' OR c.relname = 'fact')"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _merge(conn: psycopg.Connection, guids: Sequence[UUID]) -> float:
    with conn.cursor() as cur:
        rows = b""
        with cur.copy(
            f"COPY (SELECT {_COLUMNS} FROM spare WHERE guid = ANY(%s)) TO STDOUT", [list(guids)]
        ) as out:
            rows = b"".join(bytes(block) for block in out)
        began = time.perf_counter()
        with conn.transaction():
            with cur.copy(f"COPY batch_asset ({_COLUMNS}) FROM STDIN") as copy:
                copy.write(rows)
            cur.execute(CHANGED.use)
        spent = time.perf_counter() - began
        cur.execute("TRUNCATE batch_asset")
    return spent


def reads(url: str, tenant: int, guids: Sequence[UUID], together: int, seconds: float) -> float:
    """Rows per second read by id, so many in one statement, on one connection."""
    done = 0
    with psycopg.connect(url, autocommit=True, options=PATH) as conn:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            at = done % max(1, len(guids) - together)
            asked = list(guids[at : at + together])
            done += len(conn.execute(BY_GUID, [tenant, asked], prepare=True).fetchall())
        return done / (time.perf_counter() - began)


def matches(url: str, tenant: int, queries: Sequence[str]) -> list[float]:
    """Seconds of each bare index query for the same words: no ranking, no facets, no rows."""
    found = []
    with psycopg.connect(url, autocommit=True, options=PATH) as conn:
        conn.execute("SET random_page_cost = 1.1")
        for query in queries:
            began = time.perf_counter()
            conn.execute(MATCHES, [tenant, query]).fetchall()
            found.append(time.perf_counter() - began)
    return found


def analyze(url: str) -> None:
    """Bring statistics and the index up to date, as autovacuum does after a while."""
    with psycopg.connect(url, autocommit=True, options=PATH) as conn:
        conn.execute("VACUUM (ANALYZE) asset, edge")


def doubled(unit: Unit) -> list[tuple[str, str, int]]:
    """Causes with more than one fact of one kind: each would be an effect that happened twice."""
    return unit.conn.execute(
        "SELECT cause, kind, count(*) FROM fact WHERE tenant = %s AND kind <> 'FieldsCreated'"
        " GROUP BY cause, kind HAVING count(*) > 1 ORDER BY 1, 2 LIMIT 100",
        [unit.tenant.number],
    ).fetchall()


def _spare(conn: psycopg.Connection) -> list[UUID]:
    conn.execute("DROP TABLE IF EXISTS spare")
    conn.execute(SPARE.encode())
    conn.execute("CREATE UNIQUE INDEX ON spare (guid)")
    return [guid for (guid,) in conn.execute("SELECT guid FROM spare ORDER BY guid")]


def _timed(
    conn: psycopg.Connection, statement: str, values: Sequence[Sequence[object]], seconds: float
) -> list[float]:
    found: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        conn.execute(statement.encode(), values[len(found) % len(values)], prepare=True)
        found.append(time.perf_counter() - began)
    return found


def dead_session(home: str) -> float:
    """Seconds until the server has let go of what a session held whose process was killed."""
    with (
        subprocess.Popen(
            [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder,
        psycopg.connect(home, autocommit=True) as conn,
    ):
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdin.write(f"{home}\n")
        holder.stdin.flush()
        holder.stdout.readline()
        holder.kill()
        began = time.perf_counter()
        conn.execute("SELECT pg_advisory_lock(4711)")
        return time.perf_counter() - began
