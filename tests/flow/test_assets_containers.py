"""What lies in a container is deleted with it and comes back with it."""

from threading import Event

import pytest

from lily.assets.edits import Who
from lily.errors import NotFound
from lily.events.facts import Fact
from lily.events.observations import AssetSeen
from lily.store import feed
from lily.store.containers import Cascade
from lily.store.edits import Edits
from lily.store.history import told
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core
from lily.workers import cascade
from tests.flow.apply import apply, gone, read, seen

ANN = Who("ann", "request-1")


@pytest.fixture
def edits(core: Core) -> Edits:
    return Edits(core.database, core.clock, effective)


def tree(system: Core, tenant: Tenant, tables: int = 3) -> list[str]:
    names = [f"db/s.t{n}" for n in range(tables)]
    apply(
        system,
        tenant,
        [
            AssetSeen(qualified_name="db"),
            AssetSeen(qualified_name="db/s", parent_id="db"),
            *(AssetSeen(qualified_name=name, parent_id="db/s") for name in names),
            AssetSeen(qualified_name=f"{names[0]}#id"),
        ],
    )
    return names


def facts(core: Core, tenant: Tenant, *kinds: str) -> list[Fact]:
    with core.database.unit(tenant) as unit:
        assert feed.check(unit) is None
        return [told(link) for link in feed.after(unit, 0, 10_000, kinds=kinds)]


def deleted(core: Core, tenant: Tenant, names: list[str]) -> list[str | None]:
    return [read(core, tenant, name).deleted_by for name in names]


def test_a_tree_follows_its_root_down_and_back(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    tables = tree(system, tenant)
    edits.delete(tenant, "db", ANN)
    cascade.work(system, Event())
    schema = read(core, tenant, "db/s")
    assert schema.deleted_by == f"parent:{read(core, tenant, 'db').guid}"
    assert deleted(core, tenant, tables) == [f"parent:{schema.guid}"] * 3
    assert read(core, tenant, f"{tables[0]}#id").deleted_by
    told_ = facts(core, tenant, "AssetDeleted")
    assert [(f.by, f.cause) for f in told_] == [("ann", "request-1")] + [
        ("system", "request-1")
    ] * 4
    edits.restore(tenant, "db", ANN)
    cascade.work(system, Event())
    assert deleted(core, tenant, ["db", "db/s", *tables, f"{tables[0]}#id"]) == [None] * 6
    assert len(facts(core, tenant, "AssetRestored")) == 5


def test_what_a_person_deleted_itself_does_not_come_back_with_its_container(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    tables = tree(system, tenant)
    edits.delete(tenant, tables[0], ANN)
    edits.delete(tenant, "db", ANN)
    cascade.work(system, Event())
    edits.delete(tenant, tables[1], ANN)
    edits.restore(tenant, "db", ANN)
    cascade.work(system, Event())
    assert deleted(core, tenant, tables) == ["person", "person", None]


def test_what_its_own_source_says_is_gone_does_not_come_back_either(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    tables = tree(system, tenant)
    edits.delete(tenant, "db", ANN)
    cascade.work(system, Event())
    gone(system, tenant, tables[0])
    edits.restore(tenant, "db", ANN)
    cascade.work(system, Event())
    assert deleted(core, tenant, tables) == ["source", None, None]
    seen(system, tenant, tables[0], parent_id="db/s")
    assert deleted(core, tenant, tables) == [None, None, None]


def test_a_container_that_was_restored_in_between_takes_nothing_with_it(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    tables = tree(system, tenant)
    edits.delete(tenant, "db/s", ANN)
    edits.restore(tenant, "db/s", ANN)
    cascade.work(system, Event())
    assert deleted(core, tenant, tables) == [None] * 3
    assert len(facts(core, tenant, "AssetDeleted")) == 1


def test_a_crash_between_chunks_loses_and_doubles_nothing(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    tables = tree(system, tenant, 25)
    edits.delete(tenant, "db/s", ANN)
    steps = 0
    while Cascade(system.database, system.clock, chunk=10).step(tenant):
        steps += 1  # each step by another process: nothing is remembered but the store
    assert steps >= 2
    assert set(deleted(core, tenant, tables)) == {f"parent:{read(core, tenant, 'db/s').guid}"}
    assert len(facts(core, tenant, "AssetDeleted")) == 26
    assert not Cascade(system.database, system.clock).step(tenant)
    assert len(facts(core, tenant, "AssetDeleted")) == 26


def test_containers_that_contain_each_other_come_to_an_end(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    seen(system, tenant, "a", parent_id="b")
    seen(system, tenant, "b", parent_id="a")
    edits.delete(tenant, "a", ANN)
    cascade.work(system, Event())
    assert deleted(core, tenant, ["a", "b"])[0] == "person"
    edits.restore(tenant, "a", ANN)
    cascade.work(system, Event())
    assert deleted(core, tenant, ["a", "b"]) == [None, None]


def test_a_purged_table_takes_its_columns_along(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    tables = tree(system, tenant)
    columns = [AssetSeen(qualified_name=f"{tables[0]}#c{n}") for n in range(25)]
    apply(system, tenant, columns)
    edits.purge(tenant, tables[0], ANN)
    while Cascade(system.database, system.clock, chunk=10).step(tenant):
        pass
    for column in columns:
        with pytest.raises(NotFound):
            read(core, tenant, column.qualified_name)
    assert deleted(core, tenant, tables[1:]) == [None, None]


def test_children_of_a_purged_container_come_back_when_it_is_seen_again(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    tables = tree(system, tenant)
    edits.purge(tenant, "db/s", ANN)
    cascade.work(system, Event())
    assert all(deleted(core, tenant, tables))
    seen(system, tenant, "db/s", parent_id="db")
    cascade.work(system, Event())
    assert deleted(core, tenant, tables) == [None] * 3
