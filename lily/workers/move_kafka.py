"""Kafka's part of a tenant's move: what was sent to the old place is applied before it closes.

Topics are shared, so nothing can be taken out of them. The pipeline applies what is there, and
passes on what comes too late: to the new place, once the tenant is there.
"""

from threading import Event

from lily import wiring
from lily.log.kafka import ends
from lily.store import moving, positions
from lily.store.moves import Move
from lily.types import Lane
from lily.wiring import Core


def await_target(core: Core, move: Move, stop: Event, seconds: float) -> bool:
    """Until the pipeline reads the topics of the new place; false where Kafka is not the log."""
    if wiring.kafka(core.settings) is None:
        return False
    reads = "The new place is not read yet."
    moving.until(lambda: bool(_parts(core, move.target)), stop, seconds, reads)
    return True


def drain(core: Core, cell: str, stop: Event, seconds: float) -> None:
    """Until the pipeline is past everything that is in a place's topics now."""
    kafka = wiring.kafka(core.settings)
    if kafka is None:
        return
    parts = _parts(core, cell)
    places = {(kafka.topic(lane, cell), part - 1): (lane, part) for lane, part in parts}
    until = {places[place]: end for place, end in ends(kafka, places).items()}

    def reached() -> bool:
        here = _parts(core, cell)
        return all(here.get(part, 0) >= end for part, end in until.items())

    moving.until(reached, stop, seconds, "The pipeline does not apply what waits in Kafka.")


def _parts(core: Core, cell: str) -> dict[tuple[Lane, int], int]:
    with core.database.cell(cell) as conn:
        return positions.parts(conn)
