"""The lake's part of a tenant's move."""

import sys
from typing import Any

from lily import wiring
from lily.store import archive, positions
from lily.wiring import Core


def carry(core: Core, source: str, target: str, number: int) -> None:
    """Observations go along; facts, versions and the latest are archived again from the feed."""
    if core.settings.lake == "off":
        return
    from lily.lake import leaving  # heavy, and most processes never need it

    old, new = wiring.lake(core, source), wiring.lake(core, target)
    past = wiring.kafka_past(core)
    try:
        leaving.forget(new, number)

        def unarchived(position: dict[str, int]) -> list[tuple[Any, ...]]:
            with core.database.cell(source) as conn:
                rows, parts = archive.log_of(conn, number, position), positions.parts(conn)
            if past is None:
                return rows
            return [*rows, *past.after(source, position, parts, sys.maxsize, number.__eq__)[0]]

        leaving.carry(old, new, number, unarchived)
    finally:
        if past is not None:
            past.close()
        old.close()
        new.close()


def forget(core: Core, cell: str, number: int) -> None:
    if core.settings.lake == "off":
        return
    from lily.lake import leaving

    lake = wiring.lake(core, cell)
    try:
        leaving.forget(lake, number)
    finally:
        lake.close()
