"""Kafka as the log: where it is, how to get in, and which topics hold what."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from lily.errors import Unavailable
from lily.types import LANES, Lane

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

HOME = "home"
MOST_BYTES = 8_000_000  # of one record; a request may be nearly as large
ANSWER = 5.0
EXISTS = 36  # Kafka's own number for "there is one already"


class KafkaAway(Unavailable):
    """No broker answers."""


class Kafka(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster. `prefix` keeps apart the topics of several installations in one."""

    servers: str
    prefix: str = "lily"
    security: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = ""
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    pems: tuple[str, str, str] = ("", "", "")  # the same three as texts
    partitions: int = 6
    replication: int = 1
    keep_hours: float = 168.0

    def topic(self, lane: str, cell: str = HOME) -> str:
        """The lanes of the shared cell are `lily.core` and `lily.fields`; others add their name."""
        return f"{self.prefix}.{lane}" if cell == HOME else f"{self.prefix}.{lane}.{cell}"

    @property
    def dead(self) -> str:
        return f"{self.prefix}.dead"

    @property
    def facts(self) -> str:
        return f"{self.prefix}.facts"

    def client(self) -> dict[str, str | int | float | bool]:
        """As librdkafka wants to be told."""
        options: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.servers,
            "security.protocol": self.security,
            "reconnect.backoff.max.ms": "500",
            "socket.timeout.ms": "4000",
            "log_level": "2",
        }
        if self.mechanism:
            options |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        if self.ca is not None:
            options["ssl.ca.location"] = str(self.ca)
        if self.certificate is not None and self.key is not None:
            options["ssl.certificate.location"] = str(self.certificate)
            options["ssl.key.location"] = str(self.key)
        names = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")
        return options | {name: pem for name, pem in zip(names, self.pems, strict=True) if pem}

    def spark(self) -> dict[str, str]:
        """As Spark's Kafka source wants to be told."""
        options = {
            "kafka.bootstrap.servers": self.servers,
            "kafka.security.protocol": self.security,
        }
        if self.mechanism:
            options["kafka.sasl.mechanism"] = self.mechanism
            options["kafka.sasl.jaas.config"] = self._login()
        if self.ca is not None:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.certificates"] = self.ca.read_text()
        if self.certificate is not None and self.key is not None:
            options["kafka.ssl.keystore.type"] = "PEM"
            options["kafka.ssl.keystore.certificate.chain"] = self.certificate.read_text()
            options["kafka.ssl.keystore.key"] = self.key.read_text()
        return options

    def _login(self) -> str:
        module = "plain.Plain" if self.mechanism == "PLAIN" else "scram.Scram"
        said = f'username="{_quoted(self.username)}" password="{_quoted(self.password)}"'
        return f"org.apache.kafka.common.security.{module}LoginModule required {said};"


def address(url: str) -> tuple[str, str]:
    """The servers and the prefix in `kafka://host:port,host:port/prefix`."""
    parts = urlsplit(url)
    return parts.netloc, parts.path.strip("/") or "lily"


def ensure(kafka: Kafka, cells: Iterable[str]) -> dict[str, int]:
    """Make the topics that are missing; returns how many partitions each topic has."""
    wanted = {name: _lane_options(kafka) for name in [*lanes(kafka, cells), kafka.topic("usage")]}
    wanted |= {name: _options(kafka) for name in (kafka.dead, kafka.facts)}
    return _make(kafka, wanted, ANSWER)


def ensure_lanes(kafka: Kafka, cell: str, seconds: float) -> None:
    """The same for the two that observations of a cell go into, and for nobody else's."""
    _make(kafka, {name: _lane_options(kafka) for name in lanes(kafka, [cell])}, seconds)


def lanes(kafka: Kafka, cells: Iterable[str]) -> list[str]:
    return [kafka.topic(lane, cell) for cell in cells for lane in LANES]


def _make(kafka: Kafka, wanted: Mapping[str, dict[str, str]], seconds: float) -> dict[str, int]:
    from confluent_kafka import KafkaException
    from confluent_kafka.cimpl import NewTopic

    try:
        admin = _admin(kafka)
        known = admin.list_topics(timeout=seconds).topics
        missing = [name for name in wanted if name not in known]
        if missing:
            made = admin.create_topics(
                [
                    NewTopic(name, kafka.partitions, kafka.replication, config=wanted[name])
                    for name in missing
                ],
                request_timeout=seconds,
            )
            for each in made.values():
                _made(each)
            known = admin.list_topics(timeout=seconds).topics
    except KafkaException as cause:
        raise KafkaAway(f"Kafka cannot be reached: {cause.args[0].str()}") from cause
    absent = [name for name in wanted if name not in known]
    if absent:
        raise KafkaAway(f"Kafka has not made these topics yet: {', '.join(absent)}")
    return {name: len(known[name].partitions) for name in wanted}


def reach(kafka: Kafka) -> int:
    """How many brokers there are, if any answers."""
    from confluent_kafka import KafkaException

    try:
        return len(_admin(kafka).list_topics(timeout=ANSWER).brokers)
    except KafkaException as cause:
        raise KafkaAway(f"Kafka cannot be reached: {cause.args[0].str()}") from cause


def ends(kafka: Kafka, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Where each partition ends now: the offset that the next record gets."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin._listoffsets import OffsetSpec

    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(*place): latest for place in places}
    try:
        answers = _admin(kafka).list_offsets(asked, request_timeout=ANSWER)
        return {
            (at.topic, at.partition): each.result(2 * ANSWER).offset for at, each in answers.items()
        }
    except KafkaException as cause:
        raise KafkaAway(f"Kafka cannot be reached: {cause.args[0].str()}") from cause
    except TimeoutError as cause:
        raise KafkaAway("Kafka does not answer.") from cause


@cache
def _admin(kafka: Kafka) -> "AdminClient":
    """Kept: whoever drops it while a question is open never gets the answer."""
    from confluent_kafka.admin import AdminClient

    return AdminClient(kafka.client())


def lane_of_topic(kafka: Kafka, topic: str) -> tuple[Lane, str]:
    """The lane and the cell that a topic belongs to."""
    for lane in LANES:
        base = kafka.topic(lane)
        if topic == base:
            return lane, HOME
        if topic.startswith(f"{base}."):
            return lane, topic[len(base) + 1 :]
    raise ValueError(f"{topic} is no lane")


def _made(each: object) -> None:
    from confluent_kafka import KafkaException

    try:
        each.result(2 * ANSWER)  # type: ignore[attr-defined]
    except KafkaException as cause:
        if cause.args[0].code() != EXISTS:  # another process was faster
            raise


def _options(kafka: Kafka) -> dict[str, str]:
    safe = {"min.insync.replicas": "2"} if kafka.replication >= 3 else {}
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(int(kafka.keep_hours * 3_600_000)),
        "max.message.bytes": str(MOST_BYTES),
        **safe,
    }


def _lane_options(kafka: Kafka) -> dict[str, str]:
    """The broker stamps each record: what a producer says of its time decides nothing."""
    return {**_options(kafka), "message.timestamp.type": "LogAppendTime"}


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
