"""Outgoing Kafka: one idempotent producer for each cluster, after a look at where it leads.

The client library connects by itself, so what can be checked is what it will connect to: the
addresses of the servers that are named, and those of the brokers that they tell of, before the
first record and every half minute.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Any

from lily.errors import Reject, Retry, TooLarge, Unavailable
from lily.log.kafka import ANSWER, Kafka
from lily.log.kafka_writer import KafkaWriter
from lily.notify import egress
from lily.notify.egress import Network
from lily.sdk.targets import Answer, Cluster, Record
from lily.workers.unreached import Unreached

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

LOOK = 30.0  # seconds for which a look at a cluster is good
AGAIN = 5.0  # the same when it went wrong
IDLE = 600.0  # seconds after which a producer that nobody uses is closed
PATIENCE = 15.0  # seconds for one record, beyond what the producer itself waits
THREADS = 8  # that wait for clusters; a dead one holds up nobody who is not behind it
THROTTLED = 30.0

# What will not be otherwise when it is tried again; all else may heal.
PERMANENT = frozenset({
    "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "SASL_AUTHENTICATION_FAILED",
    "_AUTHENTICATION", "UNSUPPORTED_SASL_MECHANISM", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC",
    "TOPIC_EXCEPTION", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD",
    "INVALID_MSG", "POLICY_VIOLATION", "_INVALID_ARG",
})  # fmt: skip
# What never left this process.
SURE = frozenset({"_QUEUE_FULL", "_RESOLVE", "_ALL_BROKERS_DOWN", "_TRANSPORT", "_PURGE_QUEUE"})


class Line:
    """A cluster that somebody writes to."""

    def __init__(self, cluster: Cluster) -> None:
        # Each by itself: one that is too large must not take others with it.
        self.writer = KafkaWriter(_kafka(cluster), lambda _key, _value: "", together=1)
        self.lock = asyncio.Lock()
        self.looked: dict[str, tuple[float, Exception | None]] = {}  # until when that is good
        self.used = monotonic()


class Brokers:
    """All clusters of this process. Use it inside one loop."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed
        self._lines: dict[Cluster, Line] = {}
        self._threads = ThreadPoolExecutor(THREADS, "brokers")

    async def write(self, record: Record) -> Answer:
        """Returns once all replicas have it. Reject, Retry and Unreached as for any target."""
        line = await self._ready(record.cluster, record.topic)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def told(error: "KafkaError | None", _: object) -> None:
            loop.call_soon_threadsafe(_settle, future, error)

        try:
            line.writer.produce(
                record.topic, record.key, record.value, list(record.headers.items()), told
            )
            async with asyncio.timeout(PATIENCE):
                await future
        except TooLarge as cause:
            raise Reject(str(cause)) from None
        except Unavailable as cause:
            await self._drop(record.cluster)
            raise Unreached(str(cause), unsure=False) from None
        except TimeoutError:
            await self._drop(record.cluster)
            raise Unreached(f"Kafka said nothing within {PATIENCE:.0f} s", unsure=True) from None
        except Broken as cause:
            if cause.error.fatal():
                await self._drop(record.cluster)
            raise judged(cause.error) from None
        return Answer(200)

    async def close(self) -> None:
        for cluster in list(self._lines):
            await self._drop(cluster)
        self._threads.shutdown(wait=False)

    async def _ready(self, cluster: Cluster, topic: str) -> Line:
        if cluster not in self._lines:
            await self._tidy()
            self._lines.setdefault(cluster, Line(cluster))
        line = self._lines[cluster]
        line.used = monotonic()
        async with line.lock:  # who comes meanwhile waits for the same look
            until, wrong = line.looked.get(topic, (float("-inf"), None))
            if monotonic() > until:
                wrong = await self._looked(cluster, topic)
                line.looked[topic] = monotonic() + (AGAIN if wrong else LOOK), wrong
        if isinstance(wrong, Reject):
            await self._drop(cluster)  # nothing stays open to where we must not go
        if wrong is not None:
            raise wrong
        return line

    async def _looked(self, cluster: Cluster, topic: str) -> Exception | None:
        """What is wrong there, for all who wait."""
        try:
            await self._in_thread(self._look, cluster, topic)
        except (Reject, Retry, Unreached) as wrong:
            return wrong
        return None

    def _look(self, cluster: Cluster, topic: str) -> None:
        """Where the cluster leads, and whether the topic is there. In a thread."""
        try:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient
        except ImportError:
            told = "Kafka needs its library here: pip install lily[kafka]"
            raise Unreached(told, unsure=False) from None
        self._allow(cluster.hosts())
        heard: list[KafkaError] = []
        options: dict[str, Any] = {**_kafka(cluster).client(), "error_cb": heard.append}
        try:
            admin = AdminClient(options)
        except KafkaException as cause:  # a certificate that is none
            raise judged(cause.args[0]) from None
        try:
            found = admin.list_topics(topic, timeout=ANSWER)
        except KafkaException as cause:
            admin.poll(0)  # which is when it tells why
            refused = [each for each in heard if each.name() in PERMANENT]
            raise judged(refused[0] if refused else cause.args[0]) from None
        self._allow(str(broker.host) for broker in found.brokers.values())
        if (wrong := found.topics[topic].error) is not None:
            raise judged(wrong)

    def _allow(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            try:
                known = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                raise Unreached(f"{host} has no address", unsure=False) from None
            egress.allowed([str(info[4][0]) for info in known], self._allowed)

    async def _tidy(self) -> None:
        since = monotonic() - IDLE
        for cluster in [c for c, line in self._lines.items() if line.used < since]:
            await self._drop(cluster)

    async def _drop(self, cluster: Cluster) -> None:
        """Another producer is made when somebody needs one."""
        if (line := self._lines.pop(cluster, None)) is not None:
            await self._in_thread(line.writer.close)

    async def _in_thread(self, work: Any, *given: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)


class Broken(Exception):
    """What Kafka said of a record that it did not take."""

    def __init__(self, error: "KafkaError") -> None:
        super().__init__(error.str())
        self.error = error


def judged(error: "KafkaError") -> Exception:
    """What it means for a delivery."""
    name, told = error.name(), f"Kafka says {error.name()}: {error.str()}"
    if name in PERMANENT:
        return Reject(told)
    if name == "THROTTLING_QUOTA_EXCEEDED":
        return Retry(told, after=THROTTLED)
    return Unreached(told, unsure=name not in SURE)


def _kafka(cluster: Cluster) -> Kafka:
    return Kafka(
        servers=cluster.servers,
        security=cluster.security,
        mechanism=cluster.mechanism,
        username=cluster.username,
        password=cluster.password,
        pems=(cluster.ca, cluster.certificate, cluster.key),
    )


def _settle(future: "asyncio.Future[None]", error: "KafkaError | None") -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(Broken(error))
