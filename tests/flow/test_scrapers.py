"""A scraper that is bound speaks of its columns only, whichever way it comes in."""

from uuid import uuid4

from lily.errors import NotFound
from lily.events.lineage import EdgeSeen
from lily.events.observations import AssetGone, AssetSeen
from lily.identity.actor import Actor
from lily.store import circles, jobs, scrapers
from lily.store.bulk import Place
from lily.store.circles import Circle
from lily.store.scrapers import Bounds, ScraperPolicy
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow.apply import read
from tests.flow.corridor import Corridor, append
from tests.flow.test_bulk_store import Load

TESTER = Actor("tester", "test")


def bind(core: Core, tenant: Tenant, group: str, *columns: str) -> ScraperPolicy:
    policy = ScraperPolicy(uuid4(), group, list(columns), core.clock.now())
    with core.database.unit(tenant) as unit:
        scrapers.create(unit, policy, TESTER)
    return policy


def is_there(core: Core, tenant: Tenant, name: str) -> bool:
    try:
        return bool(read(core, tenant, name))
    except NotFound:
        return False


def letters(core: Core, tenant: Tenant) -> list[tuple[str, str]]:
    with core.database.unit(tenant) as unit:
        found = unit.conn.execute(
            "SELECT key, reason FROM dead_letter WHERE tenant = %s ORDER BY key", [tenant.number]
        )
        return [(key, reason) for key, reason in found]


def test_a_column_outside_is_refused_with_a_dead_letter(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor
) -> None:
    bind(core, tenant, "crm", "id", "*.public.*#name")
    said = [AssetSeen(qualified_name=name) for name in
            ("t", "t#id", "t#email", "db.public.p#name", "db.secret.p#name")]  # fmt: skip
    append(core, tenant, *said, source="crm")
    append(core, tenant, AssetSeen(qualified_name="t#phone"), source="another")
    corridor.run()
    there = [name for name in ("t", "t#id", "t#email", "db.public.p#name", "db.secret.p#name",
                               "t#phone") if is_there(core, tenant, name)]  # fmt: skip
    assert there == ["t", "t#id", "db.public.p#name", "t#phone"]
    parked = letters(core, tenant)
    assert [key for key, _ in parked] == ["db.secret.p#name", "t#email"]
    assert "'crm' may not speak of the column 'email'" in parked[1][1]


def test_a_member_of_a_bound_group_is_bound_until_the_policy_is_gone(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor
) -> None:
    now = core.clock.now()
    group = Circle("group", "scrapers", "", ["nightly"], 1, now, now)
    with core.database.unit(tenant) as unit:
        circles.put(unit, group, None, TESTER)
    policy = bind(core, tenant, "scrapers", "id")
    append(core, tenant, AssetSeen(qualified_name="t#email"), source="nightly")
    corridor.run()
    assert not is_there(core, tenant, "t#email")
    with core.database.unit(tenant) as unit:
        scrapers.delete(unit, policy.id, TESTER, now)
    append(core, tenant, AssetSeen(qualified_name="t#email"), source="nightly")
    corridor.run()
    assert is_there(core, tenant, "t#email")


def test_what_a_bound_source_says_is_gone_or_joined_is_refused_too(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor
) -> None:
    append(core, tenant, AssetSeen(qualified_name="t#email"), source="crm")
    corridor.run()
    bind(core, tenant, "crm", "id")
    append(core, tenant, AssetGone(qualified_name="t#email"), source="crm")
    edge = EdgeSeen(from_name="t#id", to_name="copy#email")
    append(core, tenant, edge, source="crm")
    corridor.run()
    assert read(core, tenant, "t#email").deleted_by is None
    assert not is_there(core, tenant, "copy#email")
    assert len(letters(core, tenant)) == 2


def test_a_line_of_a_file_outside_is_refused_by_its_number(
    core: Core, system: Core, tenant: Tenant
) -> None:
    bind(core, tenant, "crawler", "id")
    load = Load(core, system, tenant)
    load.loader.done(Place(tenant, load.id, load.runner, "fields", 1))
    chunk = load.chunk([AssetSeen(qualified_name="t#id"), AssetSeen(qualified_name="t#email")])
    found = load.apply(chunk, lane="fields")
    load.loader.close()
    assert found is not None and found.created == 1
    with core.database.unit(tenant) as unit:
        [refused] = jobs.errors(unit, load.id, 0, 10)
    assert refused.line == 2 and "may not speak of" in refused.reason
    assert is_there(core, tenant, "t#id") and not is_there(core, tenant, "t#email")


def test_another_tenant_is_not_bound(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor
) -> None:
    other = new_tenant(core)
    bind(core, tenant, "crm")
    for each in (tenant, other):
        append(core, each, AssetSeen(qualified_name="t#email"), source="crm")
    corridor.run()
    assert (is_there(core, tenant, "t#email"), is_there(core, other, "t#email")) == (False, True)


def test_only_columns_are_bound() -> None:
    bounds = Bounds({"crm": ["id"]})
    assert bounds.outside("crm", AssetSeen(qualified_name="t")) is None
    assert bounds.outside("crm", AssetSeen(qualified_name="t#id")) is None
    assert bounds.outside("crm", AssetSeen(qualified_name="t#ID")) is not None
    assert bounds.outside("dbt", AssetSeen(qualified_name="t#email")) is None
