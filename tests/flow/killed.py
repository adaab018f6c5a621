"""A keeper that is killed in the middle of its work: `python -m tests.flow.killed …`."""

import os
import signal
import sys
from importlib import import_module
from typing import Any
from uuid import UUID

from lily.store import connections
from lily.store.database import Unit
from lily.wiring import reopen
from lily.workers.keeper import Keeper


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(settings: str, tenant: str, connection: str, moment: str) -> None:
    core = reopen(settings, "lily_system")
    found = core.database.tenant(tenant)
    with core.database.cell(found.cell, [found.number]) as conn:
        kept = connections.get(Unit(conn, found), UUID(connection))
    work = import_module("lily.connectors.postgres_enforcer")._Work
    if moment == "written":  # into the ledger; the engine is untouched
        work.apply = die
    elif moment == "changed":  # but not committed
        work.check = die
    else:  # committed, and nobody told
        work.finish = die
    Keeper(core, found, kept).sweep()


if __name__ == "__main__":
    main(*sys.argv[1:])
