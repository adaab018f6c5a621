"""Each example keeps its contract, and does what it says."""

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from lily_examples.brief import Brief
from lily_examples.byhand import ByHand
from lily_examples.courier import Courier
from lily_examples.pager import Pager
from lily_examples.polite import Polite
from lily_examples.retention import Retention
from lily_examples.sheet import Sheet
from lily_examples.shelf import Shelf
from lily_examples.warehouse import Warehouse

from lily.sdk import Answer, AssetSeen, Call, Reject
from lily.sdk.enforcers import Rule, Rules
from lily.sdk.testing import EnrichmentContract, HookContract, SourceContract, WebhookContract
from lily.sdk.testing_targets import FilterContract, TargetContract

SECRET = "swordfish"


class TestPolite(HookContract):
    def make(self):
        return Polite(Polite.Options())

    def test_it_tidies(self):
        seen = AssetSeen(qualified_name="a", description=" all   orders ")
        assert self.make()(seen).description == "All orders"


class TestSheet(SourceContract):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path):
        self.path = tmp_path / "shop.csv"
        self.path.write_text("name,owner,description\norders,ann,All orders\nitems,,\n")

    def make(self):
        return Sheet(Sheet.Options(path=self.path))


class TestPager(WebhookContract):
    def make(self):
        return Pager(Pager.Options(secret=SECRET))

    def genuine(self):
        body = json.dumps({"id": "p1", "text": "late", "table": "shop.orders"}).encode()
        return [({"x-pager": hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}, body)]


class TestCourier(TargetContract):
    def make(self):
        return Courier(Courier.Options(url="https://courier.example/messages", token=SECRET))

    def answers(self, call: Call) -> Answer:
        return Answer(200, body=b'{"id": "m1"}')


class TestBrief(FilterContract):
    def make(self):
        return Brief(Brief.Options(letters=20))


class TestRetention(EnrichmentContract):
    def make(self):
        return Retention(Retention.Options(days={"PII": 90}))


class _Wanted:
    fingerprint = "f1"

    def rules(self, grantee):
        return Rules({"email": Rule("mask", "hash")}, ("country = 'DE'",))


def test_what_is_to_be_done_by_hand_is_planned_and_not_claimed():
    enforcer = ByHand(ByHand.Options(prefix="paper://", roles=["analyst"]))
    assert enforcer.owns("paper://desk.people") and not enforcer.owns("postgres://x")
    report = enforcer.enforce("paper://desk.people", _Wanted, None)
    assert report.plan == (
        "mask (hash) desk.people.email for analyst",
        "show analyst only those rows of desk.people where country = 'DE'",
    )
    assert [each.state for each in report.findings] == ["planned"]


def test_the_names_of_the_engine_are_those_of_the_crawler():
    engine = Warehouse(Warehouse.Options(catalog="shop", behind="postgres://db:5432/shop"))
    table = engine.table("shop", "public", "people")
    assert engine.column(table, "email") == "postgres://db:5432/shop.public.people#email"
    assert engine.table("other", "public", "people") is None


def test_files_on_the_shelf_are_read_and_nothing_else(tmp_path):
    (tmp_path / "people.csv").write_text("id,name\n1,ann\n2,bob\n")
    shelf = Shelf(Shelf.Options(path=tmp_path))
    found = shelf.run("SELECT name FROM people ORDER BY id", 5, 1)
    assert (found.columns, list(found.rows), found.truncated) == (("name",), [("ann",)], True)
    with pytest.raises(Reject):
        shelf.run(f"SELECT * FROM read_csv('{tmp_path}/people.csv')", 5, 1)
