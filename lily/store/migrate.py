"""Numbered files, checksummed, applied once, whoever starts first."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import LiteralString

import msgspec
import psycopg

from lily.errors import Conflict, Unavailable

LOCK = 0x6C696C79  # "lily"

ROLES: LiteralString = """
DO $$ DECLARE r text; taking text; BEGIN
  -- Since 16, whoever creates a role is a member of it that may not take its place.
  taking := CASE WHEN current_setting('server_version_num')::int < 160000
                 THEN 'MEMBER' ELSE 'SET' END;
  FOREACH r IN ARRAY ARRAY['lily_owner', 'lily_app', 'lily_system'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', r);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- another database was faster
      END;
    END IF;
    IF NOT pg_has_role(current_user, r, taking) THEN
      EXECUTE format('GRANT %I TO CURRENT_USER', r);
    END IF;
  END LOOP;
  EXECUTE format('GRANT CREATE ON DATABASE %I TO lily_owner', current_database());
  EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO lily_owner, lily_system', current_database());
END $$
"""


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    folder = resources.files("lily.store") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [Migration(int(f.name[:4]), f.name, f.read_text()) for f in files]


def migrate(url: str) -> list[str]:
    """Bring the database up to date; returns what was applied. Safe to run side by side."""
    with _connected(url) as conn:
        conn.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        try:
            return _apply(conn)
        finally:
            conn.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def pending(url: str) -> list[str]:
    """What `migrate` would apply."""
    with _connected(url) as conn:
        done = _done(conn) if _has_history(conn) else {}
        return [m.name for m in migrations() if m.number not in done]


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as conn:
            yield conn
    except psycopg.OperationalError as cause:
        raise Unavailable("The database cannot be reached.") from cause


def _apply(conn: psycopg.Connection) -> list[str]:
    conn.execute(ROLES)
    conn.execute("CREATE SCHEMA IF NOT EXISTS lily AUTHORIZATION lily_owner")
    conn.execute(
        "CREATE TABLE IF NOT EXISTS lily.migration (number int PRIMARY KEY, name text NOT NULL,"
        " checksum text NOT NULL, at timestamptz NOT NULL DEFAULT now())"
    )
    done = _done(conn)
    applied = []
    for step in migrations():
        if step.number in done:
            if done[step.number] != step.checksum:
                raise Conflict(
                    f"migration {step.name} was changed after it was applied; restore the file,"
                    " or write a new migration"
                )
            continue
        with conn.transaction():
            conn.execute("SET LOCAL ROLE lily_owner")
            conn.execute(step.sql)
            conn.execute("RESET ROLE")
            conn.execute(
                "INSERT INTO lily.migration (number, name, checksum) VALUES (%s, %s, %s)",
                [step.number, step.name, step.checksum],
            )
        applied.append(step.name)
    return applied


def _has_history(conn: psycopg.Connection) -> bool:
    row = conn.execute("SELECT to_regclass('lily.migration') IS NOT NULL").fetchone()
    return bool(row and row[0])


def _done(conn: psycopg.Connection) -> dict[int, str]:
    return dict(conn.execute("SELECT number, checksum FROM lily.migration").fetchall())
