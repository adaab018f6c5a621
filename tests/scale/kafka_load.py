"""Who writes while Kafka is the log: people by the API, a tenant's own programs past it."""

import json
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import NamedTuple
from uuid import uuid4

import msgspec
from confluent_kafka import Producer
from httpx import Response

from lily.events.lanes import lane_of
from lily.events.signed import HEADER, sign
from lily.log.kafka import Kafka
from lily.store import producer_keys
from lily.types import Lane
from lily.wiring import kafka
from tests.flow.people import Person
from tests.scale.kafka_lily import KafkaLily, until

PAUSE = 0.05
AGAIN = "again"


class Said(NamedTuple):
    name: str
    description: str


class Told(msgspec.Struct):
    """What somebody was told of what they sent, in order."""

    acknowledged: dict[str, Said] = {}  # by the cause of what comes of it
    refused: list[tuple[int, str | None]] = []
    spells: int = 0  # how often being refused began

    def grows(self) -> None:
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) > before + 20, 90)


class Hand:
    """A program of the tenant's, which writes to the shared topics, past the API."""

    def __init__(self, lily: KafkaLily, person: Person) -> None:
        core, self._kafka = lily.core, cluster(lily)
        key, self._secret = producer_keys.create(
            core.database, core.seal, core.clock, person.tenant, "etl"
        )
        self._key = key.id
        self._producer = Producer(self._kafka.client())

    def write(self, name: str, lane: Lane | None = None) -> tuple[str, Said]:
        """Into the lane that it belongs to, unless told otherwise; the cause, and what it says."""
        cause, place, said = str(uuid4()), name.encode(), Said(name, "by hand")
        observation = {"type": "AssetSeen", "qualified_name": name, "description": "by hand"}
        value = json.dumps({"id": cause, "source": "etl", "observation": observation}).encode()
        topic = self._kafka.topic(lane or lane_of(name))
        header = sign(self._key, self._secret, place, value)
        self._producer.produce(topic, value, place, headers={HEADER: header})
        assert self._producer.flush(20) == 0
        return cause, said


@contextmanager
def writing(*people: Person) -> Iterator[list[Told]]:
    """Each writes all the time: one asset after the other, and one of them over and over."""
    stop = Event()
    told = [Told() for _ in people]
    own: dict[int, int] = defaultdict(int)
    with ThreadPoolExecutor(len(people)) as pool:
        writers = []
        for person, heard in zip(people, told, strict=True):
            own[person.tenant.number] += 1
            folder = f"api{own[person.tenant.number]}"
            writers.append(pool.submit(_write, person, folder, heard, stop))
        try:
            yield told
        finally:
            stop.set()
    for each in writers:
        each.result()


def _write(person: Person, folder: str, told: Told, stop: Event) -> None:
    number, taken = 0, True
    while not stop.wait(PAUSE):
        name = AGAIN if number % 2 else str(number)
        said = Said(f"{folder}/{name}", f"no {number}")
        answer = post(person, *said, Prefer="respond-async")
        if answer.status_code == 202:
            told.acknowledged[answer.json()["cause"]] = said
        else:
            told.refused.append((answer.status_code, answer.headers.get("retry-after")))
            told.spells += taken
        taken = answer.status_code == 202
        number += 1


def post(person: Person, name: str, description: str = "", **headers: str) -> Response:
    body = {"qualified_name": name, "description": description}
    sent = {**person.headers, **headers}
    return person.client.post("/api/v1/metadata", json=body, headers=sent, timeout=30)


def look(person: Person, name: str) -> Response:
    path = name.replace("/", "%2F").replace("#", "%23")
    return person.client.get(f"/api/v1/metadata/{path}", headers=person.headers)


def cluster(lily: KafkaLily) -> Kafka:
    found = kafka(lily.settings)
    assert found is not None
    return found
