"""The enforcer for PostgreSQL on a real warehouse: rights go, come back, and are verified."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from uuid import uuid4

import pytest

from lily.connectors import postgres_enforcer
from lily.connectors.postgres import Postgres
from lily.connectors.postgres_enforcer import PostgresEnforcer
from lily.sdk.enforcers import Entry, Grantee, Report, Rule, Rules
from lily.store.embedded import Server
from tests.flow.warehouse import Warehouse


class Book:
    """A ledger that the test can look into."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, ...], Entry] = {}
        self.broken = False

    def entries(self) -> Sequence[Entry]:
        return list(self.rows.values())

    def add(self, entries: Iterable[Entry]) -> None:
        for each in entries:
            self.rows[each.kind, each.part, each.grantee, each.column] = each
        if self.broken:
            raise RuntimeError("killed")

    def drop(self, entries: Iterable[Entry]) -> None:
        for each in entries:
            self.rows.pop((each.kind, each.part, each.grantee, each.column), None)


class Said:
    """What is wanted, as the test says it."""

    def __init__(
        self, denied: Iterable[str] = (), exempt: str = "reader", filters: Mapping[str, str] = {}
    ) -> None:
        self.fingerprint = str(uuid4())
        self._denied = denied
        self._exempt = exempt
        self._filters = filters

    def rules(self, grantee: Grantee) -> Rules:
        if any(name.startswith(self._exempt) for name in grantee.groups):
            return Rules({})
        conditions = [
            f for who, f in self._filters.items() if grantee.name.startswith(who) or who == "*"
        ]
        return Rules({name: Rule("deny") for name in self._denied}, tuple(conditions))


@pytest.fixture
def house(server: Server) -> Iterator[Warehouse]:
    made = Warehouse(server)
    yield made
    made.root.close()


@pytest.fixture
def enforcer(house: Warehouse) -> Iterator[PostgresEnforcer]:
    options = Postgres.Options.model_validate({"url": house.url, "server": "warehouse:5432"})
    made = PostgresEnforcer(options)
    yield made
    made.close()


def failed(report: Report) -> list[str]:
    return [each.reason for each in report.findings if each.state == "failed"]


Grants = Callable[[Warehouse], list[str]]
BEFORE: dict[str, Grants] = {
    "a table": lambda h: [f"GRANT SELECT ON s.people TO {h.role('analyst')}"],
    "to everybody": lambda h: ["GRANT SELECT ON s.people TO PUBLIC"],
    "columns": lambda h: [f"GRANT SELECT (id, email) ON s.people TO {h.role('analyst')}"],
    "both": lambda h: [
        f"GRANT SELECT ON s.people TO {h.role('analyst')}",
        f"GRANT SELECT (id, email) ON s.people TO {h.role('analyst')}",
    ],
    "with grant option": lambda h: [
        f"GRANT SELECT ON s.people TO {h.role('analyst')} WITH GRANT OPTION",
        f"GRANT SELECT (country) ON s.people TO {h.role('member')} WITH GRANT OPTION",
    ],
    "passed on": lambda h: [
        f"GRANT SELECT ON s.people TO {h.role('analyst')} WITH GRANT OPTION",
        f"SET ROLE {h.role('analyst')}",
        f"GRANT SELECT ON s.people TO {h.role('member')}",
        "RESET ROLE",
    ],
    "a team": lambda h: [f"GRANT SELECT ON s.people TO {h.role('team')}"],
    "writes beside": lambda h: [
        f"GRANT SELECT, INSERT, UPDATE ON s.people TO {h.role('analyst')}",
        f"GRANT UPDATE (email) ON s.people TO {h.role('member')}",
    ],
}


