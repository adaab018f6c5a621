"""How much of the log in Kafka waits, since when, and of whom: ends against applied positions."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import NamedTuple

from lily.events.signed import claimed, name_in
from lily.log.kafka import Kafka, KafkaAway, ends, lane_of_topic
from lily.log.kafka_reader import KafkaReader, Read
from lily.types import Lane

Parts = Mapping[tuple[Lane, int], int]  # lane and part, and the next offset to read
Owners = Mapping[str, int]  # the tenant of each key that others sign with

MOST = 20_000  # records of a lane that are looked into; beyond that is "at least"
BACK = 200  # applied records of a partition that are looked at for the newest
AWAY = 10.0  # seconds for which nobody asks a Kafka that did not answer


class Behind(NamedTuple):
    """What waits in one lane, and since when the oldest does."""

    waiting: int = 0
    oldest: datetime | None = None


class Own(NamedTuple):
    """What of a lane is one tenant's. `whole` is false if there was too much to look at."""

    waiting: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None  # of those applied lately
    whole: bool = True


class KafkaLag:
    """Asks Kafka where each partition ends. While it is away nobody adds to it: what was known
    then still holds."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._reader = KafkaReader(kafka)
        self._known: dict[str, dict[Lane, Behind]] = {}
        self._away = 0.0

    def close(self) -> None:
        self._reader.close()

    def measure(self, cell: str, parts: Parts) -> dict[Lane, Behind]:
        """By lane. Raises KafkaAway if it never answered."""
        try:
            self._known[cell] = self._measure(cell, parts)
        except KafkaAway:
            if cell not in self._known:
                raise
        return self._known[cell]

    def since(self, cell: str, starts: Parts, ends: Parts) -> datetime | None:
        """When the first record came that is behind some positions and before others."""
        first: dict[tuple[str, int], tuple[int, int]] = {}
        for (lane, part), end in ends.items():
            if (start := starts.get((lane, part), 0)) < end:
                first[self._kafka.topic(lane, cell), part - 1] = start, start + 1
        return min((each.at for each in self._reader.read(first)), default=None)

    def own(self, cell: str, parts: Parts, tenant: int, owners: Owners) -> dict[Lane, Own]:
        """What is one tenant's of what waits, and of what was applied last."""
        found: dict[Lane, Own] = {lane: Own() for lane, _ in parts}
        records, whole = self._records(cell, parts, BACK)
        for each, waits in records:
            lane = self._lane(each)
            if claimed(each.key, each.signature, owners) != tenant:
                continue
            own = found[lane]
            if waits:
                oldest = min(own.oldest or each.at, each.at)
                found[lane] = own._replace(waiting=own.waiting + 1, oldest=oldest)
            else:
                found[lane] = own._replace(newest=max(own.newest or each.at, each.at))
        return {lane: own._replace(whole=whole[lane]) for lane, own in found.items()}

    def under(
        self, cell: str, parts: Parts, tenant: int, owners: Owners, container: str
    ) -> tuple[int, bool]:
        """How many records of a container's fields wait; and whether all were looked at."""
        fields: Parts = {place: at for place, at in parts.items() if place[0] == "fields"}
        records, whole = self._records(cell, fields)
        count = sum(
            name_in(each.key, each.value, each.signature).startswith(f"{container}#")
            for each, _ in records
            if claimed(each.key, each.signature, owners) == tenant
        )
        return count, all(whole.values())

    def by_tenant(self, cell: str, parts: Parts, owners: Owners) -> Counter[tuple[int, Lane]]:
        """How many records of each tenant wait; of nobody known are not counted."""
        found: Counter[tuple[int, Lane]] = Counter()
        for each, _ in self._records(cell, parts)[0]:
            if tenant := claimed(each.key, each.signature, owners):
                found[tenant, self._lane(each)] += 1
        return found

    def _measure(self, cell: str, parts: Parts) -> dict[Lane, Behind]:
        waiting: Counter[Lane] = Counter({lane: 0 for lane, _ in parts})
        first: dict[tuple[str, int], tuple[int, int]] = {}
        for (lane, part), (position, end) in self._ends(cell, parts).items():
            waiting[lane] += max(0, end - position)
            if end > position:
                first[self._kafka.topic(lane, cell), part - 1] = (position, position + 1)
        oldest: dict[Lane, datetime] = {}
        for each in self._reader.read(first):
            lane = self._lane(each)
            oldest[lane] = min(oldest.get(lane, each.at), each.at)
        return {lane: Behind(count, oldest.get(lane)) for lane, count in waiting.items()}

    def _records(
        self, cell: str, parts: Parts, back: int = 0
    ) -> tuple[list[tuple[Read, bool]], dict[Lane, bool]]:
        """Records that wait, and `back` of each partition that do not; and which lanes are whole
        in that."""
        lanes: Counter[Lane] = Counter(lane for lane, _ in parts)
        stretches: dict[tuple[str, int], tuple[int, int]] = {}
        positions: dict[tuple[str, int], int] = {}
        whole: dict[Lane, bool] = dict.fromkeys(lanes, True)
        for (lane, part), (position, end) in self._ends(cell, parts).items():
            place = self._kafka.topic(lane, cell), part - 1
            most = position + MOST // lanes[lane]
            whole[lane] = whole[lane] and end <= most
            positions[place] = position
            stretches[place] = max(0, position - back), min(end, most)
        found = [
            (each, each.offset >= positions[each.topic, each.partition])
            for each in self._reader.read(stretches)
        ]
        return found, whole

    def _ends(self, cell: str, parts: Parts) -> dict[tuple[Lane, int], tuple[int, int]]:
        """The position and the end of each part."""
        if not parts:  # nobody has read there yet
            return {}
        if monotonic() < self._away:
            raise KafkaAway("Kafka did not answer a moment ago.")
        places = {(self._kafka.topic(lane, cell), part - 1): (lane, part) for lane, part in parts}
        try:
            found = ends(self._kafka, places)
        except KafkaAway:
            self._away = monotonic() + AWAY
            raise
        return {places[place]: (parts[places[place]], end) for place, end in found.items()}

    def _lane(self, each: Read) -> Lane:
        return lane_of_topic(self._kafka, each.topic)[0]
