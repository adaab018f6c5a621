"""The lake holds what the store holds, once."""

import random
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from lily import wiring
from lily.assets.edits import Edit
from lily.errors import Fenced
from lily.identity.actor import Actor
from lily.lake import read
from lily.pipeline.archive import CellArchive
from lily.pipeline.lake import LakeStage
from lily.store import past, tenants
from lily.store.edits import Edits
from lily.store.embedded import Server
from lily.store.propagation_tasks import ask_for_all
from lily.tags.effective import effective
from tests.flow import lake
from tests.flow.corridor import append
from tests.flow.lake import (
    ANN,
    TABLES,
    Place,
    a_day,
    archived,
    assert_complete,
    assert_level,
    counted,
    seen,
    stored,
)
from tests.flow.lineage import join, part

here, place = lake.here, lake.place


def test_the_latest_assets_equal_the_store(place: Place) -> None:
    day = random.Random(4)
    edits = Edits(place.core.database, place.core.clock, effective)
    for _ in range(4):
        place.say(*a_day(day))
        place.archive.catch_up(latest=True)
        assert_level(place)
    tables = [a for a in stored(place) if a["lane"] == "core" and not a["is_deleted"]]
    owned = Edit(fields={"asset_owner": "ann"})
    edits.apply(place.tenant, str(tables[0]["guid"]), owned, ANN)
    edits.delete(place.tenant, str(tables[1]["guid"]), ANN)
    edits.purge(place.tenant, str(tables[2]["guid"]), ANN)
    place.archive.catch_up(latest=True)
    assert_level(place)
    tags = place.rows("SELECT guid, tag FROM tags ORDER BY ALL")
    assert tags == sorted((a["guid"], tag) for a in archived(place) for tag in a["tags"])


def test_the_latest_edges_equal_the_store(place: Place) -> None:
    said = [join("db://h/a", f"db://h/b{n}", process="nightly") for n in range(20)]
    append(place.core, place.tenant, *said)
    place.corridor.run()
    place.archive.catch_up(latest=True)
    sql = "SELECT downstream_name, process, is_deleted FROM edges ORDER BY 1"
    wanted = sorted((f"db://h/b{n}", "nightly", False) for n in range(20))
    assert place.rows(sql) == wanted
    append(place.core, place.tenant, part("db://h/a", "db://h/b7"))
    place.corridor.run()
    place.archive.catch_up(latest=True)
    gone = [row for row in place.rows(sql) if row[2]]
    assert gone == [("db://h/b7", "nightly", True)]


def test_what_was_only_seen_again_is_refreshed_too(place: Place) -> None:
    place.say(seen("a"))
    place.archive.catch_up(latest=True)
    place.say(seen("a"))
    place.archive.catch_up(latest=True)
    assert_level(place)


def test_only_slices_that_changed_are_written_again(place: Place) -> None:
    place.say(*(seen(f"t{number}") for number in range(100)))
    place.archive.catch_up(latest=True)
    place.say(seen("t1", description="new"))
    place.archive.catch_up(latest=True)
    table = place.archive.lake.find("assets")
    assert table is not None
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert (summary["added-data-files"], summary["deleted-data-files"]) == ("1", "1")


def test_who_is_hurried_archives_facts_and_leaves_the_latest_for_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lily.pipeline.archive.LATEST_EVERY", 0.0)
    place.say(seen("a"))
    place.archive.catch_up(hurried=True)
    assert place.rows("SELECT count(*) FROM facts") == [(1,)]
    assert archived(place) == []
    monkeypatch.setattr("lily.pipeline.archive.LATEST_PATIENCE", 0.0)  # as if time had gone by
    place.archive.catch_up(hurried=True)
    assert_level(place)


