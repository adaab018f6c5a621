"""Jira as an app: tokens that end, refresh tokens that are good once, and many who need one."""

from collections.abc import Iterator
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from lily import plugins
from lily.errors import Invalid
from lily.store import connections
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.notifying import TESTER, Stage, staged
from tests.vendors.jira import CLIENT, CLOUD, Atlassian
from tests.vendors.server import running


@pytest.fixture
def stage(core: Core, system: Core, tenant: Tenant) -> Iterator[Stage]:
    with staged(core, system, tenant) as made:
        yield made


@pytest.fixture
def vendor() -> Iterator[Atlassian]:
    with running(Atlassian()) as made:
        yield made


def login(vendor: Atlassian, **more: Any) -> dict[str, Any]:
    return {
        "cloud_id": CLOUD, "client_id": CLIENT[0], "client_secret": CLIENT[1],
        "api_url": vendor.url, "token_url": f"{vendor.url}/oauth/token", **more,
    }  # fmt: skip


def connected(stage: Stage, vendor: Atlassian, **more: Any) -> UUID:
    given = {"refresh_token": vendor.refresh, **more}
    kept = {name: value for name, value in given.items() if value is not None}
    made = stage.connect("jira", project="DQ", oauth=login(vendor, **kept))
    stage.subscribe(made, ["IncidentOpened"])
    return made


def opens(stage: Stage, count: int = 1) -> None:
    for _ in range(count):
        after = {"incident_id": str(uuid4()), "title": "x", "severity": "low"}
        stage.happen("IncidentOpened", after=after)
    stage.match()


def reasons(stage: Stage) -> list[tuple[str, str]]:
    return [(sent.state, sent.reason) for sent in stage.deliveries()]


def test_a_token_is_got_once_kept_sealed_and_renewed_when_it_is_over(
    stage: Stage, vendor: Atlassian
) -> None:
    connected(stage, vendor)
    for _ in range(2):  # two processes, one after the other
        opens(stage)
        stage.tell()
    assert (len(vendor.issues), vendor.given, vendor.refused) == (2, 1, 0)
    with stage.system.database.cell(stage.tenant.cell, [stage.tenant.number]) as conn:
        [(sealed,)] = conn.execute("SELECT sealed FROM channel_token").fetchall()
    assert b"token 1" not in sealed
    vendor.expire()  # sooner than it said
    opens(stage)
    stage.tell()
    assert (len(vendor.issues), vendor.given, vendor.refused) == (3, 2, 1)
    stage.after(seconds=3590)  # it would end on the way
    opens(stage)
    stage.tell()
    assert (len(vendor.issues), vendor.given, vendor.refused) == (4, 3, 1)
    assert {sent.state for sent in stage.deliveries()} == {"delivered"}
    told = str([stage.attempts(sent.id) for sent in stage.deliveries()])
    assert "access token" not in told and "refresh token" not in told


def test_of_many_who_need_a_new_token_one_gets_it(stage: Stage, vendor: Atlassian) -> None:
    connected(stage, vendor)
    opens(stage)
    stage.tell()
    vendor.expire()
    opens(stage, 8)
    threads = [Thread(target=stage.deliver, args=[4]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stage.after(seconds=60)
    stage.tell()
    assert (len(vendor.issues), vendor.given) == (9, 2)


def test_a_login_that_is_over_is_said_and_a_new_one_is_taken(
    stage: Stage, vendor: Atlassian
) -> None:
    made = connected(stage, vendor)
    opens(stage)
    stage.tell()
    vendor.expire()
    vendor.refresh = "of another login"
    opens(stage)
    stage.tell()
    [_, (state, reason)] = reasons(stage)
    assert state == "dead" and "invalid_grant" in reason and "log in again" in reason
    whole = {"project": "DQ", "oauth": login(vendor, refresh_token="of another login")}
    public, secrets = plugins.split(plugins.check("target", "jira", whole))
    assert secrets is not None
    with stage.core.database.unit(stage.tenant) as unit:
        before = connections.get(unit, made)
        sealed = stage.core.seal.seal(secrets, connections.about(stage.tenant.number, made))
        after = msgspec.structs.replace(before, options=public, secrets=sealed)
        connections.change(unit, before, after, TESTER)
    opens(stage)
    stage.tell()
    assert reasons(stage)[-1][0] == "delivered"


def test_a_token_endpoint_that_is_busy_is_asked_again_later(
    stage: Stage, vendor: Atlassian
) -> None:
    connected(stage, vendor)
    vendor.busy = [503, 429]
    opens(stage)
    stage.tell()
    assert reasons(stage)[0] == ("waiting", 'answered 503: {"error": "busy"}')
    stage.after(seconds=10)
    stage.tell()
    assert reasons(stage)[0] == ("waiting", "answered 429")
    stage.after(minutes=1)
    stage.tell()
    assert reasons(stage)[0][0] == "delivered"


def test_a_service_account_needs_no_refresh_token(stage: Stage, vendor: Atlassian) -> None:
    connected(stage, vendor, refresh_token=None)
    opens(stage)
    stage.tell()
    vendor.expire()
    opens(stage)
    stage.tell()
    assert (len(vendor.issues), vendor.given) == (2, 2)


@pytest.mark.parametrize("more", [{"oauth": None}, {"url": "https://x.example"}])
def test_there_is_one_way_in(vendor: Atlassian, more: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="url, email and token, or oauth"):
        plugins.check("target", "jira", {"project": "DQ", "oauth": login(vendor), **more})
