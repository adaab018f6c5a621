"""Kafka as the log: a real broker, and a whole Lily over it."""

import base64
import hmac
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any, NoReturn
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from httpx import Response

from lily.cli.broker import Broker
from lily.log.kafka import Kafka, KafkaAway, ensure
from lily.store import feed, producer_keys
from lily.store.embedded import Server
from lily.types import Tenant
from lily.wiring import Core, kafka
from lily.workers.relay import NAME, Relay
from tests.flow.people import Person, admin, dedicated
from tests.scale.kafka_lily import KafkaLily, fetch_jars, kafka_lily, until
from tests.scale.kafka_secured import certificate, client_settings, secured_broker

OUTAGE = 30.0
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(
    ca: Path, missing: Callable[[str], NoReturn], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    fetch_jars(missing)
    with secured_broker(tmp_path_factory.mktemp("broker"), ca, missing) as made:
        yield made


@pytest.fixture(scope="module")
def lily(
    node: Broker, ca: Path, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaLily]:
    home, log = tmp_path_factory.mktemp("kafka"), f"kafka://{node.address}"
    patient = {"wait_limit": 60.0}  # a slow machine is no reason to answer 202
    with kafka_lily(server, home, log, "kafka", **patient, **client_settings(ca)) as made:
        yield made


@pytest.fixture
def person(lily: KafkaLily) -> Person:
    return admin(lily.core, lily.one)


def test_what_is_posted_is_read_at_once_from_another_process(
    lily: KafkaLily, person: Person
) -> None:
    def write_and_read(number: int) -> tuple[int, int, str]:
        name = f"db/shop/table_{number // 4}" + (f"#c{number}" if number % 4 else "")
        made = _post(person, {"qualified_name": name, "description": f"no {number}"})
        path = f"/api/v1/metadata/{made.json()['guid']}"
        read = lily.other.get(path, headers=person.headers)
        return made.status_code, read.status_code, read.json().get("description", "")

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(write_and_read, range(400)))
    assert results == [(201, 200, f"no {number}") for number in range(400)]
    assert _post(person, {"qualified_name": "db/shop/table_0", "tags": ["x"]}).status_code == 200
    _is_whole(lily.system, person.tenant, 400)


def test_who_has_no_password_does_not_get_in(lily: KafkaLily) -> None:
    cluster = _cluster(lily)
    assert ensure(cluster, ["home"])["lily.core"] == 6
    with pytest.raises(KafkaAway):
        ensure(msgspec.structs.replace(cluster, password="guessed"), ["home"])


def test_later_statements_of_one_asset_win_in_the_order_they_were_sent(
    lily: KafkaLily, person: Person
) -> None:
    for number in range(60):
        body = {"qualified_name": "db/again", "description": f"no {number}"}
        _post(person, body, Prefer="respond-async")
    last = _post(person, {"qualified_name": "db/again", "description": "last"})
    assert last.status_code == 200
    assert last.json()["description"] == "last"


def test_what_the_store_writes_itself_is_applied_beside_kafka(
    lily: KafkaLily, person: Person
) -> None:
    """A dead letter is replayed in a transaction of the store, so through the store's own log."""
    key, secret = _key(lily, person)
    _produce(lily, "lily.core", _signed(key, secret, b"x", _said("ext/t#astray")))
    until(lambda: _dead(person))
    [letter] = _dead(person)
    path = f"/api/v1/dead-letters/{letter['id']}/replay"
    assert person.client.post(path, headers=person.headers).status_code == 202
    until(lambda: _read(person, "ext/t#astray").status_code == 200)


def test_a_key_decides_the_tenant_and_nothing_else_does(lily: KafkaLily, person: Person) -> None:
    other = admin(lily.core, lily.one)
    key, secret = _key(lily, person)
    good = _signed(key, secret, b"1/ext/good", _said("ext/good"))
    forged = _signed(key, b"guessed", b"1/ext/forged", _said("ext/forged"))
    moved = good[0], good[1].replace(b"good", b"moved"), good[2]
    boastful = _signed(key, secret, b"k", _said("ext/boastful", tenant=other.tenant.number))
    as_lily = _signed("lily", secret, f"{other.tenant.number}/ext/lily".encode(), _said("ext/lily"))
    unsigned: tuple[bytes, bytes, list[Any]] = (b"k", _said("ext/unsigned"), [])
    astray = _signed(key, secret, b"k", _said("ext/table#column"))
    before = _end(lily, "lily.dead")
    _produce(lily, "lily.core", good, forged, moved, boastful, as_lily, unsigned, astray)
    until(lambda: _read(person, "ext/good").status_code == 200)
    until(lambda: len(_dead(person)) == 2)
    found = _read(person, "ext/good").json()
    assert found["description"] == "by hand"
    for name in ("forged", "moved", "boastful", "lily", "unsigned", "table#column"):
        for each in (person, other):
            assert _read(each, f"ext/{name}").status_code == 404
    reasons = [letter["reason"] for letter in _dead(person)]
    assert any("tenant" in reason for reason in reasons)
    assert any("topic of fields" in reason for reason in reasons)
    assert not _dead(other)
    until(lambda: _end(lily, "lily.dead") == before + 4)
    told = [dict(each.headers() or []) for each in _consume(lily, "lily.dead")]
    assert all(each["lily-reason"] and each["lily-place"] for each in told)

    producer_keys.revoke(lily.core.database, lily.core.clock, person.tenant, key)
    time.sleep(producer_keys.FRESH + 1)  # it may be good for so long
    _produce(lily, "lily.core", _signed(key, secret, b"k", _said("ext/late")))
    until(lambda: _end(lily, "lily.dead") == before + 5)
    assert _read(person, "ext/late").status_code == 404


