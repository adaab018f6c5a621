"""Into Kafka: one idempotent producer a process, which groups whatever waits by itself."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from lily.errors import TooLarge, Unavailable
from lily.events.signed import HEADER
from lily.log.departures import Departures
from lily.log.kafka import HOME, MOST_BYTES, Kafka, ensure_lanes
from lily.log.postgres import Record
from lily.types import Place

if TYPE_CHECKING:
    from confluent_kafka import Producer

PATIENCE = 4.0  # then whoever waits is told to try again
LINGER = 2  # milliseconds in which requests gather
TOGETHER = 10_000
POLL = 0.25

Sign = Callable[[bytes, bytes], str]  # of a key and a value
Headers = list[tuple[str, str | bytes | None]]


class KafkaWriter:
    """Started with the first record; safe to share between threads.

    `patience` is how long a record may wait for the broker; None is for ever. `together` is how
    many may travel in one batch, which is taken or refused as a whole.
    """

    def __init__(
        self,
        kafka: Kafka,
        sign: Sign,
        patience: float | None = PATIENCE,
        together: int = TOGETHER,
    ) -> None:
        self.kafka = kafka
        self._patience = patience
        self._together = together
        self.sign = sign
        self._producer: Producer | None = None
        self._stop = Event()
        self._thread: Thread | None = None

    def produce(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        headers: Headers,
        told: Callable[[Any, Any], None],
    ) -> None:
        """`told` is called from another thread, with an error or with where it is."""
        from confluent_kafka import KafkaException

        try:
            self._open().produce(topic, value, key, headers=headers, on_delivery=told)
        except BufferError as cause:
            raise Unavailable("The log cannot be written right now.") from cause
        except KafkaException as cause:
            if cause.args[0].name() == "MSG_SIZE_TOO_LARGE":
                raise TooLarge(f"An observation is larger than {MOST_BYTES} bytes.") from cause
            raise Unavailable("The log cannot be written right now.") from cause

    def tell(
        self,
        topic: str,
        records: Sequence[tuple[bytes, bytes, Headers]],
        seconds: float = PATIENCE * 2,
    ) -> None:
        """In order, and returns once Kafka has all of them. Who is told that it has not begins
        again: what may still be on its way is dropped."""
        wrong: list[Any] = []
        left = len(records)
        done = Event()

        def told(error: Any, _: Any) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                wrong.append(error)
            if left == 0:
                done.set()

        for key, value, headers in records:
            self.produce(topic, key, value, headers, told)
        if records and (not done.wait(seconds) or wrong):
            if self._producer is not None:
                self._producer.purge()
            raise Unavailable(f"Kafka did not take all: {wrong[:1]}")

    def append(self, record: Record, cell: str = HOME) -> Place:
        """One record, for those who can wait."""
        places: list[Place] = []
        key, value = key_of(record), record.value
        done = Event()

        def told(error: Any, message: Any) -> None:
            if error is None:
                places.append(Place(record.lane, message.offset() + 1, message.partition() + 1))
            done.set()

        headers: Headers = [(HEADER, self.sign(key, value))]
        self.produce(self.kafka.topic(record.lane, cell), key, value, headers, told)
        if not done.wait(PATIENCE * 2) or not places:
            raise Unavailable("The log cannot be written right now.")
        return places[0]

    def close(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _open(self) -> "Producer":
        if self._producer is None:
            from confluent_kafka import Producer

            self._producer = Producer(
                {
                    **self.kafka.client(),
                    "enable.idempotence": "true",
                    "acks": "all",
                    "linger.ms": LINGER,
                    "batch.num.messages": self._together,
                    "compression.type": "lz4",
                    "partitioner": "murmur2_random",  # as Java's: one key, one partition
                    "delivery.timeout.ms": int(self._patience * 1000) if self._patience else 0,
                    "request.timeout.ms": int(PATIENCE * 750),
                    "message.max.bytes": MOST_BYTES,
                    "queue.buffering.max.kbytes": 131_072,
                    "topic.metadata.refresh.interval.ms": 30_000,
                    "allow.auto.create.topics": "false",
                }
            )
            self._thread = Thread(target=self._poll, name="kafka", daemon=True)
            self._thread.start()
        return self._producer

    def _poll(self) -> None:
        assert self._producer is not None
        while not self._stop.is_set():
            self._producer.poll(POLL)
        self._producer.flush(PATIENCE)


class KafkaAppender:
    """Like the appender of PostgreSQL, into the topics of one cell."""

    def __init__(self, writer: KafkaWriter, cell: str, departures: Departures) -> None:
        self._writer = writer
        self._cell = cell
        self._departures = departures
        self._topics = {lane: writer.kafka.topic(lane, cell) for lane in ("core", "fields")}
        self._found = False
        self._lock = asyncio.Lock()

    async def append(self, records: Sequence[Record]) -> list[Place]:
        """Returns when all are acknowledged. Otherwise some may be in; repeating does no harm."""
        await self._departures.refuse({record.tenant for record in records})
        if not self._found:
            await self._find()
        group = _Group(records)
        for number, record in enumerate(records):
            key, value = key_of(record), record.value
            headers: Headers = [(HEADER, self._writer.sign(key, value))]
            topic = self._topics[record.lane]
            self._writer.produce(topic, key, value, headers, partial(group.told, number))
        return await group.future

    async def _find(self) -> None:
        """A cell may be so young that the pipeline has not made its topics yet."""
        async with self._lock:
            if not self._found:
                await asyncio.to_thread(ensure_lanes, self._writer.kafka, self._cell, PATIENCE)
                self._found = True

    async def close(self) -> None:
        """The writer is shared."""
        await self._departures.close()


def key_of(record: Record) -> bytes:
    return f"{record.tenant}/{record.key}".encode()


class _Group:
    """The records of one request."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[list[Place]] = self._loop.create_future()
        self._records = records
        self._places: list[Place | None] = [None] * len(records)
        self._left = len(records)
        self._wrong: Any = None

    def told(self, number: int, error: Any, message: Any) -> None:
        """Called by the thread that polls, once for each record."""
        if error is not None:
            self._wrong = error
        else:
            lane = self._records[number].lane
            self._places[number] = Place(lane, message.offset() + 1, message.partition() + 1)
        self._left -= 1
        if self._left == 0:
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.future.done():
            return
        if self._wrong is None:
            self.future.set_result([place for place in self._places if place is not None])
        else:
            self.future.set_exception(Unavailable("The log cannot be written right now."))
