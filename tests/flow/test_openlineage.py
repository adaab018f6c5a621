"""OpenLineage: what events say together, in whatever order they come."""

import itertools
import random
from uuid import UUID

import pytest

from lily.errors import NotFound
from lily.store import runs
from lily.store.sweep import sweep
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow.apply import read
from tests.flow.corridor import Corridor
from tests.flow.openlineage import RUN, SERVER, Told, columns, dataset, recorded, run_event

DIRECT, INFLUENCES = "derived-from", "influences"
A, B, C, D = (f"{SERVER}/shop.public.{name}" for name in "abcd")
CLIENT = "postgres://h:5432/sales.public"
DBT = "postgres://pg.local:5432/jaffle.public"
EXPLICIT = {
    (f"{DBT}.stg_customers", f"{DBT}.explicit_cols", DIRECT),
    (f"{DBT}.stg_orders", f"{DBT}.explicit_cols", DIRECT),
    (f"{DBT}.stg_customers#customer_id", f"{DBT}.explicit_cols#customer_id", DIRECT),
    (f"{DBT}.stg_customers#first_name", f"{DBT}.explicit_cols#given_name", DIRECT),
    (f"{DBT}.stg_orders#order_id", f"{DBT}.explicit_cols#order_id", DIRECT),
    (f"{DBT}.stg_orders#status", f"{DBT}.explicit_cols#order_status", DIRECT),
}
AUDIT = "postgres://pg.local:5432/jaffle.public_dbt_test__audit.not_null_stg_customers_customer_id"


@pytest.fixture
def told(core: Core, corridor: Corridor, tenant: Tenant) -> Told:
    return Told(core, corridor, tenant)


def test_the_recorded_client_makes_exactly_this_graph(told: Told) -> None:
    told.tell(*recorded("python"))
    assert told.edges() == {
        (f"{CLIENT}.customers", f"{CLIENT}.agg", DIRECT): (None, False),
        (f"{CLIENT}.customers#email", f"{CLIENT}.agg#email_hash", DIRECT): ("TRANSFORMATION", True),
    }
    assert told.assets() == {
        "job:lily/etl": ("job", [], None),
        f"{CLIENT}.customers": ("dataset", [], None),
        f"{CLIENT}.customers#email": ("column", [], None),
        f"{CLIENT}.agg": ("dataset", [], None),
        f"{CLIENT}.agg#email_hash": ("column", ["PII"], None),
    }
    customers = read(told.core, told.tenant, f"{CLIENT}.customers")
    [assertion] = customers.metadata["data_quality_assertions"]
    assert (assertion["assertion"], assertion["success"]) == ("not_null", False)


def test_a_recorded_dbt_run_makes_exactly_this_graph(told: Told) -> None:
    told.tell(*recorded("dbt"), together=True)
    assert set(told.edges()) == EXPLICIT | {(f"{DBT}.stg_customers", AUDIT, DIRECT)}
    # What failed is a job and a run, but neither a table nor lineage.
    assert f"{DBT}.broken" not in told.assets()
    assert told.assets()["job:jaffle/model.jaffle_shop.broken"][0] == "job"
    with told.core.database.unit(told.tenant) as unit:
        [failed] = runs.page(unit, "jaffle", "model.jaffle_shop.broken", "FAIL", None, 10)
    assert 'column "nope" does not exist' in (failed.error or "")
    assert failed.parent is not None
    assert failed.parent["job"] == {"namespace": "jaffle", "name": "dbt-run-jaffle_shop"}


@pytest.mark.parametrize("seed", range(3))
def test_order_and_repetition_do_not_change_the_graph(
    core: Core, corridor: Corridor, told: Told, seed: int
) -> None:
    events = recorded("dbt") + recorded("python")
    told.tell(*events, together=True)
    chance = random.Random(seed)
    shuffled = Told(core, corridor, new_tenant(core))
    mixed = events + chance.sample(events, 6)
    chance.shuffle(mixed)
    shuffled.tell(*mixed, together=seed == 0)
    assert shuffled.edges() == told.edges()
    assert shuffled.assets() == told.assets()


def test_every_order_of_a_runs_events_ends_the_same(core: Core, corridor: Corridor) -> None:
    events = [
        run_event("START", 1, ["shop.public.a"], ["shop.public.c"]),
        run_event("RUNNING", 2, ["shop.public.b"]),
        run_event("COMPLETE", 3),
    ]
    for order in itertools.permutations(events):
        told = Told(core, corridor, new_tenant(core))
        told.tell(*order)
        assert set(told.edges()) == {(A, C, DIRECT), (B, C, DIRECT)}
        assert told.datasets() == {A, B, C}
        run = told.run()
        assert (run.state, run.started_at, run.ended_at) == (
            "COMPLETE",
            run.started_at,
            run.updated_at,
        )
        assert [each["qualified_name"] for each in run.inputs] == [A, B]


