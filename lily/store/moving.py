"""A tenant's rows from one cell to another: closed for writers, copied, compared, cleared.

Which tables are the tenant's is asked of the database's catalog, so that a table which is new
cannot be forgotten. Everything here can be called again after a crash.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import Literal, LiteralString

import psycopg
from psycopg import sql

from lily.errors import Conflict, Unavailable
from lily.store.backup import STATE, Table
from lily.types import LANES

Phase = Literal["closing", "held", "closed", "gone"]

# What a tenant keeps in the home database, wherever its assets are.
AT_HOME = frozenset(
    {
        "person",
        "service_account",
        "token",
        "login_failure",
        "identity_provider",
        "webhook_claim",
        "producer_key",
    }
)
FENCE = 0x6C6F67  # of the log, see log/postgres.py
CHUNK = 20_000  # rows that are deleted in one transaction, beside others who work
PAUSE = 0.05

# Referenced tables first. The log is not among them: it is empty of the tenant, once applied.
TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'lily'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
   AND a.attname = 'tenant' AND NOT a.attisdropped AND c.relrowsecurity
 ORDER BY EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = c.oid AND f.contype = 'f'), 1
"""
COLUMNS = """
SELECT a.attname FROM pg_attribute a WHERE a.attrelid = %s::regclass AND a.attnum > 0
   AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
"""
NUMBERED = """
SELECT c.relname, a.attname, pg_get_serial_sequence('lily.' || quote_ident(c.relname), a.attname)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relname = ANY(%s) AND c.relnamespace = 'lily'::regnamespace AND a.attidentity <> ''
"""
CLOSE = """
INSERT INTO departure (number, phase) VALUES (%s, %s)
ON CONFLICT (number) DO UPDATE SET phase = excluded.phase
"""
OPEN = "DELETE FROM departure WHERE number = %s"
UNDER_WAY = """
SELECT l.virtualtransaction FROM pg_locks l JOIN pg_stat_activity s ON s.pid = l.pid
 WHERE l.locktype = 'virtualxid' AND l.granted AND s.datname = current_database()
   AND l.pid <> pg_backend_pid()
"""
WAITS = """
SELECT EXISTS (SELECT FROM log l JOIN applied a ON a.lane = l.lane AND a.part = 0
                WHERE l."offset" > a.position AND l.tenant = %s)
"""
REACHED: LiteralString = "SELECT last_value FROM {}"
RAISE: LiteralString = "SELECT setval({}, %(to)s) FROM {} WHERE last_value < %(to)s"
# Rows are compared as text, on two servers that may be configured differently.
TEXTS: tuple[LiteralString, ...] = (
    "SET timezone = 'UTC'", "SET datestyle = 'ISO'", "SET intervalstyle = 'postgres'",
    "SET bytea_output = 'hex'", "SET extra_float_digits = 1",
)  # fmt: skip
UNLOG = "DELETE FROM log WHERE tenant = %s"


@contextmanager
def owner(url: str) -> Iterator[psycopg.Connection]:
    """A connection that sees the rows of every tenant, and nothing but Lily's tables."""
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as conn:
            conn.execute("SET ROLE lily_owner")
            conn.execute("SET search_path = lily, pg_temp")
            # One end waits while the other counts.
            conn.execute("SET idle_in_transaction_session_timeout = 0")
            for setting in TEXTS:
                conn.execute(setting)
            yield conn
    except psycopg.OperationalError as cause:
        raise Unavailable("The database cannot be reached.") from cause


def tables(conn: psycopg.Connection) -> list[str]:
    """Every table that holds rows of a tenant in its cell."""
    return [name for (name,) in conn.execute(TABLES) if name not in AT_HOME]


def close(url: str, number: int, phase: Phase, stop: Event, seconds: float) -> None:
    """From here on the tenant's rows are as they are; returns when nobody is still writing."""
    with owner(url) as conn:
        conn.execute(CLOSE, [number, phase])
        with conn.transaction():  # appenders that had looked before have committed after this
            conn.execute("SELECT pg_advisory_xact_lock(%s)", [FENCE])
        before = {each for (each,) in conn.execute(UNDER_WAY)}

        def ended() -> bool:
            return not before & {each for (each,) in conn.execute(UNDER_WAY)}

        until(ended, stop, seconds, "A transaction that began before does not end.")


def reopen(url: str, number: int) -> None:
    with owner(url) as conn:
        conn.execute(OPEN, [number])


def drain(url: str, number: int, stop: Event, seconds: float) -> None:
    """Until the pipeline has applied everything that the tenant sent."""
    with owner(url) as conn:

        def applied() -> bool:
            row = conn.execute(WAITS, [number]).fetchone()
            return row is not None and not row[0]

        until(applied, stop, seconds, "The pipeline does not apply what the tenant has sent.")


