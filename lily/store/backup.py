"""A database to a file and back: one moment of it, and a hash by which to know it again."""

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from lily.errors import Conflict, Unavailable
from lily.store.database import HOME
from lily.store.embedded import BIN
from lily.store.migrate import ROLES, migrate
from lily.store.seal import Seal

SCHEMAS = ("lily", "lake")
TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = ANY (%s) AND c.relkind = 'r' ORDER BY 1, 2
"""
# A sum does not depend on the order of rows, and 60 bits of each add up in a numeric.
STATE = """
SELECT count(*), coalesce(sum(('x' || left(encode(sha256(convert_to(t::text, 'UTF8')), 'hex'), 15)
       )::bit(60)::bigint), 0)::text FROM {} t
"""
TAKEN = "SELECT to_regnamespace('lily') IS NOT NULL"
CELLS = "SELECT name, url FROM lily.cell ORDER BY name"
POINTERS = """
SELECT table_namespace || '.' || table_name, metadata_location FROM lake.iceberg_tables
 WHERE metadata_location IS NOT NULL ORDER BY 1
"""
FORGET = ("DELETE FROM lake.iceberg_tables", "UPDATE lily.archived SET position = 0")
# Never on a command line, which everybody on the machine can read.
VARIABLES = {
    "host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD",
    "dbname": "PGDATABASE", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "options": "PGOPTIONS",
}  # fmt: skip


class Table(msgspec.Struct, frozen=True):
    """What a table held: how many rows, and the sum of their hashes."""

    rows: int
    hash: str


class Copy(msgspec.Struct, frozen=True):
    """One cell in a backup; `sealed` is its address, closed with the secret key."""

    cell: str
    file: str
    tables: dict[str, Table]
    pointers: dict[str, str]
    sealed: str = ""

    @property
    def state(self) -> str:
        """One hash over all tables."""
        return sha256(msgspec.json.encode(self.tables, order="sorted")).hexdigest()


def dump(url: str, cell: str, folder: Path, sealed: bytes = b"") -> Copy:
    """Write a cell to a file; rows, facts, log and applied position are of one moment."""
    file = folder / f"{cell}.dump"
    with _frozen(url) as conn:
        moment = conn.execute("SELECT pg_export_snapshot()").fetchone()
        assert moment is not None
        schemas = [f"--schema={name}" for name in SCHEMAS]
        _run(
            "pg_dump", url, "--format=custom", f"--snapshot={moment[0]}", f"--file={file}", *schemas
        )
        pointers = dict(conn.execute(POINTERS).fetchall())
        return Copy(cell, file.name, _tables(conn), pointers, b64encode(sealed).decode())


def cells(url: str) -> list[tuple[str, bytes]]:
    """Names and sealed addresses of the cells beside home."""
    with _frozen(url) as conn:
        found: list[tuple[str, bytes]] = conn.execute(CELLS).fetchall()
    return [(name, bytes(sealed or b"")) for name, sealed in found if name != HOME]


def address(copy: Copy, seal: Seal) -> str:
    """Where a cell was."""
    return seal.open(b64decode(copy.sealed)).decode()


def check_empty(url: str) -> None:
    with _connected(url) as conn:
        row = conn.execute(TAKEN).fetchone()
    if row and row[0]:
        raise Conflict("The database already holds a Lily; restore into an empty one.")


def load(url: str, copy: Copy, folder: Path) -> None:
    """Fill an empty database from a file, and be sure that nothing is missing or different."""
    check_empty(url)
    with _connected(url) as conn:
        conn.execute(ROLES)
    name = str(conninfo_to_dict(url)["dbname"])
    _run("pg_restore", url, "--exit-on-error", f"--dbname={name}", str(folder / copy.file))
    with _frozen(url) as conn:
        found = _tables(conn)
    different = sorted(t for t in {*found, *copy.tables} if found.get(t) != copy.tables.get(t))
    if different:
        raise Conflict(f"After the restore these tables are not as they were: {different}.")
    migrate(url)


def move_cell(home: str, cell: str, sealed: bytes) -> None:
    """A cell has a new address."""
    with _connected(home) as conn:
        conn.execute("UPDATE lily.cell SET url = %s WHERE name = %s", [sealed, cell])


def forget_lake(url: str) -> None:
    """The lake begins anew: its files are elsewhere, and what it held is derived again."""
    with _connected(url) as conn, conn.transaction():
        for statement in FORGET:
            conn.execute(statement)


def state_of(url: str) -> dict[str, Table]:
    """Every table of a cell as it is now."""
    with _frozen(url) as conn:
        return _tables(conn)


def _tables(conn: psycopg.Connection) -> dict[str, Table]:
    names = conn.execute(TABLES, [list(SCHEMAS)]).fetchall()
    found = {}
    for schema, name in names:
        row = conn.execute(sql.SQL(STATE).format(sql.Identifier(schema, name))).fetchone()
        assert row is not None
        found[f"{schema}.{name}"] = Table(*row)
    return found


@contextmanager
def _frozen(url: str) -> Iterator[psycopg.Connection]:
    """All statements read one moment; who may not read every row fails instead of seeing less."""
    with _connected(url) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.read_only = True
        with conn.transaction():
            conn.execute("SET LOCAL row_security = off")
            conn.execute("SET LOCAL timezone = 'UTC'")
            # It waits for pg_dump, which takes as long as it takes.
            conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield conn


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as conn:
            yield conn
    except psycopg.errors.InsufficientPrivilege as cause:
        raise Unavailable(
            "The database's user may not read every row; use a superuser or one with BYPASSRLS."
        ) from cause
    except psycopg.OperationalError as cause:
        raise Unavailable("The database cannot be reached.") from cause


def _run(program: str, url: str, *arguments: str) -> None:
    given = conninfo_to_dict(url)
    environment = {VARIABLES[key]: str(given[key]) for key in given if key in VARIABLES}
    done = subprocess.run(
        [str(BIN / program), "--no-password", *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Unavailable(f"{program} failed: {done.stderr.strip()[-500:]}")
