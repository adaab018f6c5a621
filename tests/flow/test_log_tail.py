"""Reading on in the log: how much at once, and nothing left out."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from lily.events.envelope import Envelope, decode
from lily.events.observations import AssetSeen
from lily.log import postgres as log
from lily.log.tail import Offsets, Tail
from lily.store import positions
from lily.wiring import Core


@pytest.fixture
def tail(system: Core) -> Iterator[Tail]:
    found = Tail(lambda: {"home": system.database.role_url("home")})
    yield found
    found.close()


def note(system: Core, count: int, name: str) -> list[int]:
    said = [AssetSeen(qualified_name=name.format(number)) for number in range(count)]
    envelopes = [Envelope(id=uuid4(), tenant=1, source="t", by="t", observation=o) for o in said]
    with system.database.cell("home") as conn:
        return log.append_in(conn, envelopes, [each.qualified_name for each in said])


def here(system: Core) -> Offsets:
    """Behind everything that other tests have left."""
    with system.database.cell("home") as conn:
        return {"home": log.high_water(conn, positions.applied(conn))}


def test_a_read_takes_so_many_of_core_and_the_next_takes_the_rest(system: Core, tail: Tail) -> None:
    start = here(system)
    offsets = note(system, 25, "db/t{}")
    seen = []
    for expected in (10, 10, 5):
        [stretch] = tail.read(start, 5, most=10)
        assert len(stretch.rows) == expected
        seen += [row[0] for row in stretch.rows]
        start["home"]["core"] = stretch.end
    assert seen == offsets


@pytest.mark.parametrize("lane, mark", [("core", ""), ("fields", "#c")])
def test_what_is_read_is_what_was_said_whatever_marks_are_in_it(
    system: Core, tail: Tail, lane: str, mark: str
) -> None:
    start = here(system)
    name = f"db/tab\t, line\nend\r, back\\slash, \\N, 'ümlaut' 日本語{mark}"
    said = AssetSeen(qualified_name=name, description='\\. "quoted"\n\n')
    sent = Envelope(id=uuid4(), tenant=1, source="t", by="t", observation=said)
    with system.database.cell("home") as conn:
        [offset] = log.append_in(conn, [sent], [name])
    [stretch] = tail.read(start, 5, most=10)
    [(at, tenant, _, key, value)] = stretch.rows
    assert (stretch.lane, at, tenant, key) == (lane, offset, 1, name)
    assert decode(value) == sent


def test_fields_come_along_however_little_of_core_may(system: Core, tail: Tail) -> None:
    start = here(system)
    note(system, 3, "db/t{}")
    note(system, 4, "db/t#c{}")
    stretches = tail.read(start, 5, most=1)
    assert [(each.lane, len(each.rows)) for each in stretches] == [("core", 1), ("fields", 4)]


def test_a_read_of_nothing_ends_when_its_time_is_over(system: Core, tail: Tail) -> None:
    assert tail.read(here(system), 0.05, most=10) == []