def test_a_run_that_has_not_completed_says_nothing(told: Told) -> None:
    told.tell(run_event("START", 1, ["shop.public.a"], ["shop.public.b"]))
    assert told.edges() == {}
    assert told.datasets() == set()
    assert told.run().state == "START"
    told.tell(run_event("FAIL", 2, errorMessage={"message": "disk full"}))
    assert told.edges() == {}
    assert (told.run().state, told.run().error) == ("FAIL", "disk full")


def test_a_failed_run_leaves_what_the_job_said_before(told: Told) -> None:
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"]))
    told.tell(run_event("START", 2, ["shop.public.c"], ["shop.public.b"], run=2))
    told.tell(run_event("FAIL", 3, ["shop.public.c"], ["shop.public.b"], run=2))
    told.tell(run_event("ABORT", 4, ["shop.public.c"], ["shop.public.b"], run=3))
    assert set(told.edges()) == {(A, B, DIRECT)}


def test_the_newest_completed_run_replaces_what_the_job_said(told: Told) -> None:
    told.tell(run_event("COMPLETE", 10, ["shop.public.a"], ["shop.public.c"]))
    told.tell(run_event("COMPLETE", 20, ["shop.public.b"], ["shop.public.c"], run=2))
    assert set(told.edges()) == {(B, C, DIRECT)}
    # Late: an older run of the same job, and another event of it.
    told.tell(run_event("COMPLETE", 15, ["shop.public.d"], ["shop.public.c"], run=3))
    told.tell(run_event("RUNNING", 5, ["shop.public.d"], run=1))
    assert set(told.edges()) == {(B, C, DIRECT)}


def test_another_job_keeps_an_edge_that_one_no_longer_says(told: Told) -> None:
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"], job="one"))
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"], run=2, job="other"))
    told.tell(run_event("COMPLETE", 2, ["shop.public.c"], ["shop.public.b"], run=3, job="one"))
    assert set(told.edges()) == {(A, B, DIRECT), (C, B, DIRECT)}


def test_a_bare_completion_does_not_take_back_lineage(told: Told) -> None:
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"]))
    told.tell(run_event("COMPLETE", 2, run=2))
    assert set(told.edges()) == {(A, B, DIRECT)}


def test_a_job_event_counts_at_once_and_replaces(told: Told) -> None:
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"]))
    event = run_event("", 5, ["shop.public.c"], ["shop.public.b"])
    told.tell({key: value for key, value in event.items() if key not in ("run", "eventType")})
    assert set(told.edges()) == {(C, B, DIRECT)}


def test_masking_and_influence_are_kept_apart_from_plain_copies(told: Told) -> None:
    facet = columns(
        x=[("shop.public.a", "x", {"type": "DIRECT", "subtype": "IDENTITY"})],
        y=[("shop.public.a", "y", {"type": "DIRECT", "description": "sha256(y)", "masking": True})],
        z=[("shop.public.a", "z", {"type": "INDIRECT", "subtype": "SORT"})],
    )
    facet["dataset"] = [{"namespace": SERVER, "name": "shop.public.a", "field": "w"}]
    output = dataset("shop.public.b", columnLineage=facet)
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], [output]))
    assert told.edges() == {
        (A, B, DIRECT): (None, False),
        (A, B, INFLUENCES): (None, False),
        (f"{A}#x", f"{B}#x", DIRECT): (None, False),
        (f"{A}#y", f"{B}#y", DIRECT): ("sha256(y)", True),
        (f"{A}#z", f"{B}#z", INFLUENCES): ("SORT", False),
        (f"{A}#w", B, INFLUENCES): (None, False),
    }


def test_facets_become_what_everybody_sees(told: Told) -> None:
    output = dataset(
        "shop.public.b",
        datasetType={"datasetType": "VIEW"},
        documentation={"description": "Everybody we sell to."},
        ownership={"owners": [{"name": "ann", "type": "OWNER"}]},
        tags={"tags": [{"key": "tier", "value": "gold"}, {"key": "pii", "field": "mail"}]},
        schema={
            "fields": [
                {"name": "mail", "type": "text", "description": "Where to write."},
                {"name": "home", "type": "struct", "fields": [{"name": "city", "type": "text"}]},
            ]
        },
        iceberg={"_producer": "p", "snapshot": 7},
    )
    told.tell(run_event("COMPLETE", 1, [], [output]))
    asset = read(told.core, told.tenant, B)
    assert (asset.asset_type, asset.description) == ("view", "Everybody we sell to.")
    assert (asset.asset_owner, asset.tags) == ("ann", ["tier:gold"])
    assert asset.metadata["openlineage.iceberg"] == {"snapshot": 7}
    found = told.assets()
    assert found[f"{B}#mail"] == ("column", ["PII"], "Where to write.")
    assert found[f"{B}#home.city"] == ("column", [], None)


