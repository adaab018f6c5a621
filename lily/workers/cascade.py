"""Marks what lies in a deleted container, and brings it back with it."""

from threading import Event

from lily.store.containers import Cascade
from lily.wiring import Core

PAUSE = 0.5


def run(core: Core, stop: Event) -> None:
    while not stop.is_set():
        work(core, stop)
        stop.wait(PAUSE)


def work(core: Core, stop: Event) -> None:
    """Follow every tenant's feed to its end; tenants take turns, a chunk each."""
    cascade = Cascade(core.database, core.clock)
    tenants = core.database.tenants()

    def follow(cell: str) -> None:
        busy = [tenant for tenant in tenants if tenant.cell == cell]
        busy = cascade.behind(cell, busy) if busy else []
        while busy and not stop.is_set():
            busy = [tenant for tenant in busy if cascade.step(tenant)]

    core.database.each_cell(follow)
