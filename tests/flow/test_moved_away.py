"""What stays of a tenant that has moved: its keys at home, and nothing in a database it left."""

from threading import Event

import psycopg

from lily.store import moving, positions, producer_keys, sweep
from lily.store.embedded import Server
from lily.store.tenants import claimed
from lily.types import Tenant
from lily.wiring import Core

FAILED = "INSERT INTO login_failure (tenant, username, address, at) VALUES (%s, 'ann', '', 'epoch')"


def test_what_a_tenant_keeps_at_home_is_seen_wherever_it_has_gone(
    core: Core, system: Core, tenant: Tenant
) -> None:
    made, _ = producer_keys.create(core.database, core.seal, core.clock, tenant, "etl")
    home = core.database.url_of("home")
    with moving.owner(home) as conn:
        conn.execute(FAILED, [tenant.number])
    moving.close(home, tenant.number, "gone", Event(), 60)
    try:
        assert producer_keys.Keys(system.database, system.seal.open)(made.id) is not None
        assert producer_keys.owners(system.database)[made.id] == tenant.number
        assert sweep.sweep(system.database) >= 1
        with moving.owner(home) as conn:
            assert not moving.state(conn, ["login_failure"], tenant.number)["login_failure"].rows
    finally:
        moving.reopen(home, tenant.number)


def test_a_database_that_is_taken_again_is_read_from_the_beginning_of_its_topics(
    server: Server,
) -> None:
    url = server.create_database("taken_again")
    for cell in ("one", "other"):
        with claimed(url, cell):
            pass
        with psycopg.connect(url) as conn:
            conn.execute("SET search_path = lily")
            assert set(positions.begun(conn, "core", 2).values()) == {0}
            conn.execute("UPDATE applied SET position = 7 WHERE part > 0")
            conn.execute("DELETE FROM cell WHERE name = %s", [cell])