def test_a_tenant_with_a_database_of_its_own_has_topics_of_its_own(
    lily: KafkaLily, server: Server
) -> None:
    person = dedicated(lily.core, lily.one, server.create_database("kafka_own"))
    until(lambda: _post(person, {"qualified_name": "own/first"}).status_code in (200, 201), 90)
    cell = person.tenant.cell
    assert _end(lily, f"lily.core.{cell}") > 0
    key, secret = _key(lily, person)
    _produce(lily, "lily.core", _signed(key, secret, b"k", _said("own/passed-on")))
    until(lambda: _read(person, "own/passed-on").status_code == 200)
    with lily.system.database.cell("home", [person.tenant.number]) as conn:
        [[count]] = conn.execute(
            "SELECT count(*) FROM asset WHERE tenant = %s", [person.tenant.number]
        ).fetchall()
    assert count == 0


def test_facts_are_relayed_in_order_and_again_with_the_same_ids(
    lily: KafkaLily, person: Person
) -> None:
    for number in range(5):
        for name in ("relay/a", "relay/b"):
            _post(person, {"qualified_name": name, "description": f"no {number}"})
    relay = Relay(lily.system, _cluster(lily), Event())
    try:
        relay.work()
        first = _told(lily, person.tenant)
        assert [each["id"] for each in first] == sorted(
            {each["id"] for each in first}, key=lambda id: int(id.rpartition("/")[2])
        )
        with lily.system.database.cell("home", [person.tenant.number]) as conn:
            assert len(first) == feed.head(_unit(conn, person.tenant))
            conn.execute(
                "UPDATE consumer SET position = 0 WHERE name = %s AND tenant = %s",
                [NAME, person.tenant.number],
            )
        relay.work()  # as after a crash between sending and noting it
        again = _told(lily, person.tenant)
    finally:
        relay.close()
    assert len(again) == 2 * len(first)
    assert {each["id"] for each in again} == {each["id"] for each in first}
    asset = [each for each in first if each.get("subject") == first[-1]["subject"]]
    assert [each["data"]["after"].get("description") for each in asset if each["data"]["after"]][
        -1
    ] == "no 4"


def test_a_lost_checkpoint_and_a_killed_pipeline_lose_and_double_nothing(
    lily: KafkaLily, person: Person
) -> None:
    names = [f"cp/{number}" for number in range(300)]
    for name in names[:100]:
        assert _post(person, {"qualified_name": name}, Prefer="respond-async").status_code == 202
    lily.pipeline.end(signal.SIGKILL)
    for name in names[100:]:
        assert _post(person, {"qualified_name": name}, Prefer="respond-async").status_code == 202
    shutil.rmtree(lily.settings.home / "checkpoints")
    lily.pipeline.start()
    assert _post(person, {"qualified_name": "cp/after"}).status_code == 201
    until(lambda: _read(person, names[-1]).status_code == 200)
    assert all(_read(person, name).status_code == 200 for name in names)
    _is_whole(lily.system, person.tenant, len(names) + 1)


