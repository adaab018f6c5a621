"""From a tag to what an engine denies, and back: the reconciler on a real warehouse."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest

from lily import plugins
from lily.access.model import Mask, Policy, Resource, Subject
from lily.api.app import create_app
from lily.cli.protections import lines
from lily.connectors.postgres import Postgres
from lily.identity.actor import Actor
from lily.store import circles, connections, feed, policies, propagation, protections
from lily.store.circles import Circle
from lily.store.connections import Connection
from lily.store.database import Unit
from lily.store.embedded import Server
from lily.store.protections import Protection
from lily.types import Tenant
from lily.wiring import Core, services
from lily.workers.keeper import Keeper
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import gone, seen
from tests.flow.lineage import join, tell
from tests.flow.warehouse import Warehouse
from tests.serving import serving
from tests.waiting import until

TESTER = Actor("tester", "test")


class Place:
    """A tenant, its warehouse, and whoever keeps it."""

    def __init__(self, core: Core, system: Core, server: Server) -> None:
        self.core, self.system = core, system
        self.tenant: Tenant = tenant_with_admin(core)
        self.house = Warehouse(server)
        self.house.run(f"GRANT SELECT ON s.people TO {self.house.role('analyst')}")
        self.id = uuid4()
        self.keeper: Keeper
        self.mode("enforce", first=True)
        self.see()

    def mode(self, mode: str, first: bool = False, **others: Any) -> None:
        options = {"url": self.house.url, "server": "warehouse:5432", "mode": mode, **others}
        public, secrets = plugins.split(plugins.check("enforcer", "postgres", options))
        assert secrets is not None
        sealed = self.core.seal.seal(secrets, connections.about(self.tenant.number, self.id))
        now = self.core.clock.now()
        wanted = Connection(
            self.id, "warehouse", "postgres", ["enforcer"], public, sealed, None, 0, True, 1,
            now, now,
        )  # fmt: skip
        with self.core.database.unit(self.tenant) as unit:
            if first:
                connections.create(unit, wanted, TESTER)
            else:
                before = connections.locked(unit, self.id, None)
                connections.change(unit, before, wanted, TESTER)
            self.connection = connections.get(unit, self.id)
        if not first:
            self.keeper.close()
        self.keeper = Keeper(self.system, self.tenant, self.connection)

    def see(self, *tags: str, table: str = "people", columns: str = "id email country") -> None:
        """A crawl sees the table; the e-mail address bears these tags."""
        name = self.house.name(table)
        seen(self.system, self.tenant, name, asset_type="table")
        for column in columns.split():
            seen(
                self.system, self.tenant, f"{name}#{column}", asset_name=column,
                asset_type="column", tags=list(tags) if column == "email" else [],
            )  # fmt: skip

    def step(self) -> None:
        with self.system.database.cell(self.tenant.cell, [self.tenant.number]) as conn:
            end = feed.head(Unit(conn, self.tenant))
            conn.execute(
                "INSERT INTO consumer (name, tenant, position) VALUES (%s, %s, %s)"
                " ON CONFLICT (name, tenant) DO UPDATE SET position = excluded.position",
                [propagation.CONSUMER, self.tenant.number, end],
            )
        self.keeper.step()

    def protection(self, table: str = "people") -> Protection | None:
        with self.core.database.unit(self.tenant) as unit:
            row = unit.conn.execute(
                f"SELECT {protections.COLUMNS} FROM protection WHERE tenant = %s AND object = %s",
                [self.tenant.number, self.house.name(table)],
            ).fetchone()
        return Protection(*row) if row else None

    def state(self) -> str | None:
        found = self.protection()
        return found.state if found else None

    def facts(self) -> list[str]:
        with self.core.database.unit(self.tenant) as unit:
            links = feed.after(unit, 0, 1000)
        return [link.kind for link in links if link.kind.startswith("Protection")]

    def policy(self, **fields: Any) -> UUID:
        given: dict[str, Any] = {
            "id": uuid4(), "name": "p", "effect": "deny", "action": "READ",
            "subjects": (Subject("everyone"),), "resource": Resource("tag", "PII"),
        }  # fmt: skip
        policy = Policy(**{**given, **fields})
        with self.core.database.unit(self.tenant) as unit:
            policies.create(unit, policy, TESTER, self.core.clock.now())
        return policy.id


@pytest.fixture
def place(core: Core, system: Core, server: Server) -> Iterator[Place]:
    made = Place(core, system, server)
    yield made
    made.keeper.close()
    made.house.root.close()


def test_a_tag_is_enforced_verified_healed_and_undone(place: Place) -> None:
    house, rights = place.house, place.house.rights()
    place.step()
    assert (place.state(), house.reads("analyst", "email")) == (None, [("a@x.io",), ("b@x.io",)])
    place.see("PII")
    place.step()
    assert (place.state(), house.reads("analyst", "email")) == ("verified", None)
    assert house.reads("analyst", "id") == [(1,), (2,)]
    kept = place.protection()
    assert kept is not None and kept.plan and list(kept.columns) == ["email"]
    house.run(f"GRANT SELECT ON s.people TO {house.role('analyst')}")
    place.keeper.sweep()
    assert (place.state(), house.reads("analyst", "email")) == ("verified", None)
    place.see()
    place.step()
    assert (place.state(), house.rights()) == (None, rights)
    assert place.facts() == ["ProtectionVerified", "ProtectionDrifted", "ProtectionReleased"]


def test_observing_plans_and_touches_nothing(place: Place) -> None:
    place.mode("observe")
    rights = place.house.rights()
    place.see("PII")
    place.step()
    kept = place.protection()
    assert kept is not None
    assert (kept.state, place.house.rights()) == ("pending", rights)
    assert any(line.startswith("REVOKE SELECT") for line in kept.plan)
    place.mode("enforce")
    place.keeper.sweep()
    place.step()
    assert place.house.reads("analyst", "email") is None
    place.mode("release")
    place.keeper.sweep()
    assert (place.house.rights(), place.state()) == (rights, None)


def test_a_tag_above_reaches_every_column(place: Place) -> None:
    seen(place.system, place.tenant, place.house.name(), asset_type="table", tags=["GDPR"])
    place.step()
    for column in ("id", "email", "country"):
        assert place.house.reads("analyst", column) is None


def test_a_new_policy_and_a_new_member_count_at_once(place: Place) -> None:
    place.see("secret")
    place.step()
    assert place.house.reads("analyst", "email") is not None
    place.policy(resource=Resource("tag", "secret"), exempt_groups=("trusted",))
    place.step()
    assert place.house.reads("analyst", "email") is None
    now = place.core.clock.now()
    trusted = Circle("group", "trusted", "", [place.house.role("analyst")], 1, now, now)
    with place.core.database.unit(place.tenant) as unit:
        circles.put(unit, trusted, None, TESTER)
    place.step()
    assert place.house.reads("analyst", "email") is not None


def test_what_is_derived_is_protected_before_its_tags_arrive(place: Place) -> None:
    """Lineage is known, but nothing has travelled along it yet."""
    house = place.house
    house.run(
        "CREATE VIEW s.contacts AS SELECT id, email AS mail FROM s.people",
        f"GRANT SELECT ON s.contacts TO {house.role('analyst')}",
    )
    place.see("PII")
    place.see(table="contacts", columns="id mail")
    joined = join(f"{house.name()}#email", f"{house.name('contacts')}#mail")
    tell(place.system, place.tenant, joined)
    place.keeper.step()
    assert house.reads("analyst", "mail", "s.contacts") is None
    assert house.reads("analyst", "id", "s.contacts") == [(1,), (2,)]
    place.see()
    place.keeper.step()
    assert house.reads("analyst", "mail", "s.contacts") is not None
    place.see("PII")  # nothing but the source is told of it
    place.keeper.step()
    assert house.reads("analyst", "mail", "s.contacts") is None


def test_masks_are_shown_by_views_to_whom_the_table_is_denied(place: Place) -> None:
    house = place.house
    place.mode("enforce", masking="views")
    place.see("PII")
    place.policy(
        effect="mask", mask=Mask("partial"), subjects=(Subject("user", house.role("analyst")),),
        exempt_groups=("nobody",),
    )  # fmt: skip
    now = place.core.clock.now()
    readers = Circle("group", "pii_reader", "", [house.role("reader")], 1, now, now)
    house.run(f"GRANT SELECT ON s.people TO {house.role('team')}")
    with place.core.database.unit(place.tenant) as unit:
        circles.put(unit, readers, None, TESTER)
    place.step()
    assert place.state() == "verified"
    masked, rights = "masked.s__people", {"analyst": "email", "member": "email", "reader": "email"}
    assert {who: house.reads(who, f"id, {what}", masked) for who, what in rights.items()} == {
        "analyst": [(1, None), (2, None)],  # the default policy reveals less
        "member": [(1, None), (2, None)],
        "reader": [(1, "a@x.io"), (2, "b@x.io")],
    }
    assert house.reads("analyst", "count(*)", f"{masked} WHERE email = 'a@x.io'") == [(0,)]
    assert house.reads("analyst", "email") is None
    kept = place.protection()
    assert kept is not None and any("CREATE VIEW" in line for line in kept.plan)
    place.see()
    place.step()
    assert house.root.execute("SELECT to_regclass('masked.s__people')").fetchone() == (None,)
    assert house.reads("analyst", "email") == [("a@x.io",), ("b@x.io",)]


def test_a_table_is_kept_back_until_it_was_verified_once(place: Place) -> None:
    """From the moment it is made: in the same transaction, before anybody has seen it."""
    house = place.house
    place.step()
    place.mode("enforce", hold_until_verified=True, capture=True)
    options = {"url": house.url, "mode": "enforce", "hold_until_verified": True}
    trigger = Postgres(Postgres.Options.model_validate({**options, "capture": True}))
    trigger.install()
    analyst, reader = house.role("analyst"), house.role("reader")
    house.run(
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO {analyst}",
        "CREATE TABLE s.fresh AS SELECT * FROM s.people",
        "CREATE TABLE s.plain (id int)",
        f"GRANT SELECT ON s.fresh TO {reader} WITH GRANT OPTION",
    )
    assert [house.reads(who, "email", "s.fresh") for who in ("analyst", "reader")] == [None, None]
    assert house.reads("analyst", "id", "s.plain") is None
    place.see(table="fresh")
    joined = join(f"{house.name()}#email", f"{house.name('fresh')}#email")
    tell(place.system, place.tenant, joined)
    place.keeper.step()  # what lineage carries has not arrived
    assert house.reads("analyst", "id", "s.fresh") is None
    kept = place.protection("fresh")
    assert kept is not None and (kept.state, kept.verified_at) == ("pending", None)
    house.run(f"GRANT SELECT ON s.fresh TO {analyst}")
    assert house.reads("analyst", "id", "s.fresh") is None
    place.see("PII", table="fresh")
    place.see(table="plain", columns="id")

    with place.system.database.cell(place.tenant.cell) as conn:  # what others left in the log
        conn.execute(
            'UPDATE applied a SET position = greatest(position, (SELECT coalesce(max("offset"), 0)'
            " FROM log WHERE lane = a.lane))"
        )

    def verified() -> bool:
        place.step()
        found = [place.protection(table) for table in ("fresh", "plain")]
        return all(each is not None and each.state == "verified" for each in found)

    until(verified)
    assert house.reads("analyst", "email", "s.fresh") is None
    assert house.reads("reader", "country", "s.fresh") == [("DE",), ("FR",)]
    assert house.reads("analyst", "id", "s.plain") == []
    place.see(table="fresh")
    place.step()
    assert house.rights("s.fresh") == {
        (analyst, "SELECT", "*", False), (reader, "SELECT", "*", True),
    }  # fmt: skip
    house.run("CREATE TABLE s.last (id int)")
    assert house.reads("analyst", "id", "s.last") is None
    trigger.uninstall()
    assert house.reads("analyst", "id", "s.last") == []


def test_a_table_that_cannot_be_changed_fails_says_why_and_is_tried_again(place: Place) -> None:
    house = place.house
    place.see("PII")
    blocker = psycopg.connect(house.url)
    blocker.execute("SELECT pg_advisory_lock(hashtextextended('lily:s.people', 0))")
    place.step()
    kept = place.protection()
    assert kept is not None
    assert (kept.state, kept.attempts) == ("failed", 1)
    assert "could not be changed" in kept.reason
    blocker.close()
    place.keeper.sweep()
    assert place.state() == "verified"


def test_a_deleted_column_ends_its_protection(place: Place) -> None:
    place.see("PII")
    place.step()
    assert place.state() == "verified"
    place.house.run("ALTER TABLE s.people DROP email")
    gone(place.system, place.tenant, f"{place.house.name()}#email")
    place.step()
    assert place.state() is None
    assert place.house.rights() == {(place.house.role("analyst"), "SELECT", "*", False)}


def test_protections_are_told_per_asset_engine_and_as_a_report(place: Place) -> None:
    place.see("PII")
    place.step()
    seen(place.system, place.tenant, "elsewhere/users#phone", asset_type="column", tags=["GDPR"])
    wired = services(place.core)
    admin, viewer = (bearer(minted(wired, place.tenant, role)) for role in ("admin", "viewer"))
    table = quote(place.house.name(), safe="")
    with serving(create_app(wired)) as client:

        def get(path: str, headers: dict[str, str] = admin) -> Any:
            return client.get(f"/api/v1/protections{path}", headers=headers)

        [kept] = get("").json()["items"]
        assert (kept["state"], list(kept["columns"])) == ("verified", ["email"])
        assert get(f"?connection={place.id}&state=failed").json()["items"] == []
        assert get(f"/assets/{table}").json()["items"] == [kept]
        assert get(f"/assets/{table}%23email").json()["items"] == [kept]
        report = get("/report").json()
        [line] = report["items"]
        assert (line["column"], line["engine"], line["tags"]) == ("email", "postgres", ["PII"])
        assert any("superuser" in reason for reason in line["unenforceable"])
        assert report["uncovered"] == ["elsewhere/users#phone"]
        assert get("", viewer).status_code == 403
        place.house.run(f"GRANT SELECT ON s.people TO {place.house.role('analyst')}")
        path = f"/api/v1/protections/{place.id}/check"
        shown = client.post(f"{path}?dry_run=true", headers=admin)
        assert (shown.status_code, shown.json()["due"]) == (200, 1)
        assert shown.json()["plans"][0]["plan"][0].startswith("REVOKE SELECT")
        assert place.house.reads("analyst", "email") is not None
        asked = client.post(path, headers=admin)
        assert (asked.status_code, asked.json()) == (202, {"due": 1})
        place.step()
        assert place.house.reads("analyst", "email") is None
        stranger = bearer(minted(wired, tenant_with_admin(place.core), "admin"))
        assert get("", stranger).json()["items"] == []
        assert get(f"/assets/{table}", stranger).status_code == 404
        path = f"/api/v1/connections/{place.id}/release"
        assert client.post(path, headers=stranger).status_code == 404
        assert client.post(path, headers=viewer).status_code == 403
        assert client.post(path, headers=admin).json()["mode"] == "release"
    with place.core.database.unit(place.tenant) as unit:
        place.connection = connections.get(unit, place.id)
    place.keeper.close()
    place.keeper = Keeper(place.system, place.tenant, place.connection)
    place.keeper.sweep()
    assert place.house.reads("analyst", "email") is not None


def test_an_engine_that_is_only_planned_for_is_never_verified(place: Place) -> None:
    table = "snowflake://acme/SHOP.PUBLIC.PEOPLE"
    seen(place.system, place.tenant, table, asset_type="table")

    def see(*tags: str) -> None:
        seen(place.system, place.tenant, f"{table}#EMAIL", asset_name="EMAIL",
             asset_type="column", tags=list(tags))  # fmt: skip

    see()
    now = place.core.clock.now()
    made = Connection(
        uuid4(), "cloud", "snowflake", ["enforcer"],
        {"namespace": "snowflake://acme", "groups": {"pii_reader": "READERS"}},
        None, None, 0, True, 1, now, now,
    )  # fmt: skip
    with place.core.database.unit(place.tenant) as unit:
        connections.create(unit, made, TESTER)
        connection = connections.get(unit, made.id)
    keeper = Keeper(place.system, place.tenant, connection)

    def kept() -> Protection | None:
        keeper.step()
        with place.core.database.unit(place.tenant) as unit:
            found = protections.page(unit, made.id, [], None, 10)
        return found[0] if found else None

    assert kept() is None
    see("PII")
    planned = kept()
    assert planned is not None
    assert (planned.state, list(planned.columns)) == ("planned", ["EMAIL"])
    assert planned.exempt == {"EMAIL": ["READERS"]}
    assert " SET TAG " in planned.plan[-1] and planned.verified_at is None
    assert lines([msgspec.to_builtins(planned)] * 2)[-1].endswith(" = 'true';")
    see()
    undone = kept()
    assert undone is not None and undone.state == "planned"
    assert [" UNSET TAG " in line for line in undone.plan] == [True]
    assert "ProtectionVerified" not in place.facts()
    keeper.close()


def test_a_policy_on_everything_or_the_end_of_the_last_permission_counts_at_once(
    place: Place,
) -> None:
    place.step()
    made = place.policy(
        subjects=(Subject("user", place.house.role("analyst")),),
        resource=Resource("type", "column"),
    )
    place.step()
    assert place.house.reads("analyst", "id") is None
    with place.core.database.unit(place.tenant) as unit:
        policies.delete(unit, made, TESTER, place.core.clock.now())
    place.step()
    assert place.house.reads("analyst", "id") == [(1,), (2,)]
    with place.core.database.unit(place.tenant) as unit:
        reads = next(k.policy for k in policies.load(unit) if k.policy.name == "Everybody reads")
        policies.delete(unit, reads.id, TESTER, place.core.clock.now())
    place.step()
    assert place.house.reads("analyst", "id") is None
