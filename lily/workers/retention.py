"""Archives or deletes what its retention policy ends."""

from threading import Event

from lily.store import expiry
from lily.wiring import Core

PAUSE = 5.0


def run(core: Core, stop: Event) -> None:
    while not stop.is_set():
        work(core, stop)
        stop.wait(PAUSE)


def work(core: Core, stop: Event) -> None:
    """Expire what is due now, in every cell."""
    tenants = core.database.tenants()

    def expire(cell: str) -> None:
        inside = [tenant for tenant in tenants if tenant.cell == cell]
        busy = expiry.due(core.database, core.clock, cell, inside) if inside else []
        while busy and not stop.is_set():
            busy = [each for each in busy if expiry.expire(core.database, core.clock, each)]

    core.database.each_cell(expire)
