"""Measures how far every lane is behind, for /metrics."""

from contextlib import suppress
from threading import Event

from lily.errors import Unavailable
from lily.store.lag import by_tenant, lag
from lily.telemetry import LOG_LAG, LOG_LAG_SECONDS, LOG_NEWEST_SECONDS, TENANT_WAITING
from lily.wiring import Core

PAUSE = 5.0


def run(core: Core, stop: Event) -> None:
    told: set[tuple[str, str]] = set()
    while not stop.is_set():
        with suppress(Unavailable):
            told = work(core, told)
        stop.wait(PAUSE)


def work(core: Core, told: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Set the gauges; those of tenants for whom nothing waits any more go back to zero."""
    names = {tenant.number: tenant.name for tenant in core.database.tenants()}
    waiting: dict[tuple[str, str], int] = {}

    def measure(cell: str) -> None:
        for each in lag(core.database, cell):
            LOG_LAG.labels(cell, each.lane).set(each.waiting)
            LOG_LAG_SECONDS.labels(cell, each.lane).set(each.seconds)
            if each.newest is not None:
                LOG_NEWEST_SECONDS.labels(cell, each.lane).set(each.newest)
        for tenant, lane, count in by_tenant(core.database, cell):
            waiting[names.get(tenant, str(tenant)), lane] = count

    core.database.each_cell(measure)
    for place in told | waiting.keys():
        TENANT_WAITING.labels(*place).set(waiting.get(place, 0))
    return set(waiting)
