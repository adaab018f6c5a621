"""Walks over the graph equal a small reference; cycles, hubs and depth do no harm."""

import itertools
from collections import defaultdict
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lily.lineage.graph import Asked, Page
from lily.store.graph import PAGE, page_of, values
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow import apply
from tests.flow.lineage import guid, join, tell

Edges = set[tuple[str, str]]


def page(core: Core, tenant: Tenant, name: str, **asked: Any) -> Page:
    root = guid(tenant, name)
    with core.database.unit(tenant) as unit:
        wanted = values(tenant.number, root, Asked(**asked)) | {"sight": ""}
        row = unit.conn.execute(PAGE, wanted).fetchone()
    assert row is not None
    return page_of(row)


def paged(core: Core, tenant: Tenant, name: str, size: int, **asked: Any) -> list[Page]:
    """All pages of so many nodes."""
    pages = [page(core, tenant, name, limit=size, **asked)]
    while pages[-1].more:
        far, last = pages[-1].end
        pages.append(page(core, tenant, name, limit=size, after=(far, UUID(last)), **asked))
    return pages


def reached(edges: Edges, root: str, depth: int, down: bool) -> dict[str, int]:
    """Breadth first, the way one writes it on paper."""
    out: dict[str, list[str]] = defaultdict(list)
    for one, other in edges:
        out[one if down else other].append(other if down else one)
    found, frontier = {root: 0}, [root]
    for far in range(1, depth + 1):
        frontier = sorted({n for f in frontier for n in out[f]} - found.keys())
        found.update(dict.fromkeys(frontier, far))
    return found


def walked(edges: Edges, root: str, depth: int, direction: str) -> tuple[dict[str, int], Edges]:
    nodes: dict[str, int] = {}
    lines: Edges = set()
    for down in (True, False):
        if direction == ("upstream" if down else "downstream"):
            continue
        found = reached(edges, root, depth, down)
        for node, far in found.items():
            nodes[node] = min(far, nodes.get(node, far))
        inner = {node for node, far in found.items() if far < depth}
        lines |= {(a, b) for a, b in edges if (a if down else b) in inner}
    return nodes, lines


_names = st.sampled_from([f"db/{letter}" for letter in "abcdefgh"])
_graphs = st.sets(st.tuples(_names, _names), min_size=1, max_size=20)


@settings(
    max_examples=40, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    edges=_graphs, gone=st.sets(_names, max_size=2), depth=st.integers(1, 5),
    direction=st.sampled_from(["upstream", "downstream", "both"]), size=st.integers(1, 4),
)  # fmt: skip
def test_a_walk_equals_the_reference(
    core: Core, system: Core, edges: Edges, gone: set[str], depth: int, direction: str, size: int
) -> None:
    tenant = new_tenant(core)
    names = sorted({name for edge in edges for name in edge})
    for name in names:
        apply.seen(system, tenant, name, asset_type="table")
    tell(system, tenant, *[join(a, b) for a, b in sorted(edges)])
    root = next((name for name in names if name not in gone), None)
    for name in gone & set(names):
        apply.gone(system, tenant, name)
    if root is None:
        return
    living = {(a, b) for a, b in edges if a not in gone and b not in gone}
    nodes, lines = walked(living, root, depth, direction)
    ids = {str(guid(tenant, name)): name for name in names}
    asked = {"direction": direction, "depth": depth}
    whole = page(core, tenant, root, **asked)
    assert {ids[n.guid]: n.depth for n in whole.nodes} == nodes
    assert {(ids[e.upstream], ids[e.downstream]) for e in whole.edges} == lines
    order = [(n.depth, n.guid) for n in whole.nodes]
    assert order == sorted(order)
    # Page by page it is the same graph, each node and edge once.
    pages = paged(core, tenant, root, size, **asked)
    assert [n for each in pages for n in each.nodes] == whole.nodes
    assert sorted([e.id for each in pages for e in each.edges]) == sorted(e.id for e in whole.edges)