def test_the_latest_waits_until_what_travels_along_lineage_has_arrived(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lily.pipeline.archive.LATEST_EVERY", 0.0)
    place.say(seen("a"))
    with place.system.database.whole(place.tenant) as unit:
        ask_for_all(unit.conn, place.tenant, "test", 1, place.core.clock.now())
    place.archive.catch_up()
    assert place.rows("SELECT count(*) FROM facts") == [(1,)]
    assert archived(place) == []
    with place.system.database.whole(place.tenant) as unit:
        unit.conn.execute("UPDATE propagation_task SET state = 'done'")
    place.archive.catch_up()
    assert_level(place)


def test_history_has_every_version_whole(place: Place) -> None:
    day = random.Random(7)
    known: dict[tuple[str, int], dict[str, Any]] = {}
    for turn in range(6):
        place.say(*a_day(day))
        for asset in stored(place):
            known.setdefault((str(asset["guid"]), asset["version"]), asset)
        if turn % 2:
            place.archive.catch_up()
    rows = place.rows(
        "SELECT guid, version, asset_type, description, tags, metadata, is_deleted"
        " FROM assets_history ORDER BY ALL"
    )
    versions = [(guid, version) for guid, version, *_ in rows]
    assert len(set(versions)) == len(versions), "a version twice"
    newest = {str(asset["guid"]): asset["version"] for asset in stored(place)}
    assert sorted(versions) == sorted(
        (guid, version) for guid, last in newest.items() for version in range(1, last + 1)
    )
    for guid, version, kind, description, tags, metadata, gone in rows:
        if (guid, version) in known:
            asset = known[guid, version]
            assert (kind, description, tags) == (
                asset["asset_type"], asset["description"], asset["tags"],
            )  # fmt: skip
            assert msgspec.json.decode(metadata) == asset["metadata"]
            assert gone == asset["is_deleted"] or asset["lane"] == "fields"


def test_a_field_that_changed_before_it_was_archived_has_its_first_version(place: Place) -> None:
    place.say(seen("t"), seen("t#a", description="one"), seen("t#b"))
    place.archive.catch_up()
    place.say(seen("t#c", description="one"))
    place.say(seen("t#c", description="two"), seen("t#a", description="two"))
    place.say(seen("t#d"))
    place.archive.catch_up()
    rows = place.rows(
        "SELECT qualified_name, version, description FROM assets_history"
        " WHERE lane = 'fields' ORDER BY ALL"
    )
    assert rows == [
        ("t#a", 1, "one"), ("t#a", 2, "two"), ("t#b", 1, None),
        ("t#c", 1, "one"), ("t#c", 2, "two"), ("t#d", 1, None),
    ]  # fmt: skip


def test_small_steps_tell_the_same_history(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "WEIGHT", 3)
    day = random.Random(8)
    for _ in range(4):
        place.say(*a_day(day))
    place.archive.catch_up(latest=True)
    assert_complete(place)


def test_a_field_with_a_date_of_its_own_has_one_first_version(place: Place) -> None:
    born = place.core.clock.now().replace(year=2020)
    place.say(seen("t#a", created_at=born), seen("t#b", created_at=born))
    place.archive.catch_up()
    place.say(seen("t#a", created_at=born, description="x"), seen("t#c", created_at=born))
    place.say(seen("t#c", created_at=born, description="x"))
    place.archive.catch_up()
    rows = place.rows("SELECT qualified_name, version FROM assets_history ORDER BY ALL")
    assert rows == [("t#a", 1), ("t#a", 2), ("t#b", 1), ("t#c", 1), ("t#c", 2)]


def test_history_survives_a_purge_and_a_new_beginning(place: Place) -> None:
    edits = Edits(place.core.database, place.core.clock, effective)
    place.say(seen("t", description="one"))
    place.say(seen("t", description="two"))
    edits.purge(place.tenant, "t", ANN)
    place.say(seen("t", description="again"))
    place.archive.catch_up()
    rows = place.rows("SELECT version, kind, description FROM assets_history ORDER BY position")
    assert rows == [
        (1, "AssetCreated", "one"), (2, "AssetChanged", "two"), (3, "AssetPurged", "two"),
        (1, "AssetCreated", "again"),
    ]  # fmt: skip


def test_facts_and_observations_are_those_of_feed_and_log(place: Place) -> None:
    place.say(*a_day(random.Random(1)))
    place.say(*a_day(random.Random(2)))
    place.archive.catch_up()
    with place.system.database.cell("home", [place.tenant.number]) as conn:
        number = [place.tenant.number]
        facts = conn.execute(
            "SELECT position, kind, payload FROM fact WHERE tenant = %s ORDER BY 1", number
        ).fetchall()
        log = conn.execute(
            'SELECT lane, "offset", value FROM log WHERE tenant = %s ORDER BY 1, 2', number
        ).fetchall()
    assert place.rows("SELECT position, kind, payload FROM facts ORDER BY 1") == facts
    assert place.rows('SELECT lane, "offset", value FROM observations ORDER BY 1, 2') == log


def test_only_what_is_applied_is_archived(place: Place) -> None:
    append(place.core, place.tenant, seen("waits"))
    place.archive.catch_up()
    assert place.rows("SELECT * FROM observations") == []
    place.corridor.run()
    place.archive.catch_up()
    assert place.rows("SELECT key FROM observations") == [("waits",)]


def test_while_large_batches_are_waited_for_the_lake_waits_but_not_for_ever(place: Place) -> None:
    stage = LakeStage(place.system, Event(), pressed=lambda: True)
    place.archive.catch_up()
    place.say(seen("hurry"))
    reached = []
    for number in range(4):
        stage.tick(None, number)  # type: ignore[arg-type]
        reached.append(len(place.rows("SELECT key FROM observations")))
    stage.close()
    assert reached == [0, 0, 0, 1]


def test_a_second_archivist_goes_on_where_the_tables_say(place: Place) -> None:
    place.say(*a_day(random.Random(1)))
    place.archive.catch_up(latest=True)
    before = {name: counted(place, name) for name in ("facts", "assets_history", "observations")}
    other = CellArchive(place.system, "home")
    other.catch_up(latest=True)
    other.close()
    assert before == {name: counted(place, name) for name in before}


DIES = """
import os, signal, sys
from lily.pipeline.archive import CellArchive
from lily.pipeline.lake import LakeStage
from lily.wiring import reopen
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

settings, table, moment = sys.argv[1:]
core = reopen(settings, "lily_system")
kind = SqlCatalog if core.settings.lake_catalog == "database" else RestCatalog
commit = kind.commit_table

def dying(self, which, *given):
    if which.name()[-1] != table:
        return commit(self, which, *given)
    if moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    commit(self, which, *given)
    os.kill(os.getpid(), signal.SIGKILL)

kind.commit_table = dying
CellArchive(core, "home").catch_up(latest=True)
"""


def test_killed_around_its_commits_it_loses_and_doubles_nothing(
    place: Place, tmp_path: Path
) -> None:
    place.say(seen("t0"), seen("t0#a"))
    place.archive.catch_up(latest=True)  # so that the killed one has tables to go on from
    wiring.save(place.system.settings, tmp_path / "settings.json")
    day = random.Random(11)
    for table in TABLES:
        for moment in ("before", "after"):
            place.say(*a_day(day))
            command = [sys.executable, "-c", DIES, str(tmp_path / "settings.json"), table, moment]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert done.returncode == -signal.SIGKILL, done.stderr
    other = CellArchive(place.system, "home")
    other.catch_up(latest=True)
    other.close()
    assert_complete(place)
    assert_level(place)


def test_of_two_archivists_at_once_one_loses_and_nothing_is_doubled(place: Place) -> None:
    place.say(seen("a"))
    other = CellArchive(place.system, "home")
    place.archive.catch_up(latest=True)
    other.catch_up(latest=True)
    place.say(*a_day(random.Random(5)))
    place.archive.catch_up(latest=True)
    with pytest.raises(Fenced):
        other.catch_up(latest=True)
    other.catch_up(latest=True)  # it has looked again
    other.close()
    assert_complete(place)


def test_a_dedicated_tenant_has_a_lake_of_its_own(place: Place, server: Server) -> None:
    url = server.create_database("lake_apart")
    database, clock, seal = place.core.database, place.core.clock, place.core.seal
    admin, who = tenants.Admin("root", "unused"), Actor("tester", "test")
    alone = tenants.create_dedicated(database, clock, seal, "alone", url, admin, who)
    append(place.core, alone, seen("canary"))
    place.corridor.run(alone.cell)
    place.say(seen("shared"))
    apart = CellArchive(place.system, alone.cell)
    apart.catch_up(latest=True)
    place.archive.catch_up(latest=True)
    names = "SELECT qualified_name FROM assets"
    assert read.query(apart.lake, names).rows == [("canary",)]
    assert ("canary",) not in read.query(place.archive.lake, names).rows
    apart.close()
    folder = place.core.settings.home / "lake"
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert {path.parts[0] for path in files} == {"home", alone.cell}
