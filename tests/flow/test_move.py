"""A tenant moves to a database of its own and back; nothing is lost, nothing is left behind."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from typer.testing import CliRunner

from lily.api.app import create_app
from lily.cli.app import build
from lily.errors import Conflict, Unavailable
from lily.events.observations import AssetSeen
from lily.store import moves, moving
from lily.store.embedded import Server
from lily.wiring import Core, services
from lily.workers.move import Pace, work
from tests.callers import bearer, minted
from tests.flow.corridor import append
from tests.flow.moving import (
    PACE,
    Place,
    goes_on_after,
    killed,
    same_but_for_the_news,
    shared,
    two_tenants,
    verifies,
)
from tests.serving import serving

LINE = ["tenant", "move"]


@pytest.fixture(scope="module")
def cores(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Core, Core]]:
    with shared(server, tmp_path_factory.mktemp("moving"), "off") as both:
        yield both


@pytest.fixture
def place(server: Server, cores: tuple[Core, Core]) -> Iterator[Place]:
    with two_tenants(server, *cores) as made:
        yield made


def test_a_tenant_moves_there_and_back_and_others_do_not_notice(place: Place) -> None:
    before, others = place.state(place.tenant), place.state(place.other)
    assert before["asset"].rows == 3 and before["edge"].rows == 1
    assert before["dead_letter"].rows == 1
    url = place.away()
    shared = place.core.database.url_of("home")
    assert "asset_core_0" in place.left(shared, place.canary) or "asset_core_1" in place.left(
        shared, place.canary
    )

    moved = place.move("dedicated", url)
    assert (moved.isolation, moved.state) == ("dedicated", "active")
    same_but_for_the_news(before, place.state(moved))
    assert place.left(shared, place.canary) == []
    verifies(place, moved)
    place.say(moved, "db/invoices", description=place.canary)  # and it works there
    assert place.state(moved)["asset"].rows == 4

    there = place.state(moved)
    back = place.move("pooled")
    assert (back.isolation, back.cell, back.state) == ("pooled", "home", "active")
    same_but_for_the_news(there, place.state(back))
    assert place.left(url, place.canary) == []
    verifies(place, back)
    place.say(back, "db/again")
    assert place.state(place.other) == others
    assert place.core.database.cells() == ["home"]
    assert moves.find(place.core.database, back) is None


def test_what_is_sent_after_a_move_is_newer_than_what_was_sent_before(place: Place) -> None:
    moved = place.move("dedicated", place.away())
    place.say(moved, "db/invoices")
    with place.core.database.unit(moved) as unit:
        rows = unit.conn.execute(
            "SELECT qualified_name FROM asset WHERE lane = 'core' ORDER BY log_offset DESC"
        ).fetchall()
    assert rows[0] == ("db/invoices",)


def test_while_it_moves_a_tenant_is_read_and_told_to_write_later(place: Place) -> None:
    built = services(place.core)
    with serving(create_app(built)) as client:
        who = bearer(minted(built, place.tenant))
        also = bearer(minted(built, place.other))
        asset = "/api/v1/metadata/db%2Fpeople"
        assert client.get(asset, headers=who).status_code == 200
        place.begin("dedicated", place.away())
        moving.close(place.core.database.url_of("home"), place.tenant.number, "closing", Event(), 9)
        body = {"asset_id": "x", "asset_name": "x", "asset_type": "table"}
        for method, path, sent in (
            ("POST", "/api/v1/metadata", body),
            ("PATCH", asset, {"description": "mine"}),
            ("POST", "/api/v1/tags", {"name": "Mine"}),
        ):
            answer = client.request(method, path, json=sent, headers=who)
            assert answer.status_code == 503, (path, answer.text)
            assert int(answer.headers["retry-after"]) >= 1
        assert client.get(asset, headers=who).json()["description"] == place.canary
        assert client.get("/api/v1/metadata/search?q=people", headers=who).status_code == 200
        others = client.post(
            "/api/v1/metadata", json=body, headers={**also, "prefer": "respond-async"}
        )
        assert others.status_code == 202  # others write

        work(place.system, Event(), PACE)
        built.identity.revocations.poll()  # what every process does twice a second
        assert place.now.isolation == "dedicated"
        assert client.get(asset, headers=who).json()["description"] == place.canary
        patched = client.patch(asset, json={"description": "mine"}, headers=who)
        assert patched.status_code == 200
    assert place.left(place.core.database.url_of("home"), place.canary) == []


def test_killed_in_the_middle_it_goes_on(place: Place, tmp_path: Path) -> None:
    goes_on_after(place, tmp_path, "switch")


def test_a_move_is_taken_back_and_the_tenant_writes_again(place: Place, tmp_path: Path) -> None:
    before, url = place.state(place.tenant), place.away()
    place.begin("dedicated", url)
    killed(place, tmp_path, "carry")
    moves.abort(place.core.database, place.tenant)
    work(place.system, Event(), PACE)
    assert (place.now.cell, place.now.state) == ("home", "active")
    assert place.state(place.now) == before
    assert place.left(url, place.canary) == []
    place.say(place.now, "db/more")
    with pytest.raises(Conflict):
        place.begin("pooled")
    assert place.move("dedicated", url).isolation == "dedicated"  # the database is free again


def test_a_tenant_whose_log_is_not_applied_stays_where_it_is(place: Place) -> None:
    append(place.core, place.tenant, AssetSeen(qualified_name="db/waiting"))
    place.begin("dedicated", place.away())
    work(place.system, Event(), Pace(drain=0.2, ends=9, caches=0))
    found = moves.get(place.core.database, place.tenant)
    assert found.step == "failed" and "does not apply" in found.reason
    assert (place.now.cell, place.now.state) == ("home", "active")
    place.corridor.run()
    assert place.move("dedicated", place.away()).isolation == "dedicated"


def test_others_write_while_a_tenant_moves(place: Place) -> None:
    done = Event()
    written: list[str] = []

    def write() -> None:
        while not done.is_set():
            name = f"db/other{len(written)}"
            append(place.core, place.other, AssetSeen(qualified_name=name))
            written.append(name)

    thread = Thread(target=write)
    thread.start()
    place.move("dedicated", place.away())
    place.move("pooled")
    done.set()
    thread.join()
    place.corridor.run()
    assert len(written) > 5
    assert place.state(place.other)["asset"].rows == 1 + len(written)


def test_an_old_place_refuses_who_did_not_hear_of_the_move(place: Place) -> None:
    old = place.tenant
    place.move("dedicated", place.away())
    with pytest.raises(Unavailable), place.core.database.unit(old):
        pass
    with pytest.raises(Unavailable):
        append(place.core, old, AssetSeen(qualified_name="db/late"))
    with place.system.database.cell("home", [old.number, place.other.number]) as conn:
        assert conn.execute("SELECT DISTINCT tenant FROM asset").fetchall() == [
            (place.other.number,)
        ]


def test_every_table_with_a_tenant_moves_or_belongs_to_home(place: Place) -> None:
    with (
        moving.owner(place.core.database.url_of("home")) as conn,
        conn.transaction(force_rollback=True),
    ):
        conn.execute("CREATE TABLE lily.novelty (tenant int NOT NULL, word text)")
        conn.execute("SELECT lily.protect('lily.novelty')")
        found = set(moving.tables(conn))
        rows = conn.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " WHERE c.relnamespace = 'lily'::regnamespace AND c.relkind IN ('r', 'p')"
            " AND NOT c.relispartition AND a.attname = 'tenant'"
        ).fetchall()
    assert "novelty" in found
    assert {name for (name,) in rows} == found | moving.AT_HOME | {"log"}


def test_a_platform_admin_moves_a_tenant_from_the_command_line(place: Place) -> None:
    built, stop, name = services(place.core), Event(), place.tenant.name
    carrier = Thread(target=_carry, args=(place, stop))
    with serving(create_app(built)) as client:
        token = minted(built, place.other, platform=True)
        where = ["--url", str(client.base_url), "--token", token, "--json"]

        def lily(*line: str) -> bool:
            return CliRunner().invoke(build(), [*LINE, name, *line, *where]).exit_code == 0

        assert not lily()  # neither a goal nor an abort
        assert not lily("--to", "dedicated")  # where to?
        assert not lily("--to", "pooled")  # it is
        path = f"/api/v1/tenants/{name}"
        who = bearer(minted(built, place.tenant))
        assert client.get(f"{path}/move", headers=who).status_code == 403
        assert client.get(f"{path}/move", headers=bearer(token)).status_code == 404

        assert lily("--to", "dedicated", "--database", place.away(), "--no-wait")
        shown = client.get(f"{path}/move", headers=bearer(token)).json()
        assert (shown["step"], shown["isolation"]) == ("closing", "dedicated")
        suspend = client.post(f"{path}/suspend", headers=bearer(token))
        assert suspend.status_code == 409
        carrier.start()
        try:
            assert lily("--abort")
            assert (place.now.isolation, place.now.state) == ("pooled", "active")
            assert lily("--to", "dedicated", "--database", place.away())
        finally:
            stop.set()
            carrier.join()
    assert (place.now.isolation, place.now.state) == ("dedicated", "active")


def _carry(place: Place, stop: Event) -> None:
    while not stop.wait(0.1):
        work(place.system, stop, PACE)
