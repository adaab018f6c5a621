"""What stands around the pipeline while Kafka is the log: lag, and the lake."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
from confluent_kafka import Producer
from httpx import Response
from typer.testing import CliRunner

from lily.cli.app import build
from lily.cli.broker import CannotFetch, broker
from lily.events.signed import HEADER, sign
from lily.lake import read
from lily.log.kafka import Kafka
from lily.pipeline.archive import CellArchive
from lily.store import positions, producer_keys
from lily.store.embedded import Server
from lily.telemetry import exposition
from lily.wiring import kafka, kafka_lag
from lily.workers import lag
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
    """As a program of the tenant's does: past the API."""
    core, cluster = lily.core, _cluster(lily)
    key, secret = producer_keys.create(core.database, core.seal, core.clock, person.tenant, "etl")
    observation = {"type": "AssetSeen", "qualified_name": name, "description": "by hand"}
    value = json.dumps({"source": "etl", "observation": observation}).encode()
    place = name.encode()
    producer = Producer(cluster.client())
    topic = cluster.topic("fields" if "#" in name else "core")
    producer.produce(topic, value, place, headers={HEADER: sign(key.id, secret, place, value)})
    assert producer.flush(20) == 0


def _cluster(lily: KafkaLily) -> Kafka:
    cluster = kafka(lily.settings)
    assert cluster is not None
    return cluster