def test_a_broker_killed_under_load_loses_nothing_that_was_acknowledged(
    lily: KafkaLily, node: Broker, person: Person
) -> None:
    acknowledged: list[str] = []
    refused: list[tuple[int, str | None, float]] = []
    lock, stop = Lock(), Event()

    def write(lane: int) -> None:
        number = 0
        while not stop.is_set():
            name, began = f"load/{lane}/{number}", time.monotonic()
            answer = _post(person, {"qualified_name": name}, Prefer="respond-async")
            with lock:
                if answer.status_code < 300:
                    acknowledged.append(name)
                else:
                    after = answer.headers.get("retry-after")
                    refused.append((answer.status_code, after, time.monotonic() - began))
            number += 1

    with ThreadPoolExecutor(4) as pool:
        lanes = [pool.submit(write, lane) for lane in range(4)]
        until(lambda: len(acknowledged) > 200)
        node.kill()
        time.sleep(OUTAGE)
        outage = len(acknowledged)
        node.start()
        until(lambda: len(acknowledged) > outage + 200, 90)
        stop.set()
        for each in lanes:
            each.result()
    assert refused
    assert {(status, bool(after)) for status, after, _ in refused} == {(503, True)}
    assert max(seconds for *_, seconds in refused) < 6
    assert _post(person, {"qualified_name": "load/last"}).status_code in (201, 202)
    until(lambda: all(_read(person, name).status_code == 200 for name in acknowledged[-8:]), 90)
    assert [name for name in acknowledged if _read(person, name).status_code != 200] == []


def _post(person: Person, body: Any, **headers: str) -> Response:
    sent = {**person.headers, **headers}
    return person.client.post("/api/v1/metadata", json=body, headers=sent, timeout=90)


def _read(person: Person, name: str) -> Response:
    path = name.replace("/", "%2F").replace("#", "%23")
    return person.client.get(f"/api/v1/metadata/{path}", headers=person.headers)


def _dead(person: Person) -> list[dict[str, Any]]:
    answer = person.client.get("/api/v1/dead-letters", headers=person.headers)
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def _unit(conn: Any, tenant: Tenant) -> Any:
    from lily.store.database import Unit

    return Unit(conn, tenant)


def _is_whole(system: Core, tenant: Tenant, assets: int) -> None:
    """As many assets as were sent, each told of once, in a chain without a break."""
    with system.database.cell("home", [tenant.number]) as conn:
        unit = _unit(conn, tenant)
        [[stored]] = conn.execute(
            "SELECT count(*) FROM asset WHERE tenant = %s", [tenant.number]
        ).fetchall()
        told: list[str] = []
        for link in feed.after(unit, 0, 100_000, kinds=["AssetCreated"]):
            told.append(str(link.guid))
        assert feed.check(unit) is None
    assert stored == assets
    assert len(told) == len(set(told))


def _key(lily: KafkaLily, person: Person) -> tuple[str, bytes]:
    core = lily.core
    made, secret = producer_keys.create(core.database, core.seal, core.clock, person.tenant, "etl")
    return made.id, secret


def _said(name: str, **more: Any) -> bytes:
    observation = {"type": "AssetSeen", "qualified_name": name, "description": "by hand"}
    return json.dumps({"source": "etl", "observation": observation, **more}).encode()


def _signed(id: str, secret: bytes, key: bytes, value: bytes) -> tuple[bytes, bytes, list[Any]]:
    """As docs/how-to/kafka.md says, without any code of Lily's."""
    digest = hmac.digest(secret, len(key).to_bytes(4, "big") + key + value, "sha256")
    signature = f"v1,{id},{base64.b64encode(digest).decode()}"
    return key, value, [("lily-signature", signature)]


def _produce(lily: KafkaLily, topic: str, *records: tuple[bytes, bytes, list[Any]]) -> None:
    producer = Producer(_cluster(lily).client())
    for key, value, headers in records:
        producer.produce(topic, value, key, headers=headers)
    assert producer.flush(20) == 0


def _consume(lily: KafkaLily, topic: str) -> list[Any]:
    """Everything in a topic, partition by partition."""
    consumer = Consumer({**_cluster(lily).client(), "group.id": uuid4().hex})
    try:
        parts = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        left = 0
        for part in parts:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, part), timeout=10)
            left += high - low
        consumer.assign([TopicPartition(topic, part, 0) for part in parts])
        found: list[Any] = []
        end = time.monotonic() + 30
        while len(found) < left and time.monotonic() < end:
            found += consumer.consume(500, 1)
        return found
    finally:
        consumer.close()


def _end(lily: KafkaLily, topic: str) -> int:
    return len(_consume(lily, topic))


def _told(lily: KafkaLily, tenant: Tenant) -> list[dict[str, Any]]:
    """A tenant's facts as a consumer gets them: in order within an asset, put together by place."""
    events = [json.loads(each.value()) for each in _consume(lily, "lily.facts")]
    own = [each for each in events if each["source"] == f"/lily/{tenant.name}"]
    places: dict[str, int] = {}
    seen: set[str] = set()
    for each in own:
        place = int(each["lilyposition"])
        subject = each.get("subject", "")
        if each["id"] not in seen:
            assert place > places.get(subject, 0)
            places[subject] = place
        seen.add(each["id"])
    return sorted(own, key=lambda each: int(each["lilyposition"]))


def _cluster(lily: KafkaLily) -> Kafka:
    cluster = kafka(lily.settings)
    assert cluster is not None
    return cluster
