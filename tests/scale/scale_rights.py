"""A database user with no more rights than the documentation asks for."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lily.settings import load
from lily.store import moving
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.wiring import core as build_core
from tests.callers import tenant_with_admin
from tests.conftest import new_server

MAKER = ["CREATE ROLE maker LOGIN CREATEROLE", "CREATE DATABASE made OWNER maker"]
GIVEN = [
    "CREATE ROLE given LOGIN",
    "CREATE DATABASE given OWNER given",
    "GRANT lily_owner, lily_app, lily_system TO given",
]


@pytest.fixture(scope="module")
def untouched() -> Iterator[Server]:
    """A server that has never had Lily's roles."""
    with new_server() as running:
        yield running


@pytest.mark.parametrize("user, name, lines", [("maker", "made", MAKER), ("given", "given", GIVEN)])
def test_it_migrates_and_works_as_the_roles(
    untouched: Server, tmp_path: Path, user: str, name: str, lines: list[str]
) -> None:
    with psycopg.connect(untouched.url, autocommit=True) as conn:
        for line in lines:
            conn.execute(line.encode())
    url = untouched.url_of(name).replace("postgres@", f"{user}@")
    assert migrate(url)
    settings = load(home=tmp_path, database=url)
    app, system = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    try:
        tenant = tenant_with_admin(app)
        with app.database.unit(tenant) as unit:
            assert _who(unit.conn) == ("lily_app", 1)
        with system.database.cell("home", [tenant.number]) as conn:
            assert conn.execute("SELECT current_user").fetchone() == ("lily_system",)
        with moving.owner(url) as conn:
            assert _who(conn) == ("lily_owner", 1)
    finally:
        app.close()
        system.close()


def _who(conn: psycopg.Connection) -> tuple[object, ...] | None:
    return conn.execute("SELECT current_user, (SELECT count(*) FROM person)").fetchone()
