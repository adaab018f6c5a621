"""What people edit lies over what sources say; each change is a version and a fact."""

from threading import Thread
from typing import Any

import pytest

from lily.assets.edits import Who
from lily.assets.model import public
from lily.errors import Invalid, NotFound, Stale
from lily.store import feed
from lily.store.edits import Edits
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow.apply import gone, read, seen
from tests.flow.feeds import facts, kinds

ANN, BOB = Who("ann", "request-1"), Who("bob", "request-2")
NAME = "postgres://h:1/shop.public.people"


@pytest.fixture
def edits(core: Core) -> Edits:
    return Edits(core.database, core.clock, effective)


def test_a_persons_word_wins_and_outlives_the_next_observation(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    seen(system, tenant, NAME, description="from the crawler", asset_owner="dba")
    edited = edits.edit(tenant, NAME, {"description": "People we sell to"}, False, ANN)
    assert (edited.description, edited.version) == ("People we sell to", 2)
    seen(system, tenant, NAME, description="newer, from the crawler", asset_owner="dba2")
    asset = read(core, tenant, NAME)
    assert asset.description == "People we sell to"
    assert asset.asset_owner == "dba2"
    changed = facts(core, tenant)[1]
    assert (changed.kind, changed.by, changed.cause) == ("AssetChanged", "ann", "request-1")
    assert changed.before == {"description": "from the crawler"}
    assert changed.after == {"description": "People we sell to"}


def test_null_in_a_patch_takes_the_edit_back(system: Core, tenant: Tenant, edits: Edits) -> None:
    seen(system, tenant, NAME, description="source", metadata={"rows": 5, "zone": "eu"})
    edits.edit(tenant, NAME, {"description": "mine", "metadata": {"rows": 7, "own": 1}}, False, ANN)
    asset = edits.edit(tenant, NAME, {"description": None, "metadata": {"own": None}}, False, ANN)
    assert asset.description == "source"
    assert asset.metadata == {"rows": 7, "zone": "eu"}
    asset = edits.edit(tenant, NAME, {"metadata": None}, False, BOB)
    assert asset.metadata == {"rows": 5, "zone": "eu"}
    assert asset.edited is None


def test_a_put_replaces_what_people_said_before(system: Core, tenant: Tenant, edits: Edits) -> None:
    seen(system, tenant, NAME, description="source", metadata={"rows": 5, "zone": "eu"})
    edits.edit(tenant, NAME, {"asset_owner": "ann", "description": "mine"}, False, ANN)
    asset = edits.edit(tenant, NAME, {"metadata": {"zone": "us"}, "asset_name": "P"}, True, ANN)
    assert asset.metadata == {"zone": "us"}
    assert (asset.asset_name, asset.asset_owner, asset.description) == ("P", None, "source")


def test_putting_back_what_was_read_changes_and_freezes_nothing(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    fields: dict[str, Any] = {"description": "one", "tags": ["gold"], "metadata": {"a": 1}}
    seen(system, tenant, NAME, **fields, business_terms=["customer"])
    body = public(read(core, tenant, NAME), tenant.id)
    assert edits.edit(tenant, NAME, body, True, ANN).version == 1
    seen(system, tenant, NAME, description="two", tags=[])
    asset = read(core, tenant, NAME)
    assert (asset.description, asset.tags, asset.metadata) == ("two", [], {})


def test_what_changes_nothing_makes_no_version_and_no_fact(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    seen(system, tenant, NAME, tags=["gold"])
    for _ in range(2):
        edits.edit(tenant, NAME, {"description": "x", "tags": ["mine"]}, False, ANN)
        edits.delete(tenant, NAME, ANN)
    for _ in range(2):
        edits.restore(tenant, NAME, ANN)
    assert read(core, tenant, NAME).version == 4
    assert kinds(core, tenant) == [
        "AssetCreated", "AssetChanged", "TagsChanged", "AssetDeleted", "AssetRestored",
    ]  # fmt: skip


def test_the_sources_tag_is_shown_and_the_persons_is_kept(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    seen(system, tenant, NAME, tags=["public"])
    asset = edits.edit(tenant, NAME, {"tags": ["PII", "gold"]}, False, ANN)
    assert asset.tags == ["gold", "public"]
    seen(system, tenant, NAME, tags=[])
    assert read(core, tenant, NAME).tags == ["PII", "gold"]


def test_a_tag_that_a_source_hides_is_told_all_the_same(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    seen(system, tenant, NAME, tags=["public"])
    edits.edit(tenant, NAME, {"tags": ["PII"]}, False, ANN)
    last = facts(core, tenant)[-1]
    assert last.kind == "TagsChanged"
    assert last.after == {"tags": ["public"], "own": ["PII", "public"]}


def test_each_person_sets_their_own_tags_only(system: Core, tenant: Tenant, edits: Edits) -> None:
    seen(system, tenant, NAME)
    edits.edit(tenant, NAME, {"tags": ["a", "b"]}, False, ANN)
    edits.edit(tenant, NAME, {"tags": ["b", "c"]}, False, BOB)
    asset = edits.edit(tenant, NAME, {"tags": ["a"]}, False, ANN)
    assert asset.tags == ["a", "b", "c"]
    asset = edits.edit(tenant, NAME, {"tags": None}, False, BOB)
    assert asset.tags == ["a"]


def test_a_persons_delete_outlives_what_the_source_says(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    seen(system, tenant, NAME)
    gone(system, tenant, NAME)
    assert read(core, tenant, NAME).deleted_by == "source"
    assert edits.delete(tenant, NAME, ANN).deleted_by == "person"
    seen(system, tenant, NAME, description="again")
    assert read(core, tenant, NAME).deleted_by == "person"
    assert edits.restore(tenant, NAME, ANN).deleted_by is None


def test_an_edit_of_a_version_that_is_not_there_any_more_is_stale(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    seen(system, tenant, NAME)
    edits.edit(tenant, NAME, {"description": "a"}, False, ANN, frozenset({1}))
    with pytest.raises(Stale, match="version 2"):
        edits.edit(tenant, NAME, {"description": "b"}, False, ANN, frozenset({1}))
    with pytest.raises(Stale):
        edits.delete(tenant, NAME, ANN, frozenset({1}))
    assert read(core, tenant, NAME).description == "a"


def test_a_purged_asset_leaves_a_tombstone_and_its_facts(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    before = system.clock.now()
    seen(system, tenant, NAME, asset_id="own-1")
    seen(system, tenant, NAME, source="dbt", description="second source")
    edits.edit(tenant, "own-1", {"tags": ["PII"]}, False, ANN)
    edits.purge(tenant, "own-1", ANN)
    for given in (NAME, "own-1"):
        with pytest.raises(NotFound):
            read(core, tenant, given)
    seen(system, tenant, NAME, at=before)
    with pytest.raises(NotFound):
        read(core, tenant, NAME)
    with core.database.unit(tenant) as unit:
        for table in ("asset_source", "asset_alias", "tag_assignment"):
            row = unit.conn.execute(
                f"SELECT count(*) FROM {table} WHERE tenant = %s", [tenant.number]
            ).fetchone()
            assert row == (0,), table
        assert feed.check(unit) is None
    assert kinds(core, tenant)[-1] == "AssetPurged"
    seen(system, tenant, NAME, description="born again")
    assert read(core, tenant, NAME).version == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"description": 5}, "description"),
        ({"tags": "PII"}, "tags"),
        ({"tags": ["ok", " "]}, "tags[1]"),
        ({"metadata": [1]}, "metadata"),
        ({"asset_name": ""}, "asset_name"),
        ({"description": "a\0b"}, "description"),
        ({"metadata": {"k": ["a\0"]}}, "metadata.k[0]"),
        ({"qualified_name": "other"}, "qualified_name"),
        ({"is_deleted": True}, "is_deleted"),
        ({"parent_id": NAME}, "parent_id"),
    ],
)
def test_a_wrong_edit_names_its_field_and_stores_nothing(
    core: Core, system: Core, tenant: Tenant, edits: Edits, body: dict[str, Any], field: str
) -> None:
    seen(system, tenant, NAME)
    for whole in (True, False):
        with pytest.raises(Invalid) as caught:
            edits.edit(tenant, NAME, body, whole, ANN)
        assert [error.field for error in caught.value.errors] == [field]
    assert read(core, tenant, NAME).version == 1


def test_a_field_that_nobody_knows_is_metadata(system: Core, tenant: Tenant, edits: Edits) -> None:
    seen(system, tenant, NAME, metadata={"a": 1})
    asset = edits.edit(tenant, NAME, {"colour": "blue"}, False, ANN)
    assert asset.metadata == {"a": 1, "colour": "blue"}


def test_every_name_of_an_asset_finds_it_and_only_for_its_tenant(
    core: Core, system: Core, tenant: Tenant
) -> None:
    name = "postgres://h:1/a.b.c#größe/%2F"
    seen(system, tenant, name, asset_id="own id")
    guid = read(core, tenant, name).guid
    for given in (name, str(guid), guid.hex, "own id", name.replace("ö", "o\u0308")):
        assert read(core, tenant, given).guid == guid
    other = new_tenant(core)
    for given in (name, str(guid), "own id", "nothing"):
        with pytest.raises(NotFound) as caught:
            read(core, other, given)
        assert str(caught.value) == f"There is no asset {given}."


def test_people_and_sources_who_write_at_once_lose_nothing(
    core: Core, system: Core, tenant: Tenant, edits: Edits
) -> None:
    seen(system, tenant, NAME)

    def person(number: int) -> None:
        for turn in range(5):
            edits.edit(tenant, NAME, {"metadata": {f"p{number}-{turn}": turn}}, False, ANN)

    def source(number: int) -> None:
        for turn in range(5):
            seen(system, tenant, NAME, f"source-{number}", metadata={f"s{number}": turn})

    threads = [Thread(target=each, args=[n]) for each in (person, source) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metadata = read(core, tenant, NAME).metadata
    assert {f"p{n}-{turn}" for n in range(3) for turn in range(5)} <= set(metadata)
    assert {key: metadata[key] for key in ("s0", "s1", "s2")} == {"s0": 4, "s1": 4, "s2": 4}
    with core.database.unit(tenant) as unit:
        assert feed.check(unit) is None
