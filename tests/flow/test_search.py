"""Search against a real store: what is found, in which order, page by page, by whom."""

from typing import Any

import psycopg
import pytest

from lily.assets.query import parse
from lily.events.observations import AssetGone, AssetSeen
from lily.store.search import Found, search
from lily.store.tidying import MANY, Tidying, tidy
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow.apply import apply


class Estate:
    """One tenant's assets, put there as the pipeline does."""

    def __init__(self, core: Core, system: Core, tenant: Tenant) -> None:
        self.core, self.system, self.tenant = core, system, tenant

    def put(self, *names: str, **fields: Any) -> None:
        seen = [AssetSeen(qualified_name=name, **fields) for name in names]
        apply(self.system, self.tenant, seen)

    def gone(self, *names: str) -> None:
        apply(self.system, self.tenant, [AssetGone(qualified_name=name) for name in names])

    def sql(self, statement: Any, *values: Any) -> None:
        with self.core.database.unit(self.tenant) as unit:
            unit.conn.execute(statement, [*values, self.tenant.number])

    def search(self, *given: tuple[str, str], **single: str) -> Found:
        with self.core.database.unit(self.tenant) as unit:
            return search(unit, parse([*single.items(), *given]))

    def names(self, *given: tuple[str, str], **single: str) -> list[str]:
        return [asset.asset_name for asset in self.search(*given, **single).assets]

    def walk(self, limit: int, **single: str) -> list[str]:
        """The qualified names of all pages."""
        seen: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = self.search(**single, limit=str(limit), **after)
            assert len(page.assets) == limit or page.next is None
            seen += [asset.qualified_name for asset in page.assets]
            if page.next is None:
                return seen
            after = {"after": page.next}


@pytest.fixture
def estate(core: Core, system: Core, tenant: Tenant) -> Estate:
    return Estate(core, system, tenant)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("customer_orders", "orders"),
        ("customer_orders", "customer_orders"),
        ("customer_orders", "customerOrders"),
        ("customerOrders", "customer orders"),
        ("customerOrders", "customerord"),
        ("sales.customer", "customer"),
        ("sales.customer", "CUST"),
        ("HTTPServerLog", "server"),
        ("revenue2026", "2026"),
        ("Größe der Straße", "straße größe"),
        ("日本語テーブル", "日本語"),
        ("o'reilly", "o'reilly"),
        ("dim customer", "cust di"),
    ],
)
def test_an_asset_is_found_by_its_words(estate: Estate, name: str, asked: str) -> None:
    estate.put("db/one", asset_name=name)
    estate.put("db/two", asset_name="something else")
    assert estate.names(q=asked) == [name]


def test_every_word_must_match_somewhere(estate: Estate) -> None:
    estate.put("shop/crm.people", asset_name="people", description="Everybody we know")
    assert estate.names(q="people crm everybody") == ["people"]
    assert estate.names(q="people crm nobody") == []


@pytest.mark.parametrize("q", ["&", "|", "!", "()", ":*", "<->", "'", "\\", "\x00", "'; DROP --"])
def test_marks_and_operators_are_harmless(estate: Estate, q: str) -> None:
    estate.put("db/people", asset_name="people")
    assert estate.search(q=q).total == 0
    assert estate.names(q=f"{q} people{q}") in (["people"], [])
    assert estate.names(tag=q + "x") == []
    assert estate.names(("metadata.a'\\" + q.strip("\x00"), q + "x")) == []


def test_exact_names_come_first_then_names_then_paths_then_descriptions(estate: Estate) -> None:
    estate.put("d/order_lines", asset_name="order_lines")
    estate.put("d/order_lines#order", asset_name="order")
    estate.put("d/told", asset_name="told", description="about an order")
    estate.put("order/path", asset_name="path")
    estate.put("d/order", asset_name="Order")
    estate.put("d/order_lines#order_no", asset_name="order_no")
    assert estate.names(q="order") == ["Order", "order", "order_lines", "order_no", "path", "told"]