@pytest.mark.parametrize("before", BEFORE)
def test_a_column_is_denied_and_the_rights_come_back_as_they_were(
    house: Warehouse, enforcer: PostgresEnforcer, before: str
) -> None:
    house.run(*BEFORE[before](house))
    rights, ledger = house.rights(), Book()
    report = enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    assert failed(report) == []
    for role in ("analyst", "member"):
        assert house.reads(role, "email") is None
        assert house.reads(role, "people", "s.people people") is None
    writes = {r for r in rights if r[1] != "SELECT"}
    assert writes <= house.rights()
    protected = house.rights()
    again = enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    assert (house.rights(), again.plan, again.drifted) == (protected, (), False)
    enforcer.enforce(house.name(), Said, ledger)
    assert (house.rights(), ledger.entries()) == (rights, [])


def test_what_is_not_denied_stays_readable_and_who_is_exempt_reads_on(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    team, ledger = house.role("team"), Book()
    house.run(
        f"GRANT SELECT ON s.people TO {team}",
        f"GRANT SELECT ON s.people TO {house.role('analyst')}",
    )
    rights = house.rights()
    report = enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    assert house.reads("analyst", "id") == [(1,), (2,)]
    assert house.reads("member", "email") is None
    assert house.reads("reader", "email") == [
        ("a@x.io",),
        ("b@x.io",),
    ]  # through a right of its own
    assert house.role("reader") in report.exempt["email"]
    unreachable = {each.grantee for each in report.findings if each.state == "unenforceable"}
    assert "postgres" in unreachable
    enforcer.enforce(house.name(), Said, ledger)
    assert house.rights() == rights


def test_a_right_that_somebody_gives_again_is_taken_again(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    analyst, ledger = house.role("analyst"), Book()
    house.run(f"GRANT SELECT ON s.people TO {analyst}")
    rights = house.rights()
    enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    house.run(
        f"GRANT SELECT ON s.people TO {analyst}",
        f"GRANT SELECT (email) ON s.people TO {house.role('member')}",
    )
    seen = enforcer.observe(house.name(), lambda: Said(["email"]), ledger)
    assert seen.drifted and seen.plan
    assert house.reads("analyst", "email") is not None  # looking changes nothing
    healed = enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    assert healed.drifted
    assert house.reads("analyst", "email") is None and house.reads("member", "email") is None
    enforcer.enforce(house.name(), Said, ledger)
    assert house.rights() == rights | {(house.role("member"), "SELECT", "email", False)}


def test_a_right_that_somebody_took_meanwhile_does_not_come_back(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    analyst, ledger = house.role("analyst"), Book()
    house.run(f"GRANT SELECT ON s.people TO {analyst}")
    enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    house.run(f"REVOKE SELECT ON s.people FROM {analyst}")
    enforcer.enforce(house.name(), lambda: Said(["email", "country"]), ledger)
    enforcer.enforce(house.name(), Said, ledger)
    assert (house.rights(), ledger.entries()) == (set(), [])


def test_a_new_column_is_granted_unless_it_is_denied(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    ledger = Book()
    house.run(f"GRANT SELECT ON s.people TO {house.role('analyst')}")
    enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    house.run("ALTER TABLE s.people ADD phone text, ADD city text")
    assert house.reads("analyst", "city") is None
    enforcer.enforce(house.name(), lambda: Said(["email", "phone"]), ledger)
    assert house.reads("analyst", "city") == [(None,), (None,)]
    assert house.reads("analyst", "phone") is None
    house.run("ALTER TABLE s.people DROP phone, DROP email")
    enforcer.enforce(house.name(), lambda: Said(["email", "phone"]), ledger)
    assert (house.rights(), ledger.entries()) == (
        {(house.role("analyst"), "SELECT", "*", False)},
        [],
    )


def test_partitions_are_closed_with_their_table(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    ledger, analyst = Book(), house.role("analyst")
    house.run(
        "CREATE TABLE s.logs (id int, email text) PARTITION BY LIST (id)",
        "CREATE TABLE s.logs_1 PARTITION OF s.logs FOR VALUES IN (1)",
        f"GRANT SELECT ON s.logs, s.logs_1 TO {analyst}",
    )
    rights = house.rights("s.logs"), house.rights("s.logs_1")
    enforcer.enforce(house.name("logs"), lambda: Said(["email"]), ledger)
    assert house.reads("analyst", "email", "s.logs") is None
    assert house.reads("analyst", "email", "s.logs_1") is None
    assert house.reads("analyst", "id", "s.logs_1") == []
    enforcer.enforce(house.name("logs"), Said, ledger)
    assert (house.rights("s.logs"), house.rights("s.logs_1")) == rights


def test_rows_are_filtered_for_whom_a_condition_means(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    ledger = Book()
    house.run("GRANT SELECT ON s.people TO PUBLIC")
    said = Said(filters={"*": "country = 'FR'"})
    report = enforcer.enforce(house.name(), lambda: said, ledger)
    assert failed(report) == []
    assert house.reads("analyst", "id") == [(1,)]
    assert house.reads("reader", "id") == [(1,), (2,)]
    assert enforcer.enforce(house.name(), lambda: said, ledger).plan == ()
    other = Said(filters={"*": "country = 'DE'"})
    enforcer.enforce(house.name(), lambda: other, ledger)
    assert house.reads("analyst", "id") == [(2,)]
    enforcer.enforce(house.name(), Said, ledger)
    assert house.reads("analyst", "id") == [(1,), (2,)]
    found = house.root.execute(
        "SELECT relrowsecurity, (SELECT count(*) FROM pg_policy WHERE polrelid = c.oid)"
        " FROM pg_class c WHERE oid = 's.people'::regclass"
    ).fetchone()
    assert (found, ledger.entries()) == ((False, 0), [])


def test_a_view_cannot_filter_rows_so_it_is_closed_whole(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    house.run(
        "CREATE VIEW s.v AS SELECT * FROM s.people",
        f"GRANT SELECT ON s.v TO {house.role('analyst')}",
    )
    enforcer.enforce(house.name("v"), lambda: Said(filters={"*": "country = 'FR'"}), Book())
    assert house.reads("analyst", "id", "s.v") is None


def test_verified_means_that_reading_was_tried_and_refused(
    house: Warehouse, enforcer: PostgresEnforcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.run(f"GRANT SELECT ON s.people TO {house.role('analyst')}")
    house.run(*(f"CREATE ROLE a{number}_{uuid4().hex[:8]} LOGIN" for number in range(20)))
    # A change that changes nothing, and a catalog that lies about it.
    monkeypatch.setattr(postgres_enforcer, "_revokes", lambda *_: [])
    nobody = postgres_enforcer.MAY_READ.replace("WHERE", "WHERE false AND")
    monkeypatch.setattr(postgres_enforcer, "MAY_READ", nobody)
    report = enforcer.enforce(house.name(), lambda: Said(["email"]), Book())
    assert f"{house.role('analyst')} still reads s.people" in failed(report)


def test_killed_after_the_ledger_was_written_nothing_is_lost(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    house.run(f"GRANT SELECT ON s.people TO {house.role('analyst')} WITH GRANT OPTION")
    rights, ledger = house.rights(), Book()
    ledger.broken = True
    with pytest.raises(RuntimeError, match="killed"):
        enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    assert house.rights() == rights and ledger.entries()
    ledger.broken = False
    enforcer.enforce(house.name(), Said, ledger)
    assert (house.rights(), ledger.entries()) == (rights, [])


def test_a_table_of_the_same_name_does_not_inherit_the_ledger(
    house: Warehouse, enforcer: PostgresEnforcer
) -> None:
    ledger = Book()
    house.run(f"GRANT SELECT ON s.people TO {house.role('analyst')}")
    enforcer.enforce(house.name(), lambda: Said(["email"]), ledger)
    house.run("DROP TABLE s.people")
    house.table("people")
    enforcer.enforce(house.name(), Said, ledger)
    assert (house.rights(), ledger.entries()) == (set(), [])
