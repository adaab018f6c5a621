"""Rows whose text is written out by hand are what the general way would write."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from msgspec.structs import astuple, replace

from lily.lineage.edges import Edge
from lily.store import edges
from lily.store.copying import text

AT = datetime(2026, 11, 15, 12, 30, 0, 250, UTC)
ONE, OTHER, TOP = UUID(int=1), UUID(int=2**127 + 5), UUID(int=77)
EDGE = Edge(
    1, TOP, ONE, OTHER, "feeds", "table", ONE, OTHER, None, None, None, False, "source", None, "s",
    AT, 7, 0, 1, None, None, AT, AT, "request-1", 9,
)  # fmt: skip
SPECIAL = 'tab\there, line\nend, back\\slash, "quote", ümlaut'


@pytest.mark.parametrize(
    "edge",
    [
        EDGE,
        replace(EDGE, level="column", up_top=TOP, down_top=TOP, implies=OTHER, masking=True),
        replace(EDGE, process=SPECIAL, transformation=SPECIAL, source=SPECIAL, type=SPECIAL),
        replace(EDGE, properties={"a": SPECIAL}, deleted_by="person", deleted_at=AT, cause=SPECIAL),
    ],
)
def test_a_new_edge_reads_the_same(edge: Edge) -> None:
    assert edges._line(edge) == text(astuple(edge))
