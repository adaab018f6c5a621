"""Begins and ends assignments of tags and terms when their time has come."""

from threading import Event

from lily.store import tag_validity
from lily.wiring import Core

LONGEST = 1.0  # what is assigned while we wait may be due sooner than what we wait for


def run(core: Core, stop: Event) -> None:
    while not stop.is_set():
        stop.wait(work(core, stop))


def work(core: Core, stop: Event) -> float:
    """Do what is due now, in every cell; for how long there is nothing to do."""
    tenants = core.database.tenants()
    pauses = [LONGEST]

    def turn(cell: str) -> None:
        inside = [tenant for tenant in tenants if tenant.cell == cell]
        if not inside:
            return
        for tenant in tag_validity.due(core.database, core.clock, cell, inside):
            while not stop.is_set() and tag_validity.come_due(
                core.database, tenant, core.clock.now()
            ):
                pass
        if (at := tag_validity.next_due(core.database, cell, inside)) is not None:
            pauses.append((at - core.clock.now()).total_seconds())

    core.database.each_cell(turn)
    return min((pause for pause in pauses if pause > 0), default=LONGEST)
