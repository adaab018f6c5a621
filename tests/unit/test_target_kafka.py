"""Target `kafka`: what is written, what Kafka's errors mean, and where brokers may be."""

import asyncio
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_structured_event
from confluent_kafka import KafkaError
from pydantic import ValidationError

from lily import plugins
from lily.api.egress import reachable
from lily.connectors.kafka import Kafka
from lily.errors import Invalid, Reject, Retry
from lily.notify import egress
from lily.sdk import Answer, Cluster, Record, Target
from lily.sdk.testing_targets import TargetContract, converse, notices
from lily.workers.brokers import Brokers, judged
from lily.workers.unreached import Unreached

OPTIONS: dict[str, Any] = {"servers": "kafka.example:9092, 192.0.2.7:9092", "topic": "lily.notices"}
LOGIN = {"mechanism": "SCRAM-SHA-512", "username": "lily", "password": "s3cret"}


def made(**more: Any) -> Kafka:
    return Kafka(Kafka.Options.model_validate({**OPTIONS, **more}))


class TestKafka(TargetContract):
    def make(self) -> Target:
        return made()


def records(target: Kafka) -> list[Record]:
    return [
        record
        for notice in notices()
        for record in converse(target, notice, lambda _: Answer(200))[0]
    ]


def test_a_record_is_a_cloudevent_with_the_asset_as_key_and_the_same_id_on_every_try() -> None:
    first, again, *rest = records(made(source="/lily/eu"))
    assert first.key == notices()[0].asset.guid.encode()  # type: ignore[union-attr]
    assert rest[-1].key == b"k"  # no asset: what it is about
    headers = {name: value.encode() for name, value in first.headers.items()}
    event = from_structured_event(KafkaMessage(headers, first.key, first.value))
    assert event.get_id() == first.headers["webhook-id"] == again.headers["webhook-id"]
    assert (event.get_source(), event.get_type()) == ("/lily/eu", "io.lily.incident.opened")
    assert event.get_subject() == "postgres://h:5432/shop.public.people"
    assert len(records(made())) == len(notices()) - 1, "an echo is no news"


def test_a_record_that_brokers_would_not_take_is_cut() -> None:
    huge = msgspec.structs.replace(notices()[0], data={"all": "x" * 2_000_000})
    [record] = converse(made(), huge, lambda _: Answer(200))[0]
    assert len(record.value) < 10_000 and msgspec.json.decode(record.value)["data"]["truncated"]


def test_logins_and_certificates_reach_the_cluster_and_are_never_shown() -> None:
    options = {**OPTIONS, **LOGIN, "security": "SASL_SSL", "ca": "CA", "certificate": "CERT",
               "key": "KEY"}  # fmt: skip
    [record, *_] = records(made(**options))
    assert record.cluster == Cluster(
        servers="kafka.example:9092,192.0.2.7:9092", security="SASL_SSL",
        mechanism="SCRAM-SHA-512", username="lily", password="s3cret", ca="CA",
        certificate="CERT", key="KEY",
    )  # fmt: skip
    public, secrets = plugins.split(plugins.check("target", "kafka", options))
    assert "s3cret" not in str(public) and "KEY" not in str(public) and secrets is not None


@pytest.mark.parametrize(
    "more",
    [
        {"servers": "kafka.example"},
        {"servers": "http://kafka.example:9092"},
        {"servers": ""},
        {"topic": "two words"},
        {"security": "SASL_SSL"},
        {**LOGIN},
        {**LOGIN, "security": "SASL_SSL", "password": None},
        {"certificate": "CERT"},
    ],
)
def test_options_that_cannot_work_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        made(**more)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Reject),
        (KafkaError.SASL_AUTHENTICATION_FAILED, Reject),
        (KafkaError._AUTHENTICATION, Reject),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Reject),
        (KafkaError.MSG_SIZE_TOO_LARGE, Reject),
        (KafkaError.THROTTLING_QUOTA_EXCEEDED, Retry),
        (KafkaError.NOT_ENOUGH_REPLICAS, Unreached),
        (KafkaError.LEADER_NOT_AVAILABLE, Unreached),
        (KafkaError._TRANSPORT, Unreached),
        (KafkaError._MSG_TIMED_OUT, Unreached),
    ],
)
def test_what_an_error_means(code: int, kind: type[Exception]) -> None:
    meant = judged(KafkaError(code))
    assert type(meant) is kind
    if isinstance(meant, Unreached):
        assert meant.unsure == (code != KafkaError._TRANSPORT)


@pytest.mark.parametrize(
    "servers", ["127.0.0.1:9092", "192.0.2.7:9092,169.254.169.254:80", "[::1]:9092"]
)
def test_a_broker_that_is_not_public_is_never_connected_to(servers: str) -> None:
    with pytest.raises(Reject, match="not a public address"):
        asyncio.run(write(Cluster(servers=servers), []))


def test_such_a_broker_is_refused_when_it_is_saved() -> None:
    with pytest.raises(Invalid, match="LILY_EGRESS_ALLOW"):
        reachable([], made(servers="127.0.0.1:9092"))
    reachable(["127.0.0.0/8"], made(servers="127.0.0.1:9092"))


def test_a_certificate_that_is_none_is_refused() -> None:
    cluster = Cluster(servers="127.0.0.1:9", security="SSL", ca="not a certificate")
    with pytest.raises(Reject, match=r"ssl\.ca\.pem"):
        asyncio.run(write(cluster, ["127.0.0.0/8"]))


async def write(cluster: Cluster, allowed: list[str]) -> None:
    brokers = Brokers(egress.networks(allowed))
    try:
        await brokers.write(Record(cluster, "t", b"k", b"v"))
    finally:
        await brokers.close()
