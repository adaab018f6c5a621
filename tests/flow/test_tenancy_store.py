"""The walls in the database: row security on every tenant table, roles without a way around it."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from lily.store.database import as_role
from lily.store.embedded import Server
from lily.store.migrate import migrate, migrations
from lily.store.schema import FILE, dump
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant

# The API may only append to the log, only the pipeline reads it: rights take the policy's place.
WITHOUT_POLICY = {"log", "log_core", "log_fields"}
OPEN_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p') AND a.attname = 'tenant'
   AND NOT a.attisdropped
   AND NOT (c.relrowsecurity AND c.relforcerowsecurity
     AND ARRAY['lily_app', 'lily_system'] <@ (
       SELECT coalesce(array_agg(r.rolname::text), '{}')
         FROM pg_policy p JOIN pg_roles r ON r.oid = ANY (p.polroles)
        WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd = '*'
          AND pg_get_expr(p.polqual, c.oid) LIKE '%%lily.tenant%%'
          AND pg_get_expr(p.polwithcheck, c.oid) LIKE '%%lily.tenant%%'))
"""
ALIAS = "INSERT INTO asset_alias (tenant, alias, guid) VALUES (%s, 'a', gen_random_uuid())"
TENANT_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'lily'::regnamespace AND c.relkind = 'r' AND a.attname = 'tenant'
"""


def open_tables(conn: psycopg.Connection, schema: str = "lily") -> set[str]:
    """Tables with a tenant that row security does not close for both roles."""
    return {name for (name,) in conn.execute(OPEN_TABLES, [schema])}


def test_every_table_with_a_tenant_has_row_security(home: str) -> None:
    with psycopg.connect(home) as conn:
        assert open_tables(conn) == WITHOUT_POLICY


@pytest.mark.parametrize(
    "protection",
    [
        "SELECT 1",
        "ALTER TABLE scratch.leaky ENABLE ROW LEVEL SECURITY",
        "SELECT lily.protect('scratch.leaky');"
        " ALTER TABLE scratch.leaky NO FORCE ROW LEVEL SECURITY",
        "SELECT lily.protect('scratch.leaky'); DROP POLICY system ON scratch.leaky",
        "SELECT lily.protect('scratch.leaky'); DROP POLICY app ON scratch.leaky;"
        " CREATE POLICY app ON scratch.leaky TO lily_app USING (true) WITH CHECK (true)",
    ],
)
def test_a_new_table_that_lacks_a_policy_is_reported(home: str, protection: str) -> None:
    with psycopg.connect(home) as conn, conn.transaction(force_rollback=True):
        conn.execute("CREATE SCHEMA scratch")
        conn.execute("CREATE TABLE scratch.closed (tenant int)")
        conn.execute("SELECT lily.protect('scratch.closed')")
        conn.execute("CREATE TABLE scratch.leaky (tenant int, secret text)")
        conn.execute(protection.encode())
        assert open_tables(conn, "scratch") == {"leaky"}


@pytest.mark.parametrize("role", ["lily_app", "lily_system"])
def test_a_role_has_no_way_around_row_security(home: str, role: str) -> None:
    with psycopg.connect(home) as conn:
        rights = conn.execute(
            "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin"
            "  FROM pg_roles WHERE rolname = %s",
            [role],
        ).fetchone()
        owned = conn.execute(
            "SELECT count(*) FROM pg_class WHERE relowner = %s::regrole AND relpersistence <> 't'",
            [role],
        ).fetchone()
        others = conn.execute(
            "SELECT rolname FROM pg_roles WHERE rolname <> %s"
            "   AND pg_has_role(%s::name, oid, 'MEMBER')",
            [role, role],
        ).fetchall()
    assert rights == (False, False, False, False, False)
    assert owned == (0,)
    assert others == []


@pytest.mark.parametrize("role", ["lily_app", "lily_system"])
def test_without_a_tenant_nothing_is_seen_and_a_row_is_an_error(
    home: str, core: Core, tenant: Tenant, role: str
) -> None:
    with psycopg.connect(home) as admin:
        names = {name for (name,) in admin.execute(TENANT_TABLES)} - WITHOUT_POLICY
    with core.database.unit(tenant) as unit:
        unit.conn.execute(ALIAS, [tenant.number])
    refused = set()
    with psycopg.connect(as_role(home, role), autocommit=True) as conn:  # type: ignore[arg-type]
        for name in sorted(names):
            query = psycopg.sql.SQL("SELECT 1 FROM {}").format(psycopg.sql.Identifier(name))
            try:
                assert conn.execute(query).fetchall() == [], name
            except (psycopg.errors.UndefinedObject, psycopg.errors.InsufficientPrivilege):
                refused.add(name)  # an empty table never comes to ask for the tenant
    assert "asset_alias" in refused


def test_a_tenant_that_was_bound_before_is_forgotten_with_its_transaction(
    core: Core, tenant: Tenant
) -> None:
    with core.database.unit(tenant) as unit:
        conn = unit.conn
        conn.execute("SELECT count(*) FROM asset")
    with pytest.raises(psycopg.Error), core.database.home() as conn:
        for _ in range(20):  # whichever connection of the pool this is
            conn.execute("SELECT count(*) FROM asset")


def test_rows_of_another_tenant_cannot_be_seen_changed_or_made(core: Core, tenant: Tenant) -> None:
    other = new_tenant(core)
    with core.database.unit(other) as unit:
        unit.conn.execute(ALIAS, [other.number])
    with core.database.unit(tenant) as unit:
        assert unit.conn.execute("SELECT count(*) FROM asset_alias").fetchone() == (0,)
        assert unit.conn.execute("UPDATE asset_alias SET alias = 'b'").rowcount == 0
        assert unit.conn.execute("DELETE FROM asset_alias").rowcount == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege), core.database.unit(tenant) as unit:
        unit.conn.execute(ALIAS, [other.number])


def test_the_api_may_append_to_the_log_but_not_read_it(core: Core, tenant: Tenant) -> None:
    for table in sorted(WITHOUT_POLICY):
        query = psycopg.sql.SQL("SELECT value FROM {}").format(psycopg.sql.Identifier(table))
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            core.database.unit(tenant) as unit,
        ):
            unit.conn.execute(query)


def test_four_that_start_at_once_migrate_once(server: Server) -> None:
    url = server.create_database("started_at_once")
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(migrate, [url] * 4))
    assert sorted(applied, key=len) == [[], [], [], [step.name for step in migrations()]]
    assert migrate(url) == []


def test_schema_sql_is_what_the_migrations_add_up_to(home: str) -> None:
    assert FILE.read_text(encoding="utf-8") == dump(home), "run `make schema`"
