"""The pipeline that leads dies, hangs or loses its checkpoint, under load: another one goes on."""

import shutil
from collections.abc import Iterator

import pytest

from lily.store.embedded import Server
from lily.store.lease import holders
from tests.flow.people import Person, admin
from tests.scale.pair import Machine, Pair, pair
from tests.scale.writers import PATIENCE, Written, is_whole, writing
from tests.waiting import until


@pytest.fixture(scope="module")
def both(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(server, tmp_path_factory.mktemp("failover"), "failover") as made:
        yield made


@pytest.fixture
def person(both: Pair) -> Person:
    return admin(both.core, both.api)


@pytest.fixture
def ready(both: Pair) -> tuple[Machine, Machine]:
    return both.ready()


def test_a_second_pipeline_waits_and_takes_over_when_the_first_is_killed(
    both: Pair, person: Person, ready: tuple[Machine, Machine]
) -> None:
    leader, waiting = ready
    answer = both.api.get("/readyz").json()
    assert answer["status"] == "ready"
    assert answer["pipeline"]["standbys"] == 1
    with writing(person) as written:
        leader.kill()
        _goes_on(written, waiting)
    assert written.refused == []
    is_whole(both.core, person, written)


def test_with_the_checkpoints_deleted_as_well(
    both: Pair, person: Person, ready: tuple[Machine, Machine]
) -> None:
    leader, waiting = ready
    with writing(person) as written:
        leader.kill()
        shutil.rmtree(leader.home / "checkpoints")
        _goes_on(written, waiting)
    leader.start("standby")
    assert written.refused == []
    is_whole(both.core, person, written)


def test_a_leader_that_was_paused_finds_that_it_leads_no_more(
    both: Pair, person: Person, ready: tuple[Machine, Machine]
) -> None:
    leader, waiting = ready
    with writing(person) as written:
        leader.pause()
        _goes_on(written, waiting)
        leader.resume()
        until(leader.ended, PATIENCE)
        _goes_on(written, waiting)
    assert "Fenced" in leader.said() or "taken over" in leader.said()
    leader.join()
    assert written.refused == []
    is_whole(both.core, person, written)


def test_a_leader_that_is_asked_to_stop_hands_over(
    both: Pair, person: Person, ready: tuple[Machine, Machine]
) -> None:
    leader, waiting = ready
    with writing(person) as written:
        leader.stop()
        _goes_on(written, waiting)
    [held] = [each for each in holders(both.system.database) if each.duty == "ingest"]
    seen = waiting.seen()
    assert seen is not None
    assert held.pid == seen.pid
    assert written.refused == []
    is_whole(both.core, person, written)


def _goes_on(written: Written, leader: Machine) -> None:
    until(lambda: leader.state == "active", PATIENCE)
    written.grows()
