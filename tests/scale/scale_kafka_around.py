"""What stands around the pipeline while Kafka is the log: lag, the lake, and moves of tenants."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any, NoReturn

import msgspec
import pytest
from confluent_kafka import Producer
from httpx import Response
from typer.testing import CliRunner

from lily.cli.app import build
from lily.cli.broker import CannotFetch, broker
from lily.events.signed import HEADER, sign
from lily.identity.actor import Actor
from lily.lake import read
from lily.log.kafka import Kafka
from lily.pipeline.archive import CellArchive
from lily.store import feed, moves, moving, positions, producer_keys
from lily.store.embedded import Server
from lily.telemetry import exposition
from lily.types import Isolation
from lily.wiring import kafka, kafka_lag
from lily.workers import lag, move
from lily.workers.move import Pace
from tests.flow.people import Person, admin
from tests.scale.kafka_lily import KafkaLily, fetch_jars, kafka_lily, until


@pytest.fixture(scope="module")
def lily(
    server: Server, missing: Callable[[str], NoReturn], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaLily]:
    fetch_jars(missing)
    home = tmp_path_factory.mktemp("around")
    try:
        with (
            broker() as node,
            kafka_lily(server, home, f"kafka://{node.address}", "around", lake="file:") as made,
        ):
            yield made
    except CannotFetch as cause:
        missing(str(cause))


@pytest.fixture
def person(lily: KafkaLily) -> Person:
    return admin(lily.core, lily.one)


def test_lag_tells_what_waits_in_kafka_since_when_and_of_whom(
    lily: KafkaLily, person: Person
) -> None:
    other = admin(lily.core, lily.one)
    assert _post(person, "t").status_code == 201
    shown = _lanes(person)
    assert shown["core"]["own"]["waiting"] == 0
    assert shown["core"]["own"]["oldest_waiting_seconds"] is None
    assert 0 <= shown["core"]["own"]["newest_applied_seconds"] < 600
    assert 0 <= shown["core"]["all"]["newest_applied_seconds"] < 600

    lily.pipeline.end()
    for number in range(3):
        assert _post(person, f"t#c{number}", Prefer="respond-async").status_code == 202
    for name in ("t#c1", "t"):
        assert _post(other, name, Prefer="respond-async").status_code == 202
    _write(lily, person, "t#c4")
    shown = _lanes(person)
    assert (shown["fields"]["own"]["waiting"], shown["fields"]["all"]["waiting"]) == (4, 5)
    assert (shown["core"]["own"]["waiting"], shown["core"]["all"]["waiting"]) == (0, 1)
    assert shown["core"]["own"]["oldest_waiting_seconds"] is None
    oldest = shown["fields"]["own"]["oldest_waiting_seconds"]
    assert 0 < oldest < 600
    assert _lanes(person)["fields"]["own"]["oldest_waiting_seconds"] > oldest
    fresh = _get(person, "/api/v1/metadata/t/freshness")
    assert (fresh["fields_waiting"], fresh["complete"]) == (4, False)
    assert _get(person, "/api/v1/metadata/t/children")["fields_waiting"] == 4
    told = lag.work(lily.system, set(), kafka_lag(lily.settings))
    said = exposition().decode()
    assert 'lily_log_lag{cell="home",lane="fields"} 5.0' in said
    assert f'lily_tenant_waiting{{lane="fields",tenant="{person.tenant.name}"}} 4.0' in said
    assert f'lily_tenant_waiting{{lane="core",tenant="{other.tenant.name}"}} 1.0' in said
    assert "5 observations wait in lane fields of home" in _doctor(lily)

    lily.pipeline.start()
    until(lambda: _get(person, "/api/v1/metadata/t/freshness")["complete"])
    assert len(_get(person, "/api/v1/metadata/t/children")["items"]) == 4
    until(lambda: _lanes(person)["core"]["all"]["waiting"] == 0)
    lag.work(lily.system, told, kafka_lag(lily.settings))
    said = exposition().decode()
    assert 'lily_log_lag_seconds{cell="home",lane="core"} 0.0' in said
    assert f'lily_tenant_waiting{{lane="fields",tenant="{person.tenant.name}"}} 0.0' in said


def test_the_lake_holds_what_came_through_kafka_once(lily: KafkaLily, person: Person) -> None:
    for number in range(5):
        assert _post(person, f"raw/{number}").status_code == 201
        assert _post(person, f"raw/{number}#c", description=f"{number}").status_code == 201
    _write(lily, person, "raw/by-hand")
    until(lambda: _read(person, "raw/by-hand").status_code == 200)
    archive = CellArchive(lily.system, "home")
    try:
        archive.catch_up()
        found = _observations(archive, person)
        assert sorted(row[3] for row in found) == sorted(
            [*(f"raw/{n}" for n in range(5)), *(f"raw/{n}#c" for n in range(5)), "raw/by-hand"]
        )
        assert all(part > 0 for _, part, *_ in found)
        assert {json.loads(row[4])["tenant"] for row in found} == {person.tenant.number}
        archive.catch_up()
    finally:
        archive.close()
    assert _post(person, "raw/later").status_code == 201
    again = CellArchive(lily.system, "home")  # another process goes on where the table says
    try:
        again.catch_up()
        rows = _observations(again, person)
        assert len({row[:3] for row in rows}) == len(rows) == len(found) + 1
        with lily.system.database.cell("home") as conn:
            parts = positions.parts(conn)
        state = read.state(again.lake, "observations")
        assert state is not None
        assert {f"{lane}/{part}": at for (lane, part), at in parts.items()}.items() <= (
            state.position.items()
        )
    finally:
        again.close()
    shown = {each["table"]: each for each in _get(person, "/api/v1/lake")["items"]}
    assert shown["observations"]["rows"] == len(rows)


def test_a_tenant_moves_there_and_back_while_others_write(
    lily: KafkaLily, person: Person, server: Server
) -> None:
    other = admin(lily.core, lily.one)
    for number in range(20):
        assert _post(person, f"old/{number}").status_code == 201
    with _writing(person, other) as (mine, others):
        until(lambda: mine.acknowledged and others.acknowledged)
        _move(lily, person, "dedicated", server.create_database("around_own"))
        there = len(mine.acknowledged)
        until(lambda: len(mine.acknowledged) > there + 20)
    assert others.refused == []
    assert set(mine.refused) == {(503, "5")}
    _has_all(lily, person, mine.acknowledged, more=20)
    _has_all(lily, other, others.acknowledged)
    assert _left(lily, "home", person) == 0

    cell = lily.core.database.tenant(person.tenant.number).cell
    _write(lily, person, "moved/by-hand")  # to the shared topic, from which it is passed on
    until(lambda: _read(person, "moved/by-hand").status_code == 200)
    _move(lily, person, "pooled", None)
    assert _post(person, "back/again").status_code == 201
    _has_all(lily, person, mine.acknowledged, more=22)
    assert lily.core.database.tenant(person.tenant.number).cell == "home" != cell


class _Told(msgspec.Struct):
    """What somebody was told of what they sent."""

    acknowledged: list[str] = []
    refused: list[tuple[int, str | None]] = []


@contextmanager
def _writing(*people: Person) -> Iterator[list[_Told]]:
    """Each writes all the time."""
    stop = Event()
    told = [_Told() for _ in people]

    def write(person: Person, told: _Told) -> None:
        number = 0
        while not stop.is_set():
            name = f"while/{number}"
            answer = _post(person, name, Prefer="respond-async")
            if answer.status_code < 300:
                told.acknowledged.append(name)
            else:
                told.refused.append((answer.status_code, answer.headers.get("retry-after")))
            number += 1
            stop.wait(0.02)

    with ThreadPoolExecutor(len(people)) as pool:
        writers = [pool.submit(write, *each) for each in zip(people, told, strict=True)]
        try:
            yield told
        finally:
            stop.set()
    for each in writers:
        each.result()


def _move(lily: KafkaLily, person: Person, to: Isolation, url: str | None) -> None:
    core = lily.core
    tenant = core.database.tenant(person.tenant.number)
    moves.begin(core.database, core.seal, tenant, to, url, Actor("boss", "move"))
    move.work(lily.system, Event(), Pace(drain=90, ends=60))
    now = core.database.tenant(person.tenant.number)
    assert (now.isolation, now.state) == (to, "active")


def _has_all(lily: KafkaLily, person: Person, names: list[str], more: int = 0) -> None:
    """Every asset once, each told of once, in a chain without a break."""
    until(lambda: all(_read(person, name).status_code == 200 for name in names[-3:]), 90)
    tenant = lily.core.database.tenant(person.tenant.number)
    until(lambda: _left(lily, tenant.cell, person) >= len(names) + more, 90)
    assert _left(lily, tenant.cell, person) == len(names) + more
    with lily.core.database.unit(tenant) as unit:
        made = [link.guid for link in feed.after(unit, 0, 100_000, kinds=["AssetCreated"])]
        assert feed.check(unit) is None
    assert len(made) == len(set(made)) == len(names) + more


def _left(lily: KafkaLily, cell: str, person: Person) -> int:
    """How many assets of somebody a place has."""
    number = person.tenant.number
    with moving.owner(lily.core.database.url_of(cell)) as conn:
        [[count]] = conn.execute("SELECT count(*) FROM asset WHERE tenant = %s", [number])
    return int(count)


def _observations(archive: CellArchive, person: Person) -> list[tuple[Any, ...]]:
    ask = 'SELECT lane, part, "offset", key, value FROM observations'
    return read.query(archive.lake, ask, person.tenant.number).rows


def _post(person: Person, name: str, description: str = "", **headers: str) -> Response:
    body = {"qualified_name": name, "description": description}
    sent = {**person.headers, **headers}
    return person.client.post("/api/v1/metadata", json=body, headers=sent, timeout=30)


def _read(person: Person, name: str) -> Response:
    path = name.replace("/", "%2F").replace("#", "%23")
    return person.client.get(f"/api/v1/metadata/{path}", headers=person.headers)


def _get(person: Person, path: str) -> dict[str, Any]:
    answer = person.client.get(path, headers=person.headers, timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _lanes(person: Person) -> dict[str, dict[str, Any]]:
    return {each["lane"]: each for each in _get(person, "/api/v1/lag")["lanes"]}


def _doctor(lily: KafkaLily) -> str:
    chosen = lily.settings
    given = {"LILY_LOG": chosen.log, "LILY_DATABASE": chosen.database}
    line = ["doctor", "--home", str(chosen.home), "--json"]
    return CliRunner().invoke(build(), line, env=given).output


def _write(lily: KafkaLily, person: Person, name: str) -> None:
    """As a program of the tenant's does, past the API."""
    core = lily.core
    key, secret = producer_keys.create(core.database, core.seal, core.clock, person.tenant, "etl")
    observation = {"type": "AssetSeen", "qualified_name": name, "description": "by hand"}
    value = json.dumps({"source": "etl", "observation": observation}).encode()
    place = name.encode()
    cluster = _cluster(lily)
    producer = Producer(cluster.client())
    topic = cluster.topic("fields" if "#" in name else "core")
    producer.produce(topic, value, place, headers={HEADER: sign(key.id, secret, place, value)})
    assert producer.flush(20) == 0


def _cluster(lily: KafkaLily) -> Kafka:
    cluster = kafka(lily.settings)
    assert cluster is not None
    return cluster
