"""Signals become incidents on the right asset, once, and take their course."""

from typing import Any

import pytest

from lily.assets.claims import when
from lily.assets.model import INCIDENTS
from lily.assets.query import parse
from lily.events.signals import SignalSeen
from lily.store import feed, incident_views, incidents, parked, signals
from lily.store.database import Unit
from lily.store.incidents import Who
from lily.store.search import search
from lily.store.signals import Heard
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant
from tests.flow.apply import read, seen
from tests.flow.signals import all_of, facts, heard

NAME = "bigquery://zeus/zeus.ares.artemis"


def kinds(core: Core, tenant: Tenant) -> list[str]:
    return [kind for kind, _ in facts(core, tenant)]


@pytest.mark.parametrize(
    "called",
    [
        ["zeus:ares.artemis"],
        ['ZEUS."Ares".`Artemis`'],
        ["nowhere.at.all", "zeus:ares.artemis", "artemis"],
        ["artemis"],
        ["ares/artemis"],
        ["[zeus].[ares].[artemis]"],
    ],
)
def test_an_asset_is_found_however_it_is_written(
    core: Core, system: Core, tenant: Tenant, called: list[str]
) -> None:
    seen(system, tenant, NAME, asset_type="table")
    seen(system, tenant, "bigquery://zeus/zeus.ares.artemis_old", asset_type="table")
    heard(system, tenant, external_id="1", state="open", title="Few rows", names=called)
    [incident] = all_of(core, tenant)
    asset = read(core, tenant, NAME)
    assert incident.guid == asset.guid
    assert asset.layers & INCIDENTS
    [(kind, after)] = facts(core, tenant)
    assert kind == "IncidentOpened"
    assert (after["state"], after["source"], after["via"]) == ("open", "montecarlo", "montecarlo")


def test_several_candidates_are_a_question_and_a_person_answers_it(
    core: Core, system: Core, tenant: Tenant
) -> None:
    for place in ("one", "two"):
        seen(system, tenant, f"postgres://{place}/shop.public.people", asset_type="table")
    heard(system, tenant, external_id="1", rule="r1", state="open", names=["people"])
    [parked] = all_of(core, tenant)
    assert (parked.guid, parked.shown_state, len(parked.candidates)) == (None, "unattached", 2)
    chosen = read(core, tenant, "postgres://two/shop.public.people")
    with core.database.unit(tenant) as unit:
        who = Who("ann", "person", core.clock.now())
        stays, fact = incidents.attach(
            unit, incidents.get(unit, parked.id, lock=True), chosen.guid, who, remember=True
        )
        incidents.settle(unit, [stays], [fact])
    # From now on the rule is known, whatever the table is called.
    heard(system, tenant, external_id="1", state="resolved")
    heard(system, tenant, external_id="2", rule="r1", state="open", names=["people"])
    first, second = all_of(core, tenant)
    assert (first.state, second.guid) == ("resolved", chosen.guid)
    assert kinds(core, tenant) == [
        "IncidentOpened", "IncidentAttached", "IncidentResolved", "IncidentOpened",
    ]  # fmt: skip


def test_a_parked_incident_is_attached_when_its_asset_appears(
    core: Core, system: Core, tenant: Tenant
) -> None:
    heard(system, tenant, external_id="1", state="open", names=["zeus:ares.artemis"])
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        assert parked.adopt(Unit(conn, tenant), system.clock.now()) is None
    assert all_of(core, tenant)[0].guid is None
    seen(system, tenant, NAME, asset_type="table")
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        parked.adopt(Unit(conn, tenant), system.clock.now())
    assert all_of(core, tenant)[0].guid == read(core, tenant, NAME).guid
    assert read(core, tenant, NAME).layers & INCIDENTS
    assert kinds(core, tenant) == ["IncidentOpened", "IncidentAttached"]


def test_the_same_message_twice_has_one_effect(core: Core, system: Core, tenant: Tenant) -> None:
    seen(system, tenant, NAME)
    for _ in range(3):
        heard(system, tenant, key="same", external_id="1", state="open", names=["artemis"])
    # Another message of the same state is news of nothing.
    heard(system, tenant, external_id="1", state="open", names=["artemis"])
    assert len(all_of(core, tenant)) == 1
    assert kinds(core, tenant) == ["IncidentOpened"]