def test_filters_combine(estate: Estate) -> None:
    estate.put(
        "pg/people", asset_name="people", asset_type="table", data_source="postgres",
        asset_owner="ada@example.com", tags=["PII", "gold"], business_terms=["Net revenue"],
        metadata={"tier": 3, "hot": True, "team": "it's \\ us", "ratio": 0.5},
    )  # fmt: skip
    estate.put("my/orders", asset_name="orders", asset_type="view", data_source="mysql")
    estate.put("pg/visits", asset_name="visits", asset_type="table", tags=["gold"])
    both = ["orders", "people"]
    assert sorted(estate.names(("asset_type", "view"), ("data_source", "postgres"))) == []
    assert sorted(estate.names(("data_source", "mysql"), ("data_source", "Postgres"))) == both
    assert estate.names(("tag", "pii"), ("tag", "gold")) == ["people"]
    assert sorted(estate.names(tag="gold")) == ["people", "visits"]
    assert estate.names(owner="Ada@Example.com") == ["people"]
    assert estate.names(business_term="net revenue", asset_type="table") == ["people"]
    for key, value in {"tier": "3", "hot": "true", "team": "it's \\ us", "ratio": "0.5"}.items():
        assert estate.names((f"metadata.{key}", value)) == ["people"]
    assert estate.names(("metadata.tier", "3"), ("metadata.hot", "false")) == []
    assert estate.names(q="peo", tag="gold", asset_type="table") == ["people"]
    assert estate.names(q="peo", tag="gold", asset_type="view") == []


def test_updated_since_looks_at_the_last_change(estate: Estate) -> None:
    estate.put("db/old", "db/new")
    estate.sql(
        "UPDATE asset SET updated_at = '2026-02-01Z' WHERE qualified_name = 'db/old'"
        " AND tenant = %s"
    )
    found = estate.search(updated_since="2026-02-01T00:00:01Z")
    assert [asset.qualified_name for asset in found.assets] == ["db/new"]


def test_deleted_and_archived_assets_and_their_fields_are_out_of_sight(estate: Estate) -> None:
    estate.put("db/kept", "db/dropped", "db/archived", asset_type="table")
    fields = [f"db/{name}#id" for name in ("kept", "dropped", "archived")]
    estate.put(*fields, asset_type="column", asset_name="id")
    estate.gone("db/dropped")
    estate.sql(
        "UPDATE asset SET archived_at = now() WHERE qualified_name = 'db/archived' AND tenant = %s"
    )
    assert estate.walk(1) == ["db/kept", "db/kept#id"]
    assert estate.walk(1, deleted="true") == ["db/dropped", "db/dropped#id"]
    assert sorted(estate.walk(1, deleted="any")) == [
        "db/dropped", "db/dropped#id", "db/kept", "db/kept#id",
    ]  # fmt: skip
    assert estate.search(q="id").total == 1
    assert estate.search(q="id", deleted="any").total == 2


def test_facets_count_what_was_found(estate: Estate) -> None:
    estate.put("a", "b", asset_type="table", tags=["PII"], data_source="pg", asset_owner="ada")
    estate.put("c", asset_type="view", tags=["PII", "gold"], data_source="my")
    found = estate.search()
    assert found.facets == {
        "asset_type": {"table": 2, "view": 1},
        "tag": {"PII": 3, "gold": 1},
        "data_source": {"pg": 2, "my": 1},
        "owner": {"ada": 2},
    }
    assert (found.total, found.total_is_exact) == (3, True)
    assert estate.search(tag="gold").facets["asset_type"] == {"view": 1}


@pytest.fixture(scope="module")
def crowd(core: Core, system: Core) -> Estate:
    """3,000 assets: too many to rank them all, many with the same name."""
    made = Estate(core, system, new_tenant(core))
    made.put(*(f"big/crowd.{n}" for n in range(1000)), asset_name="crowd", tags=["half"])
    made.put(*(f"big/other.{n}" for n in range(600)), asset_name="other crowd")
    made.put(*(f"big/crowd.{n}#id" for n in range(1400)), asset_name="id", asset_type="column")
    return made


@pytest.mark.parametrize("limit", [37, 200])
def test_walking_a_long_list_meets_every_asset_once(crowd: Estate, limit: int) -> None:
    names = crowd.walk(limit, q="crowd")
    assert len(names) == len(set(names)) == 3000
    assert all("#" not in name and "other" not in name for name in names[:1000])
    assert all("other" in name for name in names[1000:1600])
    assert len(set(crowd.walk(limit))) == 3000