def test_a_page_tells_of_a_way_that_is_longer_than_the_page(
    core: Core, system: Core, tenant: Tenant
) -> None:
    # By their ids, because pages go by them.
    back, on, other = sorted((f"db/{n}" for n in range(3)), key=lambda name: guid(tenant, name))
    ring = [join("root", on), join(on, back), join(back, "root"), join(back, back)]
    tell(system, tenant, *ring, join("root", other))
    whole = page(core, tenant, "root", direction="both")
    assert [(n.depth, n.way) for n in whole.nodes] == [(0, 3), (1, 3), (1, 3), (1, 1)]
    pages = paged(core, tenant, "root", 1, direction="both")
    assert [n for each in pages for n in each.nodes] == whole.nodes
    assert {e.id for each in pages for e in each.edges} == {e.id for e in whole.edges}


def test_columns_walk_by_themselves_and_imply_tables(
    core: Core, system: Core, tenant: Tenant
) -> None:
    tell(
        system, tenant, join("a#x", "b#y"), join("b#y", "c#z"), join("b", "d"), join("a#x", "dash")
    )
    tables = page(core, tenant, "a")
    named = {n.qualified_name: n.depth for n in tables.nodes}
    assert named == {"a": 0, "b": 1, "c": 2, "d": 2, "dash": 1}
    assert [e.implied for e in tables.edges].count(False) == 1
    assert {e.type for e in tables.edges} == {"derived-from"}
    columns = page(core, tenant, "a#x", fields=True)
    assert {n.qualified_name: n.depth for n in columns.nodes} == {
        "a#x": 0, "b#y": 1, "c#z": 2, "dash": 1,
    }  # fmt: skip
    up = page(core, tenant, "c", direction="upstream")
    assert {n.qualified_name: n.depth for n in up.nodes} == {"c": 0, "b": 1, "a": 2}


def test_labels_and_kinds_choose_what_is_shown(core: Core, system: Core, tenant: Tenant) -> None:
    apply.seen(system, tenant, "b", asset_type="view")
    apply.seen(system, tenant, "c", asset_type="dashboard")
    tell(system, tenant, join("a", "b"), join("b", "c"), join("x", "a", "references"))
    assert len(page(core, tenant, "a").nodes) == 4
    assert len(page(core, tenant, "a", labels=["derived-from"]).nodes) == 3
    only = page(core, tenant, "a", kinds=["dashboard"])
    assert [(n.qualified_name, n.depth) for n in only.nodes] == [("a", 0), ("c", 2)]


def test_a_hub_is_paged_and_a_walk_is_cut_where_told(
    core: Core, system: Core, tenant: Tenant
) -> None:
    tell(system, tenant, *[join("hub", f"leaf/{n}") for n in range(300)])
    first = page(core, tenant, "hub", limit=100)
    assert (len(first.nodes), len(first.edges), first.more, first.cut) == (100, 99, True, False)
    last = page(core, tenant, "hub", limit=250, after=first.end)
    assert (len(last.nodes), len(last.edges), last.more) == (201, 201, False)
    cut = page(core, tenant, "hub", most=50)
    assert (len(cut.nodes), cut.more, cut.cut) == (50, False, True)


def test_a_chain_of_a_hundred_with_a_way_back_ends(
    core: Core, system: Core, tenant: Tenant
) -> None:
    names = [f"step/{n}" for n in range(101)]
    chain = [join(a, b) for a, b in itertools.pairwise(names)]
    tell(system, tenant, *chain, join(names[-1], names[0]), join(names[5], names[5]))
    found = page(core, tenant, names[0], depth=100)
    assert [n.depth for n in found.nodes] == list(range(101))
    assert len(found.edges) == 101
    assert len(page(core, tenant, names[0], depth=100, direction="both").nodes) == 101


def test_what_is_deleted_shows_only_to_who_asks(core: Core, system: Core, tenant: Tenant) -> None:
    apply.seen(system, tenant, "b")
    tell(system, tenant, join("a", "b"), join("b", "c"))
    apply.gone(system, tenant, "b")
    assert [n.qualified_name for n in page(core, tenant, "a").nodes] == ["a"]
    found = page(core, tenant, "a", deleted=True)
    assert [(n.qualified_name, n.is_deleted) for n in found.nodes] == [
        ("a", False), ("b", True), ("c", False),
    ]  # fmt: skip
