"""Facts become notices: follows every tenant's feed and asks who wants to hear of it."""

from threading import Event

from lily.store import consumers
from lily.store.following import NAME, Notifier
from lily.telemetry import NOTICES
from lily.wiring import Core, keeps_handle

PAUSE = 0.2


def run(core: Core, stop: Event) -> None:
    while not stop.is_set():
        work(core, stop)
        stop.wait(PAUSE)


def work(core: Core, stop: Event) -> int:
    """Follow every feed to its end; tenants take turns, a page each. Returns how many notices."""
    notifier = Notifier(core.database, core.clock, core.settings.url, keeps_handle)
    tenants = [tenant for tenant in core.database.tenants() if tenant.state == "active"]
    made = 0

    def follow(cell: str) -> None:
        nonlocal made
        busy = [tenant for tenant in tenants if tenant.cell == cell]
        busy = consumers.behind(core.database, NAME, cell, busy) if busy else []
        while busy and not stop.is_set():
            left = []
            for tenant in busy:
                count, more = notifier.step(tenant)
                made += count
                NOTICES.inc(count)
                if more:
                    left.append(tenant)
            busy = left

    core.database.each_cell(follow)
    return made
