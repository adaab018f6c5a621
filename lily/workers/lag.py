"""Measures how far every lane is behind, for /metrics."""

from contextlib import suppress
from threading import Event

from lily import wiring
from lily.errors import Unavailable
from lily.log.kafka import KafkaAway
from lily.log.kafka_lag import KafkaLag
from lily.store import positions
from lily.store.lag import by_tenant, lag
from lily.telemetry import LOG_LAG, LOG_LAG_SECONDS, LOG_NEWEST_SECONDS, TENANT_WAITING
from lily.types import Lane
from lily.wiring import Core

PAUSE = 5.0


def run(core: Core, stop: Event) -> None:
    told: set[tuple[str, str]] = set()
    cluster = wiring.kafka(core.settings)
    kafka = KafkaLag(cluster) if cluster else None
    while not stop.is_set():
        with suppress(Unavailable):
            told = work(core, told, kafka)
        stop.wait(PAUSE)


def work(
    core: Core, told: set[tuple[str, str]], kafka: KafkaLag | None = None
) -> set[tuple[str, str]]:
    """Set the gauges; those of tenants for whom nothing waits any more go back to zero."""
    names = {tenant.number: tenant.name for tenant in core.database.tenants()}
    waiting: dict[tuple[str, str], int] = {}

    def measure(cell: str) -> None:
        more = _in_kafka(core, kafka, cell) if kafka else {}
        for each in lag(core.database, cell):
            count, seconds = more.get(each.lane, (0, 0.0))
            LOG_LAG.labels(cell, each.lane).set(each.waiting + count)
            LOG_LAG_SECONDS.labels(cell, each.lane).set(max(each.seconds, seconds))
            if each.newest is not None:
                LOG_NEWEST_SECONDS.labels(cell, each.lane).set(each.newest)
        for tenant, lane, count in by_tenant(core.database, cell):
            waiting[names.get(tenant, str(tenant)), lane] = count

    core.database.each_cell(measure)
    for place in told | waiting.keys():
        TENANT_WAITING.labels(*place).set(waiting.get(place, 0))
    return set(waiting)


def _in_kafka(core: Core, kafka: KafkaLag, cell: str) -> dict[Lane, tuple[int, float]]:
    """What waits there; nothing is known while it is away."""
    with core.database.cell(cell) as conn:
        parts = positions.parts(conn)
    try:
        return kafka.measure(cell, parts)
    except KafkaAway:
        return {}
