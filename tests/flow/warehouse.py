"""A real PostgreSQL warehouse with roles of its own, for who enforces in it."""

from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from lily.store.embedded import Server
from lily.store.raw_warehouse import RIGHTS, Rights


class Warehouse:
    """A database of its own with roles of its own; names end in the same letters."""

    def __init__(self, server: Server) -> None:
        self.tail = uuid4().hex[:8]
        self.database = f"w_{self.tail}"
        with psycopg.connect(server.url_of("postgres"), autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))
        self.url = server.url_of(self.database)
        self.root = psycopg.connect(self.url, autocommit=True)
        for role in ("owner", "analyst", "reader", "team", "member"):
            kind = "NOLOGIN" if role in ("team", "owner") else "LOGIN"
            self.run(f"CREATE ROLE {self.role(role)} {kind}")
        self.run(f"GRANT {self.role('team')} TO {self.role('member')}, {self.role('reader')}")
        self.run("CREATE SCHEMA s", "GRANT USAGE ON SCHEMA s TO PUBLIC")
        self.table("people")

    def role(self, name: str) -> str:
        return f"{name}_{self.tail}"

    def table(self, name: str) -> None:
        self.run(
            f"CREATE TABLE s.{name} (id int, email text, country text)",
            f"ALTER TABLE s.{name} OWNER TO {self.role('owner')}",
            f"INSERT INTO s.{name} VALUES (1, 'a@x.io', 'FR'), (2, 'b@x.io', 'DE')",
        )

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.root.execute(statement)

    def name(self, table: str = "people") -> str:
        return f"postgres://warehouse:5432/{self.database}.s.{table}"

    def rights(self, table: str = "s.people") -> Rights:
        return set(self.root.execute(RIGHTS, {"table": table}).fetchall())

    def reads(self, role: str, what: str, table: str = "s.people") -> list[Any] | None:
        """What the role gets, or None if it is refused."""
        try:
            with self.root.transaction(force_rollback=True):
                self.root.execute(f"SET LOCAL ROLE {self.role(role)}")
                return self.root.execute(f"SELECT {what} FROM {table} ORDER BY 1").fetchall()
        except psycopg.errors.InsufficientPrivilege:
            return None
