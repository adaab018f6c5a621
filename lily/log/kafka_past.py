"""What came through Kafka and was applied, read once more: for the lake."""

from collections.abc import Callable, Mapping
from datetime import datetime

from lily.events.signed import Door, Opened
from lily.log.kafka import lane_of_topic
from lily.log.kafka_lag import Parts
from lily.log.kafka_reader import KafkaReader, Read
from lily.types import Lane

# Tenant, lane, offset, time, key, value, part: the columns of the lake's observations.
Row = tuple[int, Lane, int, datetime, str, str, int]


def named(lane: str, part: int) -> str:
    """What a part of the log in Kafka is called in the positions of the lake."""
    return f"{lane}/{part}"


def is_part(key: str) -> bool:
    """Whether a position is that of a part of the log in Kafka."""
    return "/" in key


class KafkaPast:
    """`doors` gives the door that was open at a moment: who may not write today may have then."""

    def __init__(self, reader: KafkaReader, doors: Callable[[datetime], Door]) -> None:
        self._reader = reader
        self._doors = doors

    def close(self) -> None:
        self._reader.close()

    def after(
        self,
        cell: str,
        start: Mapping[str, int],
        applied: Parts,
        limit: int,
        mine: Callable[[int], bool],
    ) -> tuple[list[tuple[object, ...]], dict[str, int]]:
        """The next applied records of tenants that are `mine`, and where each part then stands."""
        share = max(1, limit // max(1, len(applied)))
        stretches: dict[tuple[str, int], tuple[int, int]] = {}
        end: dict[str, int] = {}
        for (lane, part), position in applied.items():
            begin = start.get(named(lane, part), 0)
            upto = max(begin, min(position, begin + share))
            stretches[self._reader.kafka.topic(lane, cell), part - 1] = begin, upto
            end[named(lane, part)] = upto
        found = (self._row(each) for each in self._reader.read(stretches))
        return [row for row in found if row is not None and row[0] and mine(row[0])], end

    def _row(self, each: Read) -> Row | None:
        """None for what belonged to nobody known; what was refused for a tenant is its too."""
        lane, _ = lane_of_topic(self._reader.kafka, each.topic)
        opened = self._doors(each.at).open(lane, each.key, each.value, each.signature)
        if isinstance(opened, Opened):
            key, value, tenant = opened.key, opened.value, opened.tenant
        elif opened.tenant is not None:
            key, tenant = each.key.decode("utf-8", "replace"), opened.tenant
            value = opened.value or each.value.decode("utf-8", "replace")
        else:
            return None
        return tenant, lane, each.offset, each.at, key, value, each.partition + 1