def test_a_crawler_knows_better_what_a_dataset_is(told: Told, system: Core) -> None:
    from tests.flow.apply import ago, seen

    seen(system, told.tenant, A, asset_type="view", asset_name="a", at=ago(days=9))
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"]))
    assert read(told.core, told.tenant, A).asset_type == "view"
    assert read(told.core, told.tenant, B).asset_type == "dataset"


def test_symlinks_are_other_names_of_a_dataset_and_its_columns(told: Told) -> None:
    link = {"identifiers": [{"namespace": "hive://meta", "name": "shop.a", "type": "TABLE"}]}
    told.tell(run_event("COMPLETE", 1, [dataset("shop.public.a", symlinks=link)]))
    hive = {"namespace": "hive://meta", "name": "shop.a"}
    facet = {"fields": {"y": {"inputFields": [{**hive, "field": "x"}]}}}
    schema = {"fields": [{"name": "x", "type": "int"}]}
    told.tell(
        run_event(
            "COMPLETE",
            2,
            [{**hive, "facets": {"schema": schema}}],
            [dataset("shop.public.b", columnLineage=facet)],
            run=2,
            job="other",
        )
    )
    assert set(told.edges()) == {(A, B, DIRECT), (f"{A}#x", f"{B}#y", DIRECT)}
    assert told.datasets() == {A, B}
    assert read(told.core, told.tenant, "hive://meta/shop.a").qualified_name == A


def test_a_dropped_dataset_is_gone_and_a_renamed_one_has_its_new_name(told: Told) -> None:
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"]))
    old = {"namespace": SERVER, "name": "shop.public.b"}
    change = {"lifecycleStateChange": "RENAME", "previousIdentifier": old}
    renamed = dataset("shop.public.c", lifecycleStateChange=change)
    told.tell(run_event("COMPLETE", 2, [], [renamed], run=2, job="rename"))
    assert told.datasets() == {A, C}
    dropped = dataset("shop.public.a", lifecycleStateChange={"lifecycleStateChange": "DROP"})
    told.tell(run_event("COMPLETE", 3, [], [dropped], run=3, job="drop"))
    assert told.datasets() == {C}
    assert told.edges() == {}


def test_names_meet_those_of_the_crawlers(told: Told) -> None:
    for namespace in ("postgres://DB:5432", "postgresql://db", "postgres://db:5432/"):
        event = run_event("COMPLETE", 1, [], [{"namespace": namespace, "name": "shop.public.a"}])
        told.tell(event)
    assert told.datasets() == {A}


def test_a_run_of_another_tenant_does_not_exist(told: Told, core: Core) -> None:
    told.tell(run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"]))
    run = told.run()
    stranger = new_tenant(core)
    with core.database.unit(stranger) as unit:
        with pytest.raises(NotFound):
            runs.get(unit, run.id)
        assert runs.page(unit, None, None, None, None, 10) == []


def test_the_same_run_id_in_two_tenants_is_two_runs(
    told: Told, core: Core, corridor: Corridor
) -> None:
    other = Told(core, corridor, new_tenant(core))
    told.tell(run_event("START", 1, ["shop.public.a"], ["shop.public.b"]))
    other.tell(run_event("COMPLETE", 2, ["shop.public.c"], ["shop.public.d"]))
    assert told.edges() == {}
    assert set(other.edges()) == {(C, D, DIRECT)}
    assert isinstance(told.run().id, UUID)
    assert told.run().state == "START"


def test_a_run_is_forgotten_after_ninety_days_and_its_lineage_stays(
    system: Core, told: Told
) -> None:
    told.tell(run_event("COMPLETE", 1, ["a"], ["b"]), run_event("COMPLETE", 2, ["a"], ["c"], run=2))
    graph = told.edges()
    with system.database.cell("home", [told.tenant.number]) as conn:
        conn.execute("UPDATE run SET updated_at = now() WHERE tenant = %s", [told.tenant.number])
        old = "UPDATE run SET updated_at = now() - interval '91 days' WHERE id = %s"
        conn.execute(old, [f"{RUN}1"])
    sweep(system.database)
    with pytest.raises(NotFound):
        told.run(1)
    assert told.run(2).state == "COMPLETE"
    assert told.edges() == graph