def test_one_is_open_for_an_asset_and_a_rule_until_all_that_raised_it_are_over(
    core: Core, system: Core, tenant: Tenant
) -> None:
    seen(system, tenant, NAME)
    for number in ("1", "2"):
        heard(system, tenant, external_id=number, rule="r", state="open", names=["artemis"])
    assert len(all_of(core, tenant)) == 1
    heard(system, tenant, external_id="1", state="resolved", reopens=True)
    assert all_of(core, tenant)[0].state == "open"
    heard(system, tenant, external_id="2", state="resolved", reopens=True)
    assert all_of(core, tenant)[0].state == "resolved"
    heard(system, tenant, external_id="3", rule="r", state="open", names=["artemis"])
    assert [each.state for each in all_of(core, tenant)] == ["resolved", "open"]


def test_an_incident_takes_its_course_once_wherever_it_is_moved_from(
    core: Core, system: Core, tenant: Tenant
) -> None:
    seen(system, tenant, NAME)
    heard(system, tenant, external_id="1", state="open", severity="high", names=["artemis"])
    [incident] = all_of(core, tenant)
    short = incident.id.hex[:12]
    for _ in range(2):
        heard(
            system, tenant, "slack", incident=str(incident.id), state="acknowledged", person="ann"
        )
    heard(system, tenant, "jira", incident=short, state="acknowledged")
    heard(system, tenant, external_id="1", state="resolved", reopens=True)
    heard(system, tenant, "jira", incident=short, state="resolved")
    heard(system, tenant, "slack", incident=str(incident.id), state="acknowledged")
    told = facts(core, tenant)
    assert [(kind, after["via"]) for kind, after in told] == [
        ("IncidentOpened", "montecarlo"),
        ("IncidentAcknowledged", "slack"),
        ("IncidentResolved", "montecarlo"),
    ]
    assert not read(core, tenant, NAME).layers & INCIDENTS
    with core.database.unit(tenant) as unit:
        assert [e.by for e in incident_views.events(unit, incident.id)][-2:] == [
            "ann",
            "montecarlo",
        ]
        assert feed.check(unit) is None


def test_an_update_changes_severity_and_owner_and_an_older_one_nothing(
    core: Core, system: Core, tenant: Tenant
) -> None:
    seen(system, tenant, NAME)
    heard(system, tenant, external_id="1", state="open", names=["artemis"], details={"type": "a"})
    heard(system, tenant, external_id="1", severity="critical", owner="ann@example.com")
    [incident] = all_of(core, tenant)
    assert (incident.severity, incident.owner) == ("critical", "ann@example.com")
    assert incident.details == {"type": "a"}
    assert kinds(core, tenant) == ["IncidentOpened", "IncidentChanged"]


def test_feedback_that_it_goes_on_brings_it_back(core: Core, system: Core, tenant: Tenant) -> None:
    seen(system, tenant, NAME)
    heard(system, tenant, external_id="1", state="open", names=["artemis"])
    heard(system, tenant, external_id="1", state="resolved", reopens=True)
    heard(system, tenant, external_id="1", state="open")
    assert all_of(core, tenant)[0].state == "resolved"
    heard(system, tenant, external_id="1", state="acknowledged", reopens=True)
    assert all_of(core, tenant)[0].state == "open"


def test_an_asset_keeps_its_mark_when_it_is_seen_again(
    core: Core, system: Core, tenant: Tenant
) -> None:
    seen(system, tenant, NAME)
    heard(system, tenant, external_id="1", state="open", names=["artemis"])
    seen(system, tenant, NAME, description="new", tags=["PII"])
    seen(system, tenant, NAME, source="another", description="newer")
    assert read(core, tenant, NAME).layers & INCIDENTS
    assert found(core, tenant) == [NAME] == found(core, tenant, "health", "degraded")
    heard(system, tenant, external_id="1", severity="critical")
    assert found(core, tenant) == [NAME] == found(core, tenant, "health", "failing")
    assert found(core, tenant, "health", "degraded") == []
    seen(system, tenant, NAME, description="newest")
    assert found(core, tenant, "health", "failing") == [NAME]
    heard(system, tenant, external_id="1", state="resolved")
    assert found(core, tenant) == [] == found(core, tenant, "health", "failing")


