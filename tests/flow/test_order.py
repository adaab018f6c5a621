"""Shuffled, doubled, partial and multi-source observations end in the same state."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lily.assets.change import Message
from lily.assets.claims import when
from lily.assets.names import guid_of
from lily.events.lanes import lane_of
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.store.ingest import Batch, Incoming, Ingest
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core

START = datetime(2026, 1, 1, tzinfo=UTC)

_words = st.sampled_from(["alpha", "beta", "gamma"])
_tags = st.lists(st.sampled_from(["PII", "public", "internal", "gold", "raw"]), max_size=3)


@st.composite
def _seen(draw: st.DrawFn) -> dict[str, Any]:
    fields: dict[str, Any] = {"partial": draw(st.booleans())}
    for name, values in {
        "asset_name": _words, "asset_type": st.sampled_from(["table", "view"]),
        "asset_owner": _words, "description": _words, "tags": _tags, "business_terms": _tags,
        "metadata": st.dictionaries(_words, st.one_of(_words, st.integers(0, 3), st.none())),
        "asset_id": st.sampled_from(["own-1", "own-2"]),
    }.items():  # fmt: skip
        if draw(st.booleans()):
            fields[name] = draw(values)
    return fields


_stories = st.lists(
    st.tuples(st.sampled_from(["crawler", "dbt", "person"]), st.none() | _seen()),
    min_size=1,
    max_size=8,
)


def _incoming(tenant: Tenant, name: str, story: list[Any], order: list[int]) -> list[Incoming]:
    events = []
    for offset, index in enumerate(order):
        source, fields = story[index]
        seen: Observation = AssetGone(qualified_name=name)
        if fields is not None:
            seen = AssetSeen(qualified_name=name, **fields)
        at = when(START + timedelta(minutes=index), offset)
        message = Message(seen, source, "test", str(uuid4()), at)
        events.append(Incoming(tenant.number, lane_of(name), offset, message))
    return events


def _state(core: Core, tenant: Tenant, name: str) -> tuple[Any, ...] | None:
    with core.database.unit(tenant) as unit:
        return unit.conn.execute(
            "SELECT asset_name, asset_type, asset_owner, description, tags, business_terms,"
            " metadata, caller_id, deleted_by, observed_at FROM asset"
            " WHERE tenant = %s AND guid = %s",
            [tenant.number, guid_of(tenant.id, name)],
        ).fetchone()


def _apply(
    system: Core, events: list[Incoming], tenant: Tenant, chunk: int, part: int = 100
) -> None:
    ingest = Ingest(effective, lambda _: tenant, lambda _: {}, part)
    for start in range(0, len(events), chunk):
        with system.database.cell(tenant.cell) as conn:
            batch = Batch(uuid4(), [], events[start : start + chunk], [])
            ingest.apply(conn, batch, system.clock.now())


def _shuffled(story: list[Any], chance: random.Random) -> list[int]:
    """Every observation, some of them twice or more, in any order."""
    order = list(range(len(story)))
    mixed = order + chance.choices(order, k=chance.randrange(0, 4))
    chance.shuffle(mixed)
    return mixed


@settings(
    max_examples=500,  # of up to six stories each
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(stories=st.lists(_stories, min_size=1, max_size=6), seed=st.integers(0, 2**32))
def test_every_order_ends_in_the_same_state(
    core: Core, system: Core, tenant: Tenant, stories: list[list[Any]], seed: int
) -> None:
    chance = random.Random(seed)
    run = uuid4().hex
    straight: list[Incoming] = []
    mixed: list[Incoming] = []
    for number, story in enumerate(stories):
        one, other = f"db://{run}/one/{number}/people", f"db://{run}/other/{number}/people"
        straight += _incoming(tenant, one, story, list(range(len(story))))
        mixed += _incoming(tenant, other, story, _shuffled(story, chance))
    _apply(system, straight, tenant, len(straight))
    _apply(system, mixed, tenant, chance.randrange(1, 20), part=chance.choice((2, 5, 100)))
    for number, story in enumerate(stories):
        states = [
            _state(core, tenant, f"db://{run}/{which}/{number}/people")
            for which in ("one", "other")
        ]
        assert states[0] == states[1], story


def test_an_observation_seen_twice_makes_no_second_version(
    core: Core, system: Core, tenant: Tenant
) -> None:
    story = [("crawler", {"asset_name": "people", "asset_type": "table"})]
    _apply(system, _incoming(tenant, "db/people", story, [0, 0, 0]), tenant, 2)
    with core.database.unit(tenant) as unit:
        row = unit.conn.execute(
            "SELECT version FROM asset WHERE tenant = %s", [tenant.number]
        ).fetchone()
        facts = unit.conn.execute(
            "SELECT count(*) FROM fact WHERE tenant = %s", [tenant.number]
        ).fetchone()
    assert row == (1,)
    assert facts == (1,)
