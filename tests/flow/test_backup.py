"""A backup is everything of one moment, and a restore proves it."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
import psycopg
import pytest
from typer.testing import CliRunner

from lily.cli import backup as command
from lily.cli.app import build
from lily.events.facts import Fact
from lily.events.observations import AssetSeen
from lily.lake import read
from lily.pipeline.archive import CellArchive
from lily.settings import Settings, load
from lily.store import feed, tenants
from lily.store.backup import state_of
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.types import Tenant
from lily.wiring import Core, home_url
from lily.wiring import core as build_core
from tests.callers import HASHED, TESTER
from tests.conftest import new_tenant
from tests.flow.corridor import Corridor, append


class Place(msgspec.Struct):
    """A Lily with a pooled and a dedicated tenant, a lake, and something left in the log."""

    settings: Settings
    core: Core
    pooled: Tenant
    alone: Tenant


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    url = server.create_database("backup_home")
    migrate(url)
    settings = load(home=tmp_path_factory.mktemp("backup"), database=url)
    core, system = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    own = server.create_database("backup_alone")
    root = tenants.Admin("root", HASHED)
    alone = tenants.create_dedicated(
        core.database, core.clock, core.seal, "alone", own, root, TESTER
    )
    pooled = new_tenant(core)
    corridor, archive = Corridor(system), CellArchive(system, "home")
    for tenant in (pooled, alone):
        append(core, tenant, *(seen(n, "first") for n in range(50)))
        append(core, tenant, *(seen(n, "second") for n in range(0, 50, 2)))
        corridor.run(tenant.cell)
    archive.catch_up(latest=True)
    append(core, pooled, *(seen(n, "third") for n in range(5)))  # not applied yet
    (settings.home / "spool" / "job").mkdir(parents=True)
    (settings.home / "spool" / "job" / "upload").write_text("{}")
    yield Place(settings, core, pooled, alone)
    corridor.close()
    archive.close()
    core.close()
    system.close()


@pytest.fixture(scope="module")
def copied(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("copies") / "one"
    run("backup", str(to), *where(place.settings))
    return to


def seen(number: int, words: str) -> AssetSeen:
    tags = ["PII"] if number % 7 == 0 else []
    return AssetSeen(qualified_name=f"shop.t{number}", description=words, tags=tags)


def where(settings: Settings) -> list[str]:
    return ["--home", str(settings.home), "--database", settings.database, "--json"]


def run(*line: str) -> Any:
    done = CliRunner().invoke(build(), list(line))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rows(url: str) -> dict[str, list[str]]:
    """Every row of every table as text: the plain way to compare."""
    with psycopg.connect(url) as conn:
        return {
            name: sorted(r for (r,) in conn.execute(f"SELECT t::text FROM {name} t").fetchall())
            for name in state_of(url)
        }


def described(core: Core, tenant: Tenant) -> list[tuple[str, str]]:
    with core.database.unit(tenant) as unit:
        return unit.conn.execute(
            "SELECT qualified_name, description FROM asset WHERE tenant = %s ORDER BY 1",
            [tenant.number],
        ).fetchall()


def test_a_restored_lily_has_every_row_and_goes_on_where_it_was(
    server: Server, place: Place, copied: Path
) -> None:
    home, alone = server.create_database("again_home"), server.create_database("again_alone")
    settings = load(home=place.settings.home, database=home)
    cell = f"{place.alone.cell}={alone}"
    told = run("restore", str(copied), *where(settings), "--cell", cell)
    assert told["fresh_lakes"] == []  # the same address
    # The address of the moved cell is all that differs.
    before, after = rows(place.settings.database), rows(home)
    assert len(before.pop("lily.cell")) == len(after.pop("lily.cell")) == 2
    assert before == after
    with place.core.database.home() as conn:
        row = conn.execute("SELECT url FROM cell WHERE name = %s", [place.alone.cell]).fetchone()
    assert row is not None
    assert rows(place.core.seal.open(row[0]).decode()) == rows(alone)
    core, system = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    corridor = Corridor(system)
    try:
        corridor.run()
        assert ("shop.t0", "third") in described(core, place.pooled)
        append(core, place.alone, seen(3, "fourth"))
        corridor.run(place.alone.cell)
        assert ("shop.t3", "fourth") in described(core, place.alone)
        assert ("shop.t3", "fourth") not in described(place.core, place.alone)
        for tenant in (place.pooled, place.alone):
            with core.database.unit(tenant) as unit:
                assert feed.check(unit) is None
    finally:
        corridor.close()
        core.close()
        system.close()


def test_an_empty_home_becomes_the_same_lily_with_a_lake_of_its_own(
    server: Server, place: Place, copied: Path, tmp_path: Path
) -> None:
    settings = load(home=tmp_path / "new", database="embedded")
    alone = server.create_database("new_alone")
    cell = f"{place.alone.cell}={alone}"
    told = run("restore", str(copied), *where(settings), "--cell", cell)
    assert told["fresh_lakes"] == ["home", place.alone.cell]
    assert (settings.home / "secret.key").stat().st_mode & 0o777 == 0o600
    assert (settings.home / "spool" / "job" / "upload").read_text() == "{}"
    with command.running(settings):
        core, system = build_core(settings, "lily_app"), build_core(settings, "lily_system")
        corridor, archive = Corridor(system), CellArchive(system, "home")
        corridor.run()
        archive.catch_up(latest=True)
        answer = read.query(
            archive.lake,
            "SELECT qualified_name, description FROM assets ORDER BY 1",
            place.pooled.number,
        )
        assert answer.rows == described(core, place.pooled)
        assert len(answer.rows) == 50
        for each in (corridor, archive, core, system):
            each.close()
        now = state_of(home_url(settings))
    # Nobody runs its database now: the command starts it for the moment.
    run("backup", str(tmp_path / "second"), *where(settings))
    about = json.loads((tmp_path / "second" / "manifest.json").read_text())
    assert about["cells"][0]["tables"] == msgspec.to_builtins(now)
    assert about["lake_files"] == ["home"]


def test_a_backup_under_load_is_of_one_moment(server: Server, place: Place, tmp_path: Path) -> None:
    stop = Event()
    busy = new_tenant(place.core)

    def write() -> None:
        count = 0
        while not stop.is_set():
            append(place.core, busy, seen(count, "busy"))
            fact = Fact(kind="AssetChanged", at=place.core.clock.now(), by="t", cause=f"c{count}")
            with place.core.database.unit(busy) as unit:
                feed.record(unit, [fact])
            count += 1

    writer = Thread(target=write)
    writer.start()
    try:
        run("backup", str(tmp_path / "busy"), *where(place.settings), "--no-lake")
    finally:
        stop.set()
        writer.join()
    home, alone = server.create_database("busy_home"), server.create_database("busy_alone")
    settings = load(home=place.settings.home, database=home)
    run(
        "restore", str(tmp_path / "busy"), *where(settings), "--cell", f"{place.alone.cell}={alone}"
    )
    with psycopg.connect(home) as conn:
        row = conn.execute(
            'SELECT (SELECT max("offset") FROM lily.log_core),'
            " (SELECT last_value FROM lily.log_core_offset),"
            " (SELECT count(*) FROM lily.log WHERE tenant = %(t)s),"
            " (SELECT count(*) FROM lily.fact WHERE tenant = %(t)s)",
            {"t": busy.number},
        ).fetchone()
    assert row is not None
    newest, given, observations, facts = row
    assert given >= newest  # no offset is given out twice
    assert observations - facts in (0, 1)  # written in turns, so seen in turns


def test_a_backup_takes_as_long_as_it_takes(place: Place, tmp_path: Path) -> None:
    database = psycopg.conninfo.conninfo_to_dict(place.settings.database)["dbname"]
    limit = f"ALTER DATABASE {database} SET idle_in_transaction_session_timeout"
    with psycopg.connect(place.settings.database, autocommit=True) as conn:
        conn.execute(f"{limit} = '20ms'")
        try:
            run("backup", str(tmp_path / "slow"), *where(place.settings))
        finally:
            conn.execute(f"{limit} TO DEFAULT")


def test_a_row_that_differs_is_noticed(server: Server, place: Place, copied: Path) -> None:
    home = server.create_database("noticed")
    settings = load(home=place.settings.home, database=home)
    manifest = copied / "manifest.json"
    good = manifest.read_text()
    about = json.loads(good)
    about["cells"][0]["tables"]["lily.fact"]["hash"] = "1"
    about["cells"] = about["cells"][:1]
    manifest.write_text(json.dumps(about))
    try:
        with pytest.raises(Exception, match=r"lily\.fact"):
            run("restore", str(copied), *where(settings))
    finally:
        manifest.write_text(good)


def test_nothing_is_restored_over_a_lily_that_is_there(place: Place, copied: Path) -> None:
    with pytest.raises(Exception, match="already holds a Lily"):
        run("restore", str(copied), *where(place.settings))


def test_a_backup_keeps_its_secrets_from_others(copied: Path) -> None:
    assert copied.stat().st_mode & 0o777 == 0o700
    assert (copied / "secret.key").stat().st_mode & 0o777 == 0o600
    assert not (copied / "credentials").exists()
    assert "postgresql://" not in (copied / "manifest.json").read_text()
