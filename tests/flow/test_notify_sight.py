"""A channel tells what the owner of its subscription may read now, and says what it keeps back."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from httpx import Client

from lily.store.deliveries import Delivery
from lily.store.embedded import Server
from lily.wiring import Core
from tests.callers import person
from tests.flow.apply import seen
from tests.flow.lineage import guid, join, tell
from tests.flow.notifying import Stage, staged
from tests.flow.people import Person, admin, dedicated, with_role
from tests.vendors.server import Scripted, running

API = "/api/v1"
OPEN, CLOSED = "pg/shop.orders", "pg/hr.salaries"
FACTS = ["AssetDeleted", "EdgeCreated", "IncidentOpened"]


@pytest.fixture
def stage(core: Core, system: Core, boss: Person) -> Iterator[Stage]:
    with staged(core, system, boss.tenant) as made:
        made.clock.at = core.clock.now()
        for schema in ("pg/shop", "pg/hr"):
            seen(system, made.tenant, schema, asset_type="schema", asset_name=schema)
        for table in (OPEN, CLOSED):
            seen(system, made.tenant, table, asset_type="table", asset_name=table,
                 parent_id=table.partition(".")[0])  # fmt: skip
        yield made


@pytest.fixture
def vendor() -> Iterator[Scripted]:
    with running(Scripted(200)) as made:
        yield made


def send(who: Person, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    answer = who.client.request(method, f"{API}{path}", json=body, headers=who.headers)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def subscribe(who: Person, connection: UUID | None, **more: Any) -> Any:
    body = {"name": f"s {uuid4()}", "match": {"facts": FACTS}, **more}
    body |= {"connection_id": str(connection)} if connection else {}
    return send(who, "POST", "/subscriptions", body, 201)


def deny(boss: Person, subject: dict[str, str]) -> str:
    """Nobody of them may see anything of `hr`."""
    body = {"name": f"hr is closed {uuid4()}", "effect": "deny", "subject": [subject],
            "resource": {"under": "pg/hr"}}  # fmt: skip
    return str(send(boss, "POST", "/policies", body, 201)["policy_id"])


def happens(stage: Stage, *names: str, kind: str = "AssetDeleted", **more: Any) -> None:
    for name in names:
        stage.happen(kind, guid=guid(stage.tenant, name), qualified_name=name, **more)
    stage.tell()


def states(stage: Stage) -> list[tuple[str, str]]:
    return [(sent.title.partition(" was")[0], sent.state) for sent in stage.deliveries()]


def last(stage: Stage) -> Delivery:
    return stage.deliveries()[-1]


def test_what_the_owner_may_not_read_is_withheld_and_an_admin_sees_why(
    core: Core, stage: Stage, boss: Person, vendor: Scripted
) -> None:
    editor = with_role(core, boss, "editor")
    subscribe(editor, stage.webhook(vendor.url))
    deny(boss, {"role": "editor"})
    happens(stage, OPEN, CLOSED)
    assert states(stage) == [(OPEN, "delivered"), (CLOSED, "withheld")]
    [(_, _, _, told)] = vendor.calls
    assert b"salaries" not in told
    [kept] = send(boss, "GET", "/deliveries?state=withheld")["items"]
    assert kept["reason"] == "It belongs to editor, who may not read this asset."
    assert (kept["asset_guid"], kept["tries"]) == (str(guid(stage.tenant, CLOSED)), 0)
    happens(stage, CLOSED, kind="IncidentOpened", after={"incident_id": str(uuid4()), "title": "x"})
    assert last(stage).state == "withheld"
    # Both ends of an edge are named.
    tell(stage.system, stage.tenant, join(CLOSED, OPEN))
    stage.tell()
    assert (last(stage).kind, last(stage).state) == ("EdgeCreated", "withheld")
    assert len(vendor.calls) == 1


def test_policies_count_when_it_is_sent(
    core: Core, stage: Stage, boss: Person, vendor: Scripted
) -> None:
    editor = with_role(core, boss, "editor")
    subscribe(editor, stage.webhook(vendor.url))
    policy = deny(boss, {"user": "editor"})
    happens(stage, CLOSED)
    send(boss, "DELETE", f"/policies/{policy}", None, 204)
    stage.tell()
    assert states(stage) == [(CLOSED, "withheld")]  # what was kept back is not told later
    happens(stage, CLOSED)
    assert [state for _, state in states(stage)] == ["withheld", "delivered"]
    [kept] = stage.deliveries(state="withheld")
    again = {"filter": {"state": "withheld"}}
    assert send(boss, "POST", "/deliveries/replay", again)["replayed"] == 1
    stage.catch_up()
    stage.tell()
    assert [headers["webhook-id"] for _, _, headers, _ in vendor.calls][-1] == str(kept.id)
    # What waits to be tried again is judged again.
    vendor.script = [(500, {}, b"")]
    happens(stage, CLOSED)
    assert last(stage).state == "waiting"
    deny(boss, {"user": "editor"})
    stage.after(minutes=1)
    stage.tell()
    assert (last(stage).state, last(stage).tries) == ("withheld", 1)


def test_who_is_not_active_any_more_tells_nothing_and_the_subscription_says_why(
    core: Core, stage: Stage, boss: Person, vendor: Scripted
) -> None:
    editor = with_role(core, boss, "editor")
    made = subscribe(editor, stage.webhook(vendor.url))
    assert (made["owner"], made["silence"]) == ("editor", "")
    send(boss, "PATCH", "/users/editor", {"active": False})
    happens(stage, OPEN)
    why = "It belongs to editor, who is not active any more."
    assert (last(stage).state, last(stage).reason) == ("withheld", why)
    assert send(boss, "GET", f"/subscriptions/{made['id']}")["silence"] == why
    assert [each["silence"] for each in send(boss, "GET", "/subscriptions")["items"]] == [why]
    send(boss, "PATCH", "/users/editor", {"active": True, "role": "ingester"})
    happens(stage, OPEN)
    assert "may not read the feed" in last(stage).reason
    send(boss, "PATCH", "/users/editor", {"role": "viewer"})
    happens(stage, OPEN)
    assert last(stage).state == "delivered"
    send(boss, "DELETE", f"/subscriptions/{made['id']}", None, 204)
    [first, *_] = stage.deliveries()
    send(boss, "POST", f"/deliveries/{first.id}/replay", None, 202)
    stage.catch_up()
    stage.tell()
    assert stage.deliveries()[0].reason == "The subscription was deleted."
    assert len(vendor.calls) == 1


def test_facts_of_the_audit_trail_end_with_the_right_to_read_them(
    core: Core, stage: Stage, boss: Person, vendor: Scripted
) -> None:
    steward = with_role(core, boss, "steward")
    subscribe(steward, stage.webhook(vendor.url), match={"facts": ["PolicyCreated"]})
    deny(boss, {"role": "viewer"})
    stage.tell()
    assert last(stage).state == "delivered"
    send(boss, "PATCH", "/users/steward", {"role": "editor"})
    deny(boss, {"role": "viewer"})
    stage.tell()
    assert "may not read PolicyCreated facts" in last(stage).reason


def test_it_may_tell_in_the_name_of_a_service_account(
    core: Core, stage: Stage, boss: Person, vendor: Scripted
) -> None:
    connection = stage.webhook(vendor.url)
    send(boss, "POST", "/service-accounts", {"name": "teller", "role": "viewer"}, 201)
    made = subscribe(boss, connection, owner="teller")
    assert (made["owner"], made["silence"]) == ("teller", "")
    deny(boss, {"role": "viewer"})
    happens(stage, OPEN, CLOSED)
    assert [state for _, state in states(stage)] == ["delivered", "withheld"]
    body = {"name": "x", "match": {"facts": FACTS}, "connection_id": str(connection)}
    refused = send(boss, "POST", "/subscriptions", {**body, "owner": "nobody"}, 422)
    assert refused["errors"][0]["field"] == "owner"
    editor = with_role(core, boss, "editor")
    refused = send(editor, "POST", "/subscriptions", {**body, "owner": "teller"}, 422)
    assert "users:manage" in refused["detail"]


def test_who_turns_a_channel_elsewhere_does_not_borrow_the_eyes_of_its_owner(
    core: Core, stage: Stage, boss: Person, vendor: Scripted
) -> None:
    made = subscribe(boss, stage.webhook(vendor.url))
    path = f"/subscriptions/{made['id']}"
    editor = with_role(core, boss, "editor")
    deny(boss, {"role": "editor"})
    renamed = send(editor, "PATCH", path, {"name": "another name"})
    assert renamed["owner"] == "root"
    own = {"connection_id": str(stage.webhook(f"{vendor.url}/elsewhere"))}
    assert send(editor, "PATCH", path, own)["owner"] == "editor"
    happens(stage, CLOSED)
    assert last(stage).state == "withheld"
    assert send(boss, "PATCH", path, {"owner": "root"})["owner"] == "root"
    happens(stage, CLOSED)
    assert last(stage).state == "delivered"


def test_owners_in_a_tenant_that_lives_elsewhere_by_now_are_still_known(
    core: Core, system: Core, server: Server, client: Client, vendor: Scripted
) -> None:
    there = dedicated(core, client, server.create_database(f"own_{uuid4().hex[:8]}"))
    with staged(core, system, there.tenant) as elsewhere, psycopg.connect(
        core.database.url_of("home")
    ) as home:  # fmt: skip
        home.execute(
            "INSERT INTO lily.departure (number, phase) VALUES (%s, 'gone')",
            [there.tenant.number],
        )
        home.commit()
        elsewhere.clock.at = core.clock.now()
        elsewhere.subscribe(elsewhere.webhook(vendor.url), ["AssetDeleted"])
        happens(elsewhere, OPEN)
        assert states(elsewhere) == [(OPEN, "delivered")]


def test_the_same_name_in_another_tenant_is_somebody_else(
    core: Core, system: Core, stage: Stage, boss: Person, client: Client, vendor: Scripted
) -> None:
    other = admin(core, client)
    person(core, other.tenant, "editor", "admin")
    with staged(core, system, other.tenant) as elsewhere:
        elsewhere.clock.at = core.clock.now()
        editor = with_role(core, boss, "editor")
        subscribe(editor, stage.webhook(vendor.url))
        there = elsewhere.webhook(f"{vendor.url}/there")
        elsewhere.subscribe(there, ["AssetDeleted"], owner_name="editor")
        deny(boss, {"user": "editor"})
        seen(system, other.tenant, CLOSED, asset_type="table", asset_name=CLOSED)
        happens(stage, CLOSED)
        happens(elsewhere, CLOSED)
        assert states(stage) == [(CLOSED, "withheld")]
        assert states(elsewhere) == [(CLOSED, "delivered")]
    assert [path for _, path, _, _ in vendor.calls] == ["/there/hook"]
