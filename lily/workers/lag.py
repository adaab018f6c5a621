"""Measures how far every lane is behind, for /metrics."""

from collections import Counter
from contextlib import suppress
from threading import Event

from lily import wiring
from lily.errors import Unavailable
from lily.log.kafka import KafkaAway
from lily.log.kafka_lag import KafkaLag
from lily.store import positions, producer_keys
from lily.store.lag import by_tenant
from lily.telemetry import LOG_LAG, LOG_LAG_SECONDS, LOG_NEWEST_SECONDS, TENANT_WAITING
from lily.types import Lane
from lily.wiring import Core

PAUSE = 5.0


def run(core: Core, stop: Event) -> None:
    told: set[tuple[str, str]] = set()
    kafka = wiring.kafka_lag(core.settings)
    while not stop.is_set():
        with suppress(Unavailable):
            told = work(core, told, kafka)
        stop.wait(PAUSE)


def work(
    core: Core, told: set[tuple[str, str]], kafka: KafkaLag | None = None
) -> set[tuple[str, str]]:
    """Set the gauges; those of tenants for whom nothing waits any more go back to zero."""
    names = {tenant.number: tenant.name for tenant in core.database.tenants()}
    waiting: Counter[tuple[str, str]] = Counter()

    def measure(cell: str) -> None:
        for each in wiring.lags(core, cell, kafka):
            LOG_LAG.labels(cell, each.lane).set(each.waiting)
            LOG_LAG_SECONDS.labels(cell, each.lane).set(each.seconds)
            if each.newest is not None:
                LOG_NEWEST_SECONDS.labels(cell, each.lane).set(each.newest)
        for tenant, lane, count in by_tenant(core.database, cell):
            waiting[names.get(tenant, str(tenant)), lane] += count
        for (tenant, lane), count in _in_kafka(core, kafka, cell).items():
            waiting[names.get(tenant, str(tenant)), lane] += count

    core.database.each_cell(measure)
    for place in told | waiting.keys():
        TENANT_WAITING.labels(*place).set(waiting[place])
    return set(waiting)


def _in_kafka(core: Core, kafka: KafkaLag | None, cell: str) -> Counter[tuple[int, Lane]]:
    """What of each tenant waits there; nothing is known while it is away."""
    if kafka is None:
        return Counter()
    with core.database.cell(cell) as conn:
        parts = positions.parts(conn)
    try:
        return kafka.by_tenant(cell, parts, producer_keys.owners(core.database))
    except KafkaAway:
        return Counter()
