"""Edges in the store: who claims them, what ends them, and what shows."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from lily.events.lineage import Edge, LineageStated
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow import apply
from tests.flow.lineage import guid, join, live, part, rows, tell

START = datetime(2026, 1, 1, tzinfo=UTC)


def facts(core: Core, tenant: Tenant, *kinds: str) -> list[tuple[str, UUID]]:
    return rows(
        core, tenant,
        "SELECT kind, guid FROM fact WHERE tenant = %s AND kind = ANY(%s) ORDER BY position",
        tenant.number, list(kinds) or ["EdgeCreated", "EdgeChanged", "EdgeDeleted", "EdgeRestored"],
    )  # fmt: skip


def edge(core: Core, tenant: Tenant, *names: str) -> tuple[Any, ...]:
    [row] = rows(core, tenant, f"SELECT {', '.join(names)} FROM edge WHERE tenant = %s",
                 tenant.number)  # fmt: skip
    return row


def test_an_edge_joins_two_assets_and_is_told(core: Core, system: Core, tenant: Tenant) -> None:
    apply.seen(system, tenant, "db/a", asset_type="table")
    apply.seen(system, tenant, "db/b", asset_type="table")
    [cause] = tell(system, tenant, join("db/a", "db/b", process="nightly"))
    a, b = guid(tenant, "db/a"), guid(tenant, "db/b")
    assert live(core, tenant) == {(a, b, "derived-from", False)}
    assert facts(core, tenant) == [("EdgeCreated", b)]
    assert edge(core, tenant, "process", "cause", "version", "origin") == (
        "nightly", cause, 1, "source",
    )  # fmt: skip
    [(position,)] = rows(core, tenant, "SELECT max(position) FROM fact WHERE tenant = %s",
                         tenant.number)  # fmt: skip
    assert edge(core, tenant, "feed_position") == (position,)


def test_the_same_word_again_changes_nothing(core: Core, system: Core, tenant: Tenant) -> None:
    for _ in range(3):
        tell(system, tenant, join("db/a", "db/b"))
    assert facts(core, tenant) == [("EdgeCreated", guid(tenant, "db/b"))]
    assert edge(core, tenant, "version") == (1,)


def test_labels_decide_which_end_is_upstream(core: Core, system: Core, tenant: Tenant) -> None:
    tell(system, tenant, join("report", "table", "depends-on"))
    assert live(core, tenant) == {
        (guid(tenant, "table"), guid(tenant, "report"), "depends-on", False)
    }


def test_an_unknown_end_holds_a_place_that_a_source_fills(
    core: Core, system: Core, tenant: Tenant
) -> None:
    tell(system, tenant, join("db/a", "db/b#email"))
    for name in ("db/a", "db/b", "db/b#email"):
        assert apply.read(core, tenant, name).asset_type == "placeholder"
    apply.seen(system, tenant, "db/a", asset_type="table", asset_name="A", at=START)
    filled = apply.read(core, tenant, "db/a")
    assert (filled.asset_type, filled.asset_name, filled.source) == ("table", "A", "crawler")
    assert (filled.layers, filled.version) == (0, 2)
    apply.gone(system, tenant, "db/a")
    assert apply.read(core, tenant, "db/a").deleted_by == "source"


def test_ends_may_be_ids_and_aliases(core: Core, system: Core, tenant: Tenant) -> None:
    apply.seen(system, tenant, "db/a", asset_id="own-a")
    apply.seen(system, tenant, "db/b")
    tell(system, tenant, join("own-a", str(guid(tenant, "db/b"))))
    assert live(core, tenant) == {
        (guid(tenant, "db/a"), guid(tenant, "db/b"), "derived-from", False)
    }


def test_an_id_that_no_asset_has_is_a_dead_letter(core: Core, system: Core, tenant: Tenant) -> None:
    other = new_tenant(core)
    apply.seen(system, other, "db/theirs")
    theirs = str(guid(other, "db/theirs"))
    [_, refused] = tell(system, tenant, join("db/a", "db/b"), join(theirs, "db/b"))
    [(cause, stage, reason)] = rows(
        core, tenant, "SELECT cause, stage, reason FROM dead_letter WHERE tenant = %s",
        tenant.number,
    )  # fmt: skip
    assert (cause, stage) == (refused, "merge")
    assert reason.startswith("from_name: is an id that no asset has")
    assert len(live(core, tenant)) == 1


def test_a_column_edge_implies_its_table_edge(core: Core, system: Core, tenant: Tenant) -> None:
    tell(system, tenant, join("db/a#x", "db/b#y"), join("db/a#z", "db/b#y"))
    a, b = guid(tenant, "db/a"), guid(tenant, "db/b")
    assert (a, b, "derived-from", True) in live(core, tenant)
    assert len(live(core, tenant)) == 3
    tell(system, tenant, join("db/a", "db/b"))
    assert (a, b, "derived-from", False) in live(core, tenant)
    assert (a, b, "derived-from", True) not in live(core, tenant)


def test_an_edge_lives_while_a_source_claims_it(core: Core, system: Core, tenant: Tenant) -> None:
    tell(system, tenant, join("db/a", "db/b", transformation="one"), source="one", at=START)
    later = START + timedelta(minutes=1)
    tell(system, tenant, join("db/a", "db/b"), source="two", at=later)
    tell(system, tenant, part("db/a", "db/b"), source="two", at=later + timedelta(minutes=1))
    assert len(live(core, tenant)) == 1
    tell(system, tenant, part("db/a", "db/b"), source="one", at=START + timedelta(seconds=1))
    assert live(core, tenant) == set()
    assert [kind for kind, _ in facts(core, tenant)] == ["EdgeCreated", "EdgeDeleted"]
    tell(system, tenant, join("db/a", "db/b"), source="one", at=later)
    assert [kind for kind, _ in facts(core, tenant)][-1] == "EdgeRestored"


def test_a_deleted_or_archived_asset_takes_its_edges_with_it(
    core: Core, system: Core, tenant: Tenant
) -> None:
    tell(system, tenant, join("db/a#x", "db/b#y"), join("db/b", "db/c"))
    apply.seen(system, tenant, "db/b", asset_type="table")
    assert len(live(core, tenant)) == 3
    apply.gone(system, tenant, "db/b")
    assert live(core, tenant) == set()
    apply.seen(system, tenant, "db/b", asset_type="table")
    assert len(live(core, tenant)) == 3


def test_a_job_replaces_what_it_said_before(core: Core, system: Core, tenant: Tenant) -> None:
    def state(minute: int, *pairs: tuple[str, str]) -> None:
        edges = [Edge(from_name=a, to_name=b) for a, b in pairs]
        said = LineageStated(job="air/flow", edges=edges)
        at = START + timedelta(minutes=minute)
        tell(system, tenant, said, source="job:air/flow", at=at)

    def pairs() -> set[tuple[UUID, UUID]]:
        return {(up, down) for up, down, _, _ in live(core, tenant)}

    tell(system, tenant, join("db/a", "db/b"), source="other")
    state(2, ("db/a", "db/b"), ("db/b", "db/c"))
    state(3, ("db/b", "db/c"), ("db/c", "db/d"))
    g = {name: guid(tenant, f"db/{name}") for name in "abcd"}
    assert pairs() == {(g["a"], g["b"]), (g["b"], g["c"]), (g["c"], g["d"])}
    state(1, ("db/a", "db/d"))
    state(2, ("db/a", "db/b"), ("db/b", "db/c"))
    assert pairs() == {(g["a"], g["b"]), (g["b"], g["c"]), (g["c"], g["d"])}
    tell(system, tenant, join("db/a", "db/d"), source="job:air/flow", at=START)
    assert len(pairs()) == 3
    state(4)
    assert pairs() == {(g["a"], g["b"])}


def test_another_tenants_edges_are_out_of_reach(core: Core, system: Core, tenant: Tenant) -> None:
    tell(system, tenant, join("db/a", "db/b"))
    other = new_tenant(core)
    assert rows(core, other, "SELECT id FROM edge") == []
    assert rows(core, other, "SELECT id FROM live_edge") == []
    tell(system, other, join("db/a", "db/b"))
    assert live(core, tenant) != live(core, other)
