"""Kafka away or hanging under load, and a leader lost meanwhile: nobody need do anything."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from lily.cli.broker import Broker, CannotFetch, broker
from lily.store.embedded import Server
from tests.flow.people import Person, admin
from tests.scale.kafka_lily import fetch_jars
from tests.scale.pair import Pair, pair
from tests.scale.writers import PATIENCE, Written, is_whole, writing
from tests.waiting import until

OUTAGE = 30.0
HANGS = 12.0
LATE = 10.0  # 4 s and what a busy machine adds


@pytest.fixture(scope="module")
def node(missing: Callable[[str], NoReturn]) -> Iterator[Broker]:
    fetch_jars(missing)
    try:
        with broker() as running:
            yield running
    except CannotFetch as cause:
        missing(str(cause))


@pytest.fixture(scope="module")
def both(node: Broker, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    log = f"kafka://{node.address}"
    with pair(server, tmp_path_factory.mktemp("outage"), "outage", log) as made:
        yield made


@pytest.fixture
def person(both: Pair) -> Person:
    both.ready()
    return admin(both.core, both.api)


def test_a_broker_that_stops_for_half_a_minute(both: Pair, person: Person, node: Broker) -> None:
    with writing(person, Prefer="respond-async") as written:
        node.stop()
        time.sleep(OUTAGE)
        node.start()
        written.grows()
    _was_refused(written)
    is_whole(both.core, person, written)


def test_a_broker_that_hangs(both: Pair, person: Person, node: Broker) -> None:
    """It takes connections and answers nothing."""
    assert node.pid is not None
    with writing(person, Prefer="respond-async") as written:
        os.kill(node.pid, signal.SIGSTOP)
        time.sleep(HANGS)
        os.kill(node.pid, signal.SIGCONT)
        written.grows()
    _was_refused(written)
    is_whole(both.core, person, written)


def test_a_leader_that_dies_while_the_broker_is_killed(
    both: Pair, person: Person, node: Broker
) -> None:
    leader, waiting = both.ready()
    with writing(person, Prefer="respond-async") as written:
        node.kill()
        leader.kill()
        until(lambda: waiting.state == "taking over", PATIENCE)
        node.start()
        written.grows()
        until(lambda: waiting.state == "active", PATIENCE)
    assert {status for status, *_ in written.refused} <= {503}  # none, if it is back soon
    is_whole(both.core, person, written)


def _was_refused(written: Written) -> None:
    """Soon, and with a time after which to try again."""
    assert {(status, bool(after)) for status, after, _ in written.refused} == {(503, True)}
    assert max(seconds for *_, seconds in written.refused) < LATE