def copy(source: str, target: str, number: int) -> int:
    """All rows of a closed tenant, in one transaction; they are there and equal, or not there."""
    with owner(source) as old, owner(target) as new:
        names = tables(old)
        if missing := set(names) ^ set(tables(new)):
            raise Conflict(f"The databases do not have the same tables: {sorted(missing)}.")
        _raise_sequences(old, new, names, number)
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with old.transaction(), new.transaction():
            new.execute(CLOSE, [number, "closed"])
            _delete(new, reversed(names), number)
            for name in names:
                _copy_table(old, new, name, number)
            before, after = state(old, names, number), state(new, names, number)
            if different := [name for name in names if before[name] != after[name]]:
                raise Conflict(f"After the copy these tables are not as they were: {different}.")
        return sum(each.rows for each in before.values())


def clear(url: str, number: int) -> int:
    """Remove every row of a tenant that has gone, in pieces, and its applied observations."""
    with owner(url) as conn:
        names = tables(conn)
        conn.execute(UNLOG, [number])
        return sum(_delete_piecemeal(conn, name, number) for name in reversed(names))


def state(conn: psycopg.Connection, names: Sequence[str], number: int) -> dict[str, Table]:
    """What each table holds of a tenant: how many rows, and the sum of their hashes."""
    found = {}
    for name in names:
        own = sql.SQL("(SELECT * FROM {} WHERE tenant = {})").format(
            sql.Identifier(name), sql.Literal(number)
        )
        row = conn.execute(sql.SQL(STATE).format(own)).fetchone()
        assert row is not None
        found[name] = Table(*row)
    return found


def _copy_table(old: psycopg.Connection, new: psycopg.Connection, name: str, number: int) -> None:
    """By way of a temporary table: COPY does not go into a table with row security."""
    columns = [column for (column,) in new.execute(COLUMNS, [f"lily.{name}"])]
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    names = {"table": sql.Identifier("lily", name), "columns": listed,
             "number": sql.Literal(number)}  # fmt: skip
    new.execute(
        sql.SQL("CREATE TEMP TABLE arriving ON COMMIT DROP AS SELECT {columns} FROM {table}"
                " WITH NO DATA").format(**names)
    )  # fmt: skip
    out = sql.SQL("COPY (SELECT {columns} FROM {table} WHERE tenant = {number}) TO STDOUT")
    with (
        old.cursor().copy(out.format(**names)) as leaving,
        new.cursor().copy("COPY arriving FROM STDIN") as arriving,
    ):
        for piece in leaving:
            arriving.write(piece)
    new.execute(
        sql.SQL("INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE"
                " SELECT {columns} FROM arriving").format(**names)
    )  # fmt: skip
    new.execute("DROP TABLE arriving")


def _raise_sequences(
    old: psycopg.Connection, new: psycopg.Connection, names: list[str], number: int
) -> None:
    """What is numbered from here on comes after what the tenant has: among equally old
    observations the higher offset wins, and pages are read by number."""
    with new.transaction():
        new.execute("SELECT pg_advisory_xact_lock(%s)", [FENCE])
        for lane in LANES:
            sequence = sql.Identifier("lily", f"log_{lane}_offset")
            row = old.execute(sql.SQL(REACHED).format(sequence)).fetchone()
            assert row is not None
            _raise(new, f"lily.log_{lane}_offset", sequence, row[0])
    for table, column, sequence in old.execute(NUMBERED, [names]).fetchall():
        most = sql.SQL("SELECT max({}) FROM {} WHERE tenant = {}").format(
            sql.Identifier(column), sql.Identifier(table), sql.Literal(number)
        )
        row = old.execute(most).fetchone()
        if row and row[0]:
            # Others may draw a number meanwhile: so it is raised past what they can draw.
            _raise(new, sequence, sql.Identifier(*sequence.split(".")), row[0] + CHUNK)


def _raise(conn: psycopg.Connection, name: str, sequence: sql.Identifier, value: int) -> None:
    conn.execute(sql.SQL(RAISE).format(sql.Literal(name), sequence), {"to": value})


def _delete(conn: psycopg.Connection, names: Iterator[str], number: int) -> None:
    for name in names:
        conn.execute(
            sql.SQL("DELETE FROM {} WHERE tenant = %s").format(sql.Identifier(name)), [number]
        )


def _delete_piecemeal(conn: psycopg.Connection, name: str, number: int) -> int:
    """Short transactions: others use the same table. A partition has row addresses of its own."""
    statement = sql.SQL(
        "DELETE FROM {table} t USING (SELECT tableoid AS part, ctid AS row FROM {table}"
        " WHERE tenant = %s LIMIT %s) old"
        " WHERE t.tenant = %s AND t.tableoid = old.part AND t.ctid = old.row"
    ).format(table=sql.Identifier(name))
    total = 0
    while done := conn.execute(statement, [number, CHUNK, number]).rowcount:
        total += done
    return total


def until(done: Callable[[], bool], stop: Event, seconds: float, otherwise: str) -> None:
    """Wait for it; raises Conflict when the time is up, Unavailable when asked to stop."""
    end = monotonic() + seconds
    while not done():
        if monotonic() > end:
            raise Conflict(otherwise)
        if stop.wait(PAUSE):
            raise Unavailable("Lily is being stopped; the move goes on afterwards.")
