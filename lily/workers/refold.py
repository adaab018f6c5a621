"""Shows assets anew after the groups of tags have changed."""

from threading import Event
from uuid import UUID

from lily.store import refold
from lily.store.refold import Task
from lily.types import Tenant
from lily.wiring import Core

PAUSE = 1.0
LOOK = 0.05
PATIENCE = 60.0  # seconds for which others' transactions are waited for; then all begins again


def run(core: Core, stop: Event) -> None:
    while not stop.is_set():
        work(core, stop)
        stop.wait(PAUSE)


def work(core: Core, stop: Event) -> None:
    """Do what is asked for now, in every cell."""
    tenants = core.database.tenants()

    def turn(cell: str) -> None:
        inside = [tenant for tenant in tenants if tenant.cell == cell]
        for tenant in refold.asked(core.database, cell, inside) if inside else ():
            _fold(core, tenant, stop)

    core.database.each_cell(turn)


def _fold(core: Core, tenant: Tenant, stop: Event) -> None:
    task = refold.begin(core.database, tenant)
    if task is None:
        return
    _walk(core, task, stop)
    if task.others:
        if not _alone(core, task, stop):
            return
        _walk(core, task, stop)
    if not stop.is_set():
        refold.finish(core.database, task)


def _walk(core: Core, task: Task, stop: Event) -> None:
    after: UUID | None = refold.FIRST
    while after is not None and not stop.is_set():
        after = refold.step(core.database, core.clock, task, after)


def _alone(core: Core, task: Task, stop: Event) -> bool:
    """Whether everybody who may know the old groups has ended; waits for them."""
    waited = 0.0
    while refold.still_running(core.database, task):
        if waited > PATIENCE or stop.wait(LOOK):
            return False
        waited += LOOK
    return True