def test_walking_ranked_pages_meets_every_asset_once_despite_ties(crowd: Estate) -> None:
    names = crowd.walk(33, q="crowd", tag="half")
    assert len(names) == len(set(names)) == 1000
    assert crowd.search(q="crowd", tag="half").total_is_exact


def test_a_total_is_exact_to_a_thousand_and_then_at_least(crowd: Estate) -> None:
    assert crowd.search(tag="half").total == 1000
    found = crowd.search(q="crowd")
    assert found.total >= 1000
    assert not found.total_is_exact
    assert sum(found.facets["asset_type"].values()) >= 1000


def test_pages_stay_complete_while_others_write(crowd: Estate) -> None:
    first = crowd.search(q="crowd", limit="200")
    assert first.next is not None
    crowd.put("big/newcomer", asset_name="newcomer")
    rest, after = [asset.qualified_name for asset in first.assets], first.next
    while after:
        page = crowd.search(q="crowd", limit="200", after=after)
        rest += [asset.qualified_name for asset in page.assets]
        after = page.next or ""
    assert len(rest) == len(set(rest)) == 3000


def test_another_tenants_assets_are_neither_found_nor_counted(
    core: Core, system: Core, estate: Estate
) -> None:
    other = Estate(core, system, new_tenant(core))
    other.put("db/secret", asset_name="secret", tags=["PII"], asset_owner="eve")
    for asked in ({"q": "secret"}, {"tag": "PII"}, {"owner": "eve"}, {}, {"deleted": "any"}):
        found = estate.search(**asked)
        assert (found.assets, found.total, found.next) == ([], 0, None)
        assert not any(found.facets.values())
    assert other.names(q="secret") == ["secret"]


def test_the_search_functions_cannot_be_used_without_a_tenant(core: Core, system: Core) -> None:
    call = "SELECT search(null, null, null, null, null, 'any', null, null, null, null, 5)"
    with core.database.home() as conn, pytest.raises(psycopg.Error):
        conn.execute(call)
    with system.database.home() as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(call)


def test_only_the_outer_function_may_be_called(core: Core, tenant: Tenant) -> None:
    calls = (
        "SELECT search_condition(null, null, 'any')",
        "SELECT search_estimate('true', null, null)",
        "SELECT search_section('true', 'core', null, null, gen_random_uuid(), 5)",
    )
    for call in calls:
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            core.database.unit(tenant) as unit,
        ):
            unit.conn.execute(call)


def test_the_functions_take_no_tenant(home: str) -> None:
    with psycopg.connect(home) as conn:
        named = conn.execute(
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'lily'::regnamespace"
            " AND proname LIKE 'search%' AND 'tenant' = ANY (proargnames)"
        ).fetchone()
    assert named == (0,)


def test_new_words_are_found_before_and_after_they_are_sorted_in(estate: Estate) -> None:
    tidy(estate.system.database, "home")
    estate.put("db/harbour", "db/harbour_master")
    assert len(estate.names(q="harbour")) == 2
    assert tidy(estate.system.database, "home") > 0
    assert tidy(estate.system.database, "home") == 0
    estate.put("db/harbour_fee")
    assert sorted(estate.names(q="harbour")) == ["harbour", "harbour_fee", "harbour_master"]


def test_words_are_sorted_in_when_much_was_written(estate: Estate) -> None:
    tidying = Tidying(estate.system.database)
    tidy(estate.system.database, "home")
    estate.put("db/lighthouse")
    tidying.look(MANY - 1)
    assert tidy(estate.system.database, "home") > 0  # it had been left alone
    estate.put("db/lighthouse_2")
    tidying.look(MANY)
    assert tidy(estate.system.database, "home") == 0


def test_a_description_is_found_by_its_words_but_for_those_that_tell_nothing(
    estate: Estate,
) -> None:
    estate.put("db/t1", description="Only for those who pay before the harvest")
    assert estate.names(q="only those who pay before harvest") == ["t1"]
    assert estate.names(q="pay harvests") == []
