"""Words on edges, shuffled, doubled and from several sources, end in the same state."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lily.events.lineage import Edge, EdgeObservation, LineageStated
from lily.store.ingest import PART
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow.lineage import arrivals, commit, edge_message, guid, join, live, part, rows

START = datetime(2026, 1, 1, tzinfo=UTC)
JOB = "job:air/flow"

_names = st.sampled_from(["a", "b", "c", "a#x", "b#y"])
_labels = st.sampled_from(["derived-from", "depends-on"])
_said = st.fixed_dictionaries(
    {}, optional={"process": st.sampled_from(["p", "q"]), "masking": st.booleans(),
                  "transformation": st.sampled_from(["one", "two"])},
)  # fmt: skip
_seen = st.builds(
    lambda a, b, label, more: join(a, b, label, **more), _names, _names, _labels, _said
)
_gone = st.builds(part, _names, _names, _labels)
_edges = st.builds(lambda a, b: Edge(from_name=a, to_name=b), _names, _names)
_stated = st.builds(lambda edges: LineageStated(job="air/flow", edges=edges),
                    st.lists(_edges, max_size=3))  # fmt: skip
_stories = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["one", "two", "person"]), st.one_of(_seen, _seen, _gone)),
        st.tuples(st.just(JOB), st.one_of(_stated, _seen)),
    ),
    min_size=1, max_size=10,
)  # fmt: skip

Story = Sequence[tuple[str, EdgeObservation]]


def played(
    system: Core, tenant: Tenant, story: Story, order: list[int], size: int, part: int = PART
) -> None:
    """So many words a batch, decided `part` by part."""
    messages = [
        edge_message(story[n][1], story[n][0], START + timedelta(minutes=n), n) for n in order
    ]
    for start in range(0, len(messages), size):
        commit(system, tenant, arrivals(tenant, messages[start : start + size]), part)


def state(core: Core, tenant: Tenant) -> tuple[Any, ...]:
    """The graph, and what shows of every edge that holds."""
    names = {guid(tenant, name): name for name in ("a", "b", "c", "a#x", "b#y")}

    def called(id: UUID) -> str:
        return names[id]

    graph = {(called(up), called(down), kind, implied)
             for up, down, kind, implied in live(core, tenant)}  # fmt: skip
    shown = rows(
        core, tenant,
        "SELECT upstream, downstream, type, process, transformation, masking, origin, source,"
        " observed_at FROM edge WHERE tenant = %s AND deleted_by IS NULL", tenant.number,
    )  # fmt: skip
    return graph, {(called(row[0]), called(row[1]), *row[2:]) for row in shown}


@settings(
    max_examples=100, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(story=_stories, seed=st.integers(0, 2**32))
def test_every_order_ends_in_the_same_graph(
    core: Core, system: Core, story: Story, seed: int
) -> None:
    chance = random.Random(seed)
    one, other = new_tenant(core), new_tenant(core)
    order = list(range(len(story)))
    played(system, one, story, order, len(order))
    mixed = order + chance.choices(order, k=chance.randrange(0, 4))
    chance.shuffle(mixed)
    played(system, other, story, mixed, chance.randrange(1, 9), part=chance.choice((1, 2)))
    assert state(core, one) == state(core, other), (story, mixed)


def test_a_late_statement_does_not_hide_an_edge_from_the_next_one(
    core: Core, system: Core, tenant: Tenant
) -> None:
    nothing = LineageStated(job="air/flow", edges=[])
    story: Story = [(JOB, nothing), (JOB, join("a", "b")), (JOB, nothing)]
    played(system, tenant, story, [1, 0, 2], 3)
    assert live(core, tenant) == set()


@pytest.mark.parametrize(("size", "part"), [(2, PART), (5, 1)])
def test_nothing_is_told_twice(
    core: Core, system: Core, tenant: Tenant, size: int, part: int
) -> None:
    story: Story = [("one", join("a", "b")), ("two", join("a", "b"))]
    played(system, tenant, story, [1, 0, 1, 0, 0], size, part)
    kinds = rows(core, tenant, "SELECT kind FROM fact WHERE tenant = %s AND kind LIKE 'Edge%%'",
                 tenant.number)  # fmt: skip
    assert kinds == [("EdgeCreated",)]
