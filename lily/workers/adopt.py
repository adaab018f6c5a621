"""Attaches parked incidents when the asset that they are about appears."""

from threading import Event

from lily.store import parked
from lily.store.database import Unit
from lily.types import Tenant
from lily.wiring import Core

PAUSE = 1.0
ALL = 60  # every so many rounds also what was parked long ago


def run(core: Core, stop: Event) -> None:
    seen: dict[int, int] = {}
    rounds = 0
    while not stop.is_set():
        work(core, seen, whole=rounds % ALL == 0)
        rounds += 1
        stop.wait(PAUSE)


def work(core: Core, seen: dict[int, int], whole: bool = True) -> None:
    """Look at the tenants whose feed has moved since the last round."""
    tenants = core.database.tenants()

    def look(cell: str) -> None:
        here = {tenant.number: tenant for tenant in tenants if tenant.cell == cell}
        with core.database.cell(cell, sorted(here)) as conn:
            waiting = parked.waiting(conn, sorted(here))
            if whole:
                parked.revive(conn, here)
        for number, head in waiting:
            if whole or seen.get(number) != head:
                seen[number] = head
                _adopt(core, here[number], whole)

    core.database.each_cell(look)


def _adopt(core: Core, tenant: Tenant, whole: bool) -> None:
    before: int | None = parked.END
    while before is not None:
        with core.database.cell(tenant.cell, [tenant.number]) as conn:
            before = parked.adopt(Unit(conn, tenant), core.clock.now(), before)
        if not whole:
            return
