"""Target `kafka` on a real broker with TLS and a password: order, repeats, refusals, death."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lily.cli.broker import Broker
from lily.log.kafka import Kafka
from lily.store import deliveries
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.notifying import Stage, staged
from tests.scale.kafka_secured import PASSWORD, USER, certificate, secured_broker
from tests.waiting import until

MOST_BYTES = 2_000  # of a record in the narrow topic


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(
    ca: Path, missing: Callable[[str], NoReturn], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    with secured_broker(tmp_path_factory.mktemp("broker"), ca, missing) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(node: Broker, ca: Path) -> Kafka:
    return Kafka(servers=node.address, security="SASL_SSL", mechanism="PLAIN", username=USER,
                 password=PASSWORD, ca=ca)  # fmt: skip


@pytest.fixture
def topic(cluster: Kafka) -> str:
    return made(cluster)


@pytest.fixture
def stage(core: Core, system: Core, tenant: Tenant) -> Iterator[Stage]:
    with staged(core, system, tenant) as built:
        yield built


def made(cluster: Kafka, **config: str) -> str:
    name = f"notices-{uuid4().hex[:8]}"
    admin = AdminClient(cluster.client())
    for done in admin.create_topics([NewTopic(name, 3, 1, config=config)]).values():
        done.result(60)
    return name


def options(node: Broker, ca: Path, topic: str) -> dict[str, Any]:
    return {
        "servers": node.address, "topic": topic, "security": "SASL_SSL", "mechanism": "PLAIN",
        "username": USER, "password": PASSWORD, "ca": ca.read_text(),
    }  # fmt: skip


def consumed(cluster: Kafka, topic: str, count: int) -> list[Message]:
    consumer = Consumer(
        {**cluster.client(), "group.id": uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Message] = []

    def enough() -> bool:
        found.extend(each for each in consumer.consume(100, 0.2) if each.error() is None)
        return len(found) >= count

    try:
        until(enough, 60)
    finally:
        consumer.close()
    return found


def headers(message: Message) -> dict[str, bytes]:
    return dict(message.headers() or [])  # type: ignore[arg-type]


def test_events_arrive_by_asset_and_in_order_and_a_repeat_has_the_same_id(
    stage: Stage, node: Broker, ca: Path, cluster: Kafka, topic: str
) -> None:
    stage.subscribe(stage.connect("kafka", **options(node, ca, topic)))
    guids = [uuid4() for _ in range(5)]
    for number in range(40):
        stage.happen(guid=guids[number % 5], after={"description": f"no {number}"})
    stage.tell()
    sent = stage.deliveries()
    assert {each.state for each in sent} == {"delivered"}, {each.reason for each in sent}
    found = consumed(cluster, topic, 40)
    assert {headers(each)["webhook-id"].decode() for each in found} == {str(e.id) for e in sent}
    places: dict[bytes, set[int]] = {}
    for each in found:
        places.setdefault(each.key() or b"", set()).add(each.partition() or 0)
    assert set(places) == {str(guid).encode() for guid in guids}
    assert all(len(partitions) == 1 for partitions in places.values())
    event = msgspec.json.decode(found[0].value() or b"")
    assert event["type"] == "io.lily.asset.updated" and event["id"] in {str(e.id) for e in sent}
    first = sent[0]
    with stage.core.database.unit(stage.tenant) as unit:
        deliveries.again(unit, first.id, stage.clock.now(), "again")
    stage.tell()
    ids = [headers(each)["webhook-id"] for each in consumed(cluster, topic, 41)]
    assert ids.count(str(first.id).encode()) == 2
    assert stage.attempts(first.id)[0].calls[0]["call"] == f"kafka {topic}"


@pytest.mark.parametrize(
    ("more", "state", "reason"),
    [
        ({"password": "guessed"}, "dead", "AUTHENTICATION"),
        ({"topic": "nobody-made-it"}, "dead", "UNKNOWN_TOPIC_OR_PART"),
        ({"ca": ""}, "waiting", "Kafka says"),
        ({"servers": "127.0.0.1:9"}, "waiting", "Kafka says"),
    ],
)
def test_what_cannot_work_is_said(
    stage: Stage, node: Broker, ca: Path, topic: str, more: dict[str, Any], state: str, reason: str
) -> None:
    stage.subscribe(stage.connect("kafka", **{**options(node, ca, topic), **more}))
    stage.happen(count=3)
    stage.tell()
    sent = stage.deliveries()
    assert {each.state for each in sent} == {state}
    assert all(reason in each.reason for each in sent), sent[0].reason
    assert not any(PASSWORD in each.reason or "guessed" in each.reason for each in sent)


def test_a_record_that_the_topic_does_not_take_is_dead_and_others_arrive(
    stage: Stage, node: Broker, ca: Path, cluster: Kafka
) -> None:
    narrow = made(cluster, **{"max.message.bytes": str(MOST_BYTES)})
    stage.subscribe(stage.connect("kafka", **options(node, ca, narrow)))
    noise = uuid4().hex + "".join(uuid4().hex for _ in range(200))  # does not compress well
    stage.happen(after={"description": noise})
    stage.happen()
    stage.tell()
    assert sorted(each.state for each in stage.deliveries()) == ["dead", "delivered"]
    [dead] = stage.deliveries(state="dead")
    assert "MSG_SIZE_TOO_LARGE" in dead.reason


def test_a_broker_that_dies_loses_nothing(
    stage: Stage, node: Broker, ca: Path, cluster: Kafka, topic: str
) -> None:
    stage.subscribe(stage.connect("kafka", **options(node, ca, topic)))
    stage.happen(count=10)
    stage.tell()
    node.kill()
    stage.happen(count=10)
    stage.tell()
    assert sum(each.state == "waiting" for each in stage.deliveries()) == 10
    node.start()

    def arrived() -> bool:
        stage.after(minutes=10)
        stage.tell()
        return {each.state for each in stage.deliveries()} == {"delivered"}

    until(arrived, 90)
    ids = {headers(each)["webhook-id"] for each in consumed(cluster, topic, 20)}
    assert len(ids) == 20


def test_a_broker_that_may_not_be_called_is_refused(
    stage: Stage, node: Broker, ca: Path, topic: str
) -> None:
    stage.allowed = []
    stage.subscribe(stage.connect("kafka", **options(node, ca, topic)))
    stage.happen()
    stage.tell()
    [sent] = stage.deliveries()
    assert sent.state == "dead" and "LILY_EGRESS_ALLOW" in sent.reason
