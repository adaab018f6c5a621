"""What of a tenant still waits to be applied, in PostgreSQL's log and in Kafka."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import structs

from lily.errors import Unavailable
from lily.log.kafka_lag import Behind as InKafka
from lily.log.kafka_lag import Own
from lily.log.kafka_past import named
from lily.store import archive, freshness, positions, producer_keys
from lily.store.database import Unit
from lily.store.freshness import Behind
from lily.types import Tenant
from lily.wiring import Services


def lanes(services: Services, tenant: Tenant) -> list[Behind]:
    """Every lane of the tenant's cell; raises Unavailable while Kafka is the log and away."""
    with services.core.database.unit(tenant) as unit:
        found, parts = freshness.behind(unit), positions.parts(unit.conn)
    kafka = services.in_kafka
    if kafka is None:
        return found
    all = kafka.measure(tenant.cell, parts)
    own = kafka.own(tenant.cell, parts, tenant.number, _keys(services, tenant))
    return [_with(each, all.get(each.lane, InKafka()), own.get(each.lane, Own())) for each in found]


class Fields:
    """A container's fields that wait: looked up in the store first, then, without holding on to
    it, in Kafka."""

    def __init__(self, unit: Unit, container: str) -> None:
        self._container = container
        self._here = freshness.fields_waiting(unit, container)
        self._parts = positions.parts(unit.conn)

    def count(self, services: Services, tenant: Tenant) -> tuple[int, bool]:
        """How many wait at least, and whether that is all of them: not if Kafka does not answer."""
        kafka = services.in_kafka
        if kafka is None:
            return self._here, True
        try:
            keys = _keys(services, tenant)
            found = kafka.under(tenant.cell, self._parts, tenant.number, keys, self._container)
        except Unavailable:
            return self._here, False
        return self._here + found[0], found[1]


def lake(services: Services, tenant: Tenant, reached: Mapping[str, int]) -> float:
    """Seconds that the lake is behind what was applied from the logs."""
    with services.core.database.unit(tenant) as unit:
        seconds = max(archive.log_lag(unit.conn).values())
        parts = positions.parts(unit.conn)
    if services.in_kafka is None:
        return seconds
    here = {part: reached.get(named(*part), 0) for part in parts}
    since = services.in_kafka.since(tenant.cell, here, parts)
    now = services.core.clock.now()
    return max(seconds, (now - since).total_seconds() if since else 0.0)


def _keys(services: Services, tenant: Tenant) -> dict[str, int]:
    """The keys with which the tenant's own programs write to Kafka."""
    keys = producer_keys.every(services.core.database, tenant)
    return {key.id: tenant.number for key in keys}


def _with(each: Behind, all: InKafka, own: Own) -> Behind:
    return structs.replace(
        each,
        waiting=each.waiting + all.waiting,
        oldest=_first(each.oldest, all.oldest),
        own_waiting=each.own_waiting + own.waiting,
        own_oldest=_first(each.own_oldest, own.oldest),
        own_newest=max(filter(None, [each.own_newest, own.newest]), default=None),
    )


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min(filter(None, [one, other]), default=None)