def found(core: Core, tenant: Tenant, name: str = "incident", value: str = "open") -> list[str]:
    with core.database.unit(tenant) as unit:
        return [a.qualified_name for a in search(unit, parse([(name, value)])).assets]


def test_moving_is_idempotent_and_tells_who(core: Core, system: Core, tenant: Tenant) -> None:
    seen(system, tenant, NAME)
    heard(system, tenant, external_id="1", state="open", names=["artemis"])
    [incident] = all_of(core, tenant)

    def move(to: str, **more: Any) -> str:
        with core.database.unit(tenant) as unit:
            return incidents.move(unit, incident.id, to, "ann", "person", **more).state

    assert [move("acknowledged"), move("acknowledged"), move("suppressed")] == [
        "acknowledged", "acknowledged", "suppressed",
    ]  # fmt: skip
    assert not read(core, tenant, NAME).layers & INCIDENTS
    assert move("acknowledged") == "suppressed"
    assert move("open", comment="again") == "open"
    assert kinds(core, tenant) == [
        "IncidentOpened", "IncidentAcknowledged", "IncidentSuppressed", "IncidentOpened",
    ]  # fmt: skip


def test_what_a_person_suppressed_ends_only_when_it_is_over(
    core: Core, system: Core, tenant: Tenant
) -> None:
    heard(system, tenant, external_id="1", state="open")
    with core.database.unit(tenant) as unit:
        incidents.move(unit, all_of(core, tenant)[0].id, "suppressed", "ann", "person")
    for state in ("acknowledged", "open"):
        heard(system, tenant, external_id="1", state=state, reopens=True)
        assert all_of(core, tenant)[0].state == "suppressed"
    heard(system, tenant, external_id="1", state="resolved", reopens=True)
    assert all_of(core, tenant)[0].state == "resolved"


def test_what_cannot_be_stored_comes_back_and_the_rest_is_heard(
    core: Core, system: Core, tenant: Tenant
) -> None:
    now = system.clock.now()
    titles = ["first", "bad \0", "last"]
    batch = [
        Heard(
            tenant.number, n, SignalSeen(key=title, external_id=title, state="open", title=title),
            "montecarlo", "mc", f"cause {n}", when(now, n),
        )
        for n, title in enumerate(titles)
    ]  # fmt: skip
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        [(refused, reason)] = signals.hear_all(conn, batch, lambda _: tenant, now)
        assert signals.hear_all(conn, [batch[0], batch[2]], lambda _: tenant, now) == []
    assert refused.cause == "cause 1" and reason
    assert [each.title for each in all_of(core, tenant)] == ["first", "last"]
    with core.database.unit(tenant) as unit:
        assert feed.check(unit) is None


def test_incidents_of_another_tenant_do_not_exist(core: Core, system: Core, tenant: Tenant) -> None:
    other = new_tenant(core)
    seen(system, other, NAME)
    heard(system, tenant, external_id="1", state="open", names=["artemis"])
    [incident] = all_of(core, tenant)
    assert incident.guid is None
    assert all_of(core, other) == []


def test_an_incident_of_several_tables_is_on_each_of_them(
    core: Core, system: Core, tenant: Tenant
) -> None:
    for name in ("one", "two"):
        seen(system, tenant, f"bigquery://z/z.a.{name}", asset_type="table")
    told: dict[str, Any] = {
        "external_id": "7", "rule": "r", "names": ["z:a.one"],
        "others": [["z:a.two"], ["z:a.three"]],
    }  # fmt: skip
    heard(system, tenant, state="open", title="Late", **told)
    found = {incident.names[0]: incident for incident in all_of(core, tenant)}
    places = {name: incident.guid for name, incident in found.items()}
    assert places == {
        "z:a.one": read(core, tenant, "bigquery://z/z.a.one").guid,
        "z:a.two": read(core, tenant, "bigquery://z/z.a.two").guid,
        "z:a.three": None,
    }
    heard(system, tenant, state="open", title="Late", **told)
    assert len(all_of(core, tenant)) == 3
    heard(system, tenant, external_id="7", state="resolved")  # names nothing any more
    assert {incident.state for incident in all_of(core, tenant)} == {"resolved"}
    assert not read(core, tenant, "bigquery://z/z.a.two").layers & INCIDENTS
