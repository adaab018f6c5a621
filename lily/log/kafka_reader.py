"""Stretches of the log in Kafka, read again beside the pipeline: to count, and for the lake."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from lily.events.signed import HEADER
from lily.log.kafka import ANSWER, Kafka, KafkaAway

if TYPE_CHECKING:
    from confluent_kafka import Consumer

POLL = 0.02
AT_ONCE = 1000

Place = tuple[str, int]  # topic and partition
Stretches = Mapping[Place, tuple[int, int]]  # from an offset up to, and without, another


class Read(NamedTuple):
    """One record, as it lies there."""

    topic: str
    partition: int
    offset: int
    at: datetime
    key: bytes
    value: bytes
    signature: bytes | None


class KafkaReader:
    """One consumer without a group of its own, opened when it is first needed."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self._consumer: Consumer | None = None
        self._lock = Lock()

    def read(self, stretches: Stretches) -> list[Read]:
        """Everything in them, in the order of each partition; what has expired is not there."""
        wanted = {place: ends for place, ends in stretches.items() if ends[0] < ends[1]}
        if not wanted:
            return []
        from confluent_kafka import KafkaException, TopicPartition

        with self._lock:
            try:
                consumer = self._open()
                consumer.assign(
                    [TopicPartition(*place, start) for place, (start, _) in wanted.items()]
                )
                try:
                    return list(_all(consumer, {at: end for at, (_, end) in wanted.items()}))
                finally:
                    consumer.unassign()
            except KafkaException as cause:
                raise KafkaAway(f"Kafka cannot be read: {cause.args[0].str()}") from cause

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _open(self) -> "Consumer":
        if self._consumer is None:
            from confluent_kafka import Consumer

            self._consumer = Consumer(
                {
                    **self.kafka.client(),
                    "group.id": f"{self.kafka.prefix}.reader",  # asked for, and never joined
                    "enable.auto.commit": "false",
                    "enable.partition.eof": "true",
                    "auto.offset.reset": "earliest",
                    "fetch.message.max.bytes": 200_000,
                    "fetch.wait.max.ms": 20,
                    "queued.min.messages": AT_ONCE,
                    "fetch.queue.backoff.ms": 10,
                    "allow.auto.create.topics": "false",
                }
            )
        return self._consumer


def _all(consumer: "Consumer", ends: dict[Place, int]) -> Iterator[Read]:
    """Until every partition is at its end, as long as something comes."""
    from confluent_kafka import KafkaError

    until = monotonic() + 2 * ANSWER
    while ends:
        for message in consumer.consume(AT_ONCE, POLL):
            place = (str(message.topic()), int(message.partition() or 0))
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    ends.pop(place, None)
                continue
            if place not in ends:
                continue
            until = monotonic() + 2 * ANSWER
            offset = int(message.offset() or 0)
            if offset < ends[place]:
                yield _read(message, place, offset)
            if offset >= ends[place] - 1:
                ends.pop(place)
        if ends and monotonic() > until:
            raise KafkaAway("Kafka does not answer.")


def _read(message: Any, place: Place, offset: int) -> Read:
    at = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
    signature = next((v for name, v in reversed(message.headers() or []) if name == HEADER), None)
    return Read(*place, offset, at, message.key() or b"", message.value() or b"", signature)
