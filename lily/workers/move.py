"""Carries tenants from one cell to another, step by step; killed anywhere, it goes on.

Writers are refused from `closing` to `opening`; readers are served by the old place until the
switch, and by the new one afterwards.
"""

from threading import Event

import msgspec

from lily.errors import Conflict, LilyError
from lily.store import moves, moving
from lily.store.database import HOME
from lily.store.moves import Move
from lily.telemetry import logger
from lily.wiring import Core
from lily.workers import move_kafka, move_lake

PAUSE = 1.0


class Pace(msgspec.Struct, frozen=True):
    """How long the steps may take, or must."""

    drain: float = 120.0  # seconds; then the tenant stays where it is
    ends: float = 60.0  # for transactions that began before
    caches: float = 6.0  # longer than any process goes on without hearing of a move


def run(core: Core, stop: Event) -> None:
    while not stop.wait(PAUSE):
        work(core, stop)


def work(core: Core, stop: Event, pace: Pace = Pace()) -> None:  # noqa: B008  it is frozen
    for move in moves.under_way(core.database):
        try:
            with moves.ours(core.database, move) as free:
                if free:
                    _carry(core, move.number, stop, pace)
        except LilyError as cause:  # it is tried again, and others need not wait for it
            logger(__name__).warning("a move waits", tenant=move.number, reason=str(cause))


def _carry(core: Core, number: int, stop: Event, pace: Pace) -> None:
    """One step after the other, each of which may be done twice."""
    steps = {
        "closing": _close, "copying": _copy, "switching": _switch, "opening": _open,
        "clearing": _clear, "aborting": _abort,
    }  # fmt: skip
    tenant = core.database.tenant(number)
    log = logger(__name__).bind(tenant=tenant.name)
    while not stop.is_set():
        move = moves.find(core.database, tenant)
        if move is None or move.step == "failed":
            return
        log.info("tenant moves", step=move.step, to=move.isolation)
        try:
            steps[move.step](core, move, stop, pace)
        except Conflict as cause:
            if move.step not in ("closing", "copying"):
                raise
            log.error("a tenant cannot move", step=move.step, reason=str(cause))
            moves.advance(core.database, move, "aborting", str(cause))


def _close(core: Core, move: Move, stop: Event, pace: Pace) -> None:
    source = core.database.url_of(move.source)
    through_kafka = move_kafka.await_target(core, move, stop, pace.drain)
    moving.close(source, move.number, "closing", stop, pace.ends)
    if through_kafka:
        if stop.wait(pace.caches):  # until then some process may still take what is sent
            return
        move_kafka.drain(core, move.source, stop, pace.drain)
        # From here on it is passed on. What the pipeline had begun before is in once it gets there.
        moving.close(source, move.number, "held", stop, pace.ends)
        move_kafka.drain(core, move.source, stop, pace.drain)
    moving.drain(source, move.number, stop, pace.drain)
    moving.close(source, move.number, "closed", stop, pace.ends)
    moves.advance(core.database, move, "copying")


def _copy(core: Core, move: Move, stop: Event, pace: Pace) -> None:
    source, target = (core.database.url_of(cell) for cell in (move.source, move.target))
    rows = moving.copy(source, target, move.number)
    logger(__name__).info("a tenant's rows are copied", tenant=move.number, rows=rows)
    move_lake.carry(core, move.source, move.target, move.number)
    moves.advance(core.database, move, "switching")


def _switch(core: Core, move: Move, stop: Event, pace: Pace) -> None:
    moves.switch(core.database, move)


def _open(core: Core, move: Move, stop: Event, pace: Pace) -> None:
    """After every process has heard of the new place; until then some read in the old one."""
    if stop.wait(pace.caches):
        return
    moves.welcome(core.database, core.clock, move)
    moves.give_back(core.database, move)
    moves.advance(core.database, move, "clearing")


def _clear(core: Core, move: Move, stop: Event, pace: Pace) -> None:
    source = core.database.url_of(move.source)
    moving.close(source, move.number, "gone", stop, pace.ends)
    moving.clear(source, move.number)
    move_lake.forget(core, move.source, move.number)
    if move.source != HOME:  # nobody reads its topics from here on
        move_kafka.drain(core, move.source, stop, pace.drain)
    moves.end(core.database, move, left=move.source)


def _abort(core: Core, move: Move, stop: Event, pace: Pace) -> None:
    """The tenant first: it is open again before what was copied is removed."""
    moving.reopen(core.database.url_of(move.source), move.number)
    moves.give_back(core.database, move)
    target = core.database.url_of(move.target)
    if move.target != move.source:
        moving.close(target, move.number, "gone", stop, pace.ends)
        moving.clear(target, move.number)
        move_lake.forget(core, move.target, move.number)
    moves.end(core.database, move, left=move.target, failed=True)
    logger(__name__).warning("a move was taken back", tenant=move.number, reason=move.reason)
