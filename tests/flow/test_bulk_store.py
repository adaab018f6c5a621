"""Chunks of a file in the store: the quick way, the careful way, and both at once."""

from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from lily.assets.change import Message
from lily.assets.claims import when
from lily.errors import Fenced
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.store import feed, jobs
from lily.store.bulk import Chunk, Loader, Place
from lily.store.database import direct
from lily.store.ingest import Ingest, Tally
from lily.store.jobs import Board, Refused
from lily.tags.effective import effective
from lily.types import Lane, Tenant
from lily.wiring import Core
from tests.flow.apply import apply, gone, read, seen
from tests.flow.bulk import facts_of, state_of

BEFORE = datetime(2020, 1, 31, tzinfo=UTC)


class Load:
    """A claimed job, whose chunks the test makes by hand."""

    def __init__(self, core: Core, system: Core, tenant: Tenant) -> None:
        self.system, self.tenant = system, tenant
        self.runner, self.id = uuid4(), uuid4()
        with core.database.unit(tenant) as unit:
            jobs.begin(unit, self.id, "ndjson", "", "test", "", core.clock.now())
            jobs.queue(unit, self.id, 1, 1)
        with system.database.cell(tenant.cell, [tenant.number]) as conn:
            conn.execute(
                "UPDATE job SET state = 'running', runner = %s, beat_at = now() WHERE id = %s",
                [self.runner, self.id],
            )
        ingest = Ingest(effective, lambda _: tenant, lambda _: {})
        self.loader = Loader(
            lambda: direct(system.database, tenant.cell), ingest, system.clock.now, Event()
        )

    def chunk(self, observations: Sequence[Observation], refused: Sequence[Refused] = ()) -> Chunk:
        now = self.system.clock.now()
        messages = [
            Message(each, "crawler", "test", f"{self.id}/{line}", when(now, 10**6 + line))
            for line, each in enumerate(observations, 1)
        ]
        return Chunk(0, messages, list(refused))

    def apply(self, chunk: Chunk, number: int = 0, lane: Lane = "core") -> Tally | None:
        chunk.number = number
        place = Place(self.tenant, self.id, self.runner, lane, 1)
        return self.loader.apply(place, chunk)


@pytest.fixture
def load(core: Core, system: Core, tenant: Tenant) -> Any:
    made = Load(core, system, tenant)
    yield made
    made.loader.close()


def test_what_is_known_new_and_doubled_goes_each_its_way(
    core: Core, system: Core, tenant: Tenant, load: Load
) -> None:
    seen(system, tenant, "known", asset_type="table")
    seen(system, tenant, "same", asset_name="same", asset_type="table")
    found = load.apply(
        load.chunk(
            [
                AssetSeen(qualified_name="fresh", asset_type="table", tags=["PII"]),
                AssetSeen(qualified_name="known", asset_type="view"),
                AssetSeen(qualified_name="same", asset_name="same", asset_type="table"),
                AssetSeen(qualified_name="twice", description="first"),
                AssetSeen(qualified_name="twice", description="second"),
                AssetSeen(qualified_name="part", partial=True, description="only this"),
            ],
            [Refused(7, "no good")],
        )
    )
    assert found == Tally(created=3, updated=2, unchanged=1)
    assert read(core, tenant, "known").asset_type == "view"
    assert read(core, tenant, "twice").description == "second"
    assert read(core, tenant, "part").description == "only this"
    assert read(core, tenant, "fresh").feed_position > 0
    with core.database.unit(tenant) as unit:
        assert jobs.errors(unit, load.id, 0, 10) == [Refused(7, "no good")]
        counts = jobs.counts(unit, load.id)
        assert (counts.read, counts.accepted, counts.rejected) == (7, 6, 1)
        assert feed.check(unit) is None


def test_a_chunk_has_one_effect_however_often_it_comes(
    core: Core, tenant: Tenant, load: Load
) -> None:
    chunk = load.chunk([AssetSeen(qualified_name=f"t#{n}") for n in range(20)])
    assert load.apply(chunk, lane="fields") == Tally(created=20)
    before = state_of(core, tenant), facts_of(core, tenant)
    assert load.apply(chunk, lane="fields") is None
    assert (state_of(core, tenant), facts_of(core, tenant)) == before
    assert ("FieldsCreated", 1, 1, 20) in facts_of(core, tenant)


def test_a_job_that_is_not_ours_any_more_stores_nothing(
    core: Core, tenant: Tenant, load: Load
) -> None:
    with core.database.unit(tenant) as unit:
        jobs.cancel(unit, load.id, "somebody", core.clock.now())
    with pytest.raises(Fenced):
        load.apply(load.chunk([AssetSeen(qualified_name="late")]))
    assert facts_of(core, tenant) == []


def test_what_was_gone_before_it_was_seen_stays_in_order(
    core: Core, system: Core, tenant: Tenant, load: Load
) -> None:
    gone(system, tenant, "ghost", source="other")
    load.apply(load.chunk([AssetSeen(qualified_name="ghost"), AssetSeen(qualified_name="plain")]))
    assert read(core, tenant, "ghost").layers == 1
    assert read(core, tenant, "plain").layers == 0


def test_a_file_says_the_same_as_observations_do(
    core: Core, system: Core, tenant: Tenant, load: Load
) -> None:
    from tests.conftest import new_tenant

    observations: list[Observation] = [
        AssetSeen(qualified_name="db/t", asset_id="alias", asset_type="table", tags=["gold"]),
        AssetSeen(qualified_name="db/t#a", asset_type="column", metadata={"n": 1}),
        AssetSeen(qualified_name="db/t#b", asset_type="column", tags=["PII", "public"]),
        AssetSeen(qualified_name="only name", description="tab\there\\"),
        AssetSeen(qualified_name="like most", asset_name="m", asset_type="view", asset_owner=""),
        AssetSeen(qualified_name="old", asset_type="view", details={"a": 1}, created_at=BEFORE),
        AssetGone(qualified_name="never seen"),
    ]
    other = new_tenant(core)
    apply(system, other, observations)
    load.apply(load.chunk(observations))
    assert state_of(core, tenant) == state_of(core, other)
    assert facts_of(core, tenant) == facts_of(core, other)
    assert read(core, tenant, "alias").qualified_name == "db/t"


def test_a_silent_runner_loses_its_job_to_the_next(
    core: Core, system: Core, tenant: Tenant, load: Load
) -> None:
    board = Board(system.database, uuid4())
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        conn.execute(
            "UPDATE job SET beat_at = now() - interval '1 minute' WHERE id = %s", [load.id]
        )
    assert board.waiting()
    while (job := board.claim()) is not None and job.id != load.id:
        pass  # left over by other tests
    assert job is not None
    with pytest.raises(Fenced):
        load.apply(load.chunk([AssetSeen(qualified_name="late")]))
    board.reserve(tenant.cell, job, 10)
    assert job.core_offset > 0 and job.lines == 10
    board.finish(tenant.cell, job, "failed", "because")
    with core.database.unit(tenant) as unit:
        assert jobs.get(unit, job.id).reason == "because"
        assert jobs.resume(unit, job.id).state == "queued"
