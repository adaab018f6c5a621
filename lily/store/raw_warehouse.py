"""A throw-away warehouse beside Lily's own database, for benches and for the demonstration."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

from lily.store.database import Database
from lily.types import Tenant

Rights = set[tuple[str, str, str, bool]]
RIGHTS = """
SELECT coalesce(nullif(x.grantee::regrole::text, '-'), 'public'), x.privilege_type, '*',
       x.is_grantable
  FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) x
 WHERE c.oid = %(table)s::regclass AND x.grantee <> c.relowner
UNION ALL
SELECT coalesce(nullif(x.grantee::regrole::text, '-'), 'public'), x.privilege_type, a.attname,
       x.is_grantable
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid, aclexplode(a.attacl) x
 WHERE a.attrelid = %(table)s::regclass AND x.grantee <> c.relowner
"""
STATE = "SELECT state FROM protection WHERE tenant = %s AND connection = %s AND object = %s"
LEDGER = "SELECT count(*) FROM protection_ledger WHERE tenant = %s AND connection = %s"
LISTENS = """
SELECT FROM pg_stat_activity WHERE application_name = 'lily capture'
   AND query LIKE '%lily_capture.event%' AND datname = current_database()
"""
SCHEMA = """
CREATE TABLE people (id int, email text, country text);
INSERT INTO people VALUES (1, 'ada@example.org', 'GB'), (2, 'emmy@example.org', 'DE');
CREATE VIEW contacts AS SELECT id, email AS mail FROM people;
CREATE TABLE copied AS SELECT id, email AS address FROM people;
"""


class Warehouse:
    """A database with a table of people, a view on it, a copy of it, and an analyst who reads."""

    def __init__(self, url: str) -> None:
        tail = uuid4().hex[:8]
        self.database, self.analyst = f"warehouse_{tail}", f"analyst_{tail}"
        self._server = url
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))
            conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(self.analyst)))
        self.url = psycopg.conninfo.make_conninfo(url, dbname=self.database)
        self._root = psycopg.connect(self.url, autocommit=True)
        self.run(SCHEMA)
        self.run(
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC;"
            f" GRANT SELECT ON people, contacts, copied TO {self.analyst}"
        )

    def run(self, statement: str) -> None:
        self._root.execute(statement.encode())

    def name(self, table: str = "people") -> str:
        return f"postgres://warehouse:5432/{self.database}.public.{table}"

    def is_listened_to(self) -> bool:
        """Whether a capture waits here for what changes."""
        row = self._root.execute(LISTENS).fetchone()
        return row is not None

    def is_captured(self) -> bool:
        """Whether anything of ours is installed here."""
        row = self._root.execute("SELECT to_regnamespace('lily_capture') IS NOT NULL").fetchone()
        return bool(row and row[0])

    def rights(self, table: str = "people") -> Rights:
        return set(self._root.execute(RIGHTS, {"table": table}).fetchall())

    @contextmanager
    def reader(self) -> Iterator["Reader"]:
        """The analyst, logged in; every statement is a transaction."""
        with psycopg.connect(self.url, user=self.analyst, autocommit=True) as conn:
            yield Reader(conn)

    def bare(self, rounds: int) -> list[float]:
        """Seconds that the bare statements take that keep one column from one reader."""
        spent = []
        for _ in range(rounds):
            began = time.perf_counter()
            self.run(
                f"BEGIN; REVOKE SELECT ON copied FROM {self.analyst};"
                f" GRANT SELECT (id) ON copied TO {self.analyst}; COMMIT"
            )
            spent.append(time.perf_counter() - began)
            self.run(f"GRANT SELECT ON copied TO {self.analyst}")
        return spent

    def drop(self) -> None:
        self._root.close()
        with psycopg.connect(self._server, autocommit=True) as conn:
            gone = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            conn.execute(gone.format(sql.Identifier(self.database)))
            conn.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(self.analyst)))


class Reader:
    """Somebody with no more rights than were granted."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn

    def read(self, what: str, table: str = "people") -> list[Any] | None:
        """The rows, or None if the engine refuses."""
        try:
            return self._conn.execute(f"SELECT {what} FROM {table}".encode()).fetchall()
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable):
            return None


def state(database: Database, tenant: Tenant, connection: UUID, name: str) -> str | None:
    """Of one table in one engine; None where nothing is kept."""
    with database.unit(tenant) as unit:
        row = unit.conn.execute(STATE, [tenant.number, connection, name]).fetchone()
    return row[0] if row else None


def owed(database: Database, tenant: Tenant, connection: UUID) -> int:
    """How many rows the ledger of an engine has."""
    with database.unit(tenant) as unit:
        row = unit.conn.execute(LEDGER, [tenant.number, connection]).fetchone()
    return row[0] if row else 0
