"""How much of the log in Kafka waits, and since when it was last level."""

from collections.abc import Mapping
from time import monotonic

from lily.log.kafka import Kafka, ends
from lily.types import Lane

Parts = Mapping[tuple[Lane, int], int]  # lane and part, and the next offset to read


class KafkaLag:
    """Asked every few seconds: what waits has waited at most since it last saw nothing waiting."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._level: dict[tuple[str, Lane], float] = {}

    def measure(self, cell: str, parts: Parts) -> dict[Lane, tuple[int, float]]:
        """Records that wait and seconds, by lane."""
        places = {(self._kafka.topic(lane, cell), part - 1): (lane, part) for lane, part in parts}
        waiting: dict[Lane, int] = {}
        for place, end in ends(self._kafka, places).items():
            lane, part = places[place]
            waiting[lane] = waiting.get(lane, 0) + max(0, end - parts[lane, part])
        now = monotonic()
        found: dict[Lane, tuple[int, float]] = {}
        for lane, count in waiting.items():
            since = self._level.setdefault((cell, lane), now)
            if count == 0:
                since = self._level[cell, lane] = now
            found[lane] = count, now - since
        return found
