"""The story of an incident, told by the code of `lily demo`, on a Lily without Spark."""

from pathlib import Path
from threading import Event

import pytest

from lily.api.app import create_app
from lily.cli.client import Client
from lily.cli.demo_incident import CALL, SECRET, SIGNATURE, IncidentStory
from lily.cli.told import Teller
from lily.settings import load
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.wiring import Core, services
from lily.wiring import core as build_core
from lily.workers import deliver, match
from tests.flow.corridor import Corridor
from tests.flow.people import admin
from tests.looping import looping
from tests.montecarlo import ANOMALY, signed
from tests.serving import serving


def ingest(system: Core, stop: Event) -> None:
    """In place of the pipeline."""
    corridor = Corridor(system)
    while not stop.wait(0.02):
        corridor.run()
    corridor.close()


def test_the_story_of_an_incident_is_told_to_its_end(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert signed(ANOMALY, SECRET)[0]["x-mcd-signature"] == SIGNATURE
    assert CALL == ANOMALY
    url = server.create_database("demo")
    migrate(url)
    settings = load(home=tmp_path, database=url, egress_allow=["127.0.0.0/8"])
    core, system = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    try:
        loops = looping(system, ingest, match.run, deliver.run)
        with serving(create_app(services(core))) as client, loops:
            person = admin(core, client)
            token = person.headers["Authorization"].removeprefix("Bearer ")
            IncidentStory(Client(str(client.base_url), token), Teller(0)).play()
    finally:
        core.close()
        system.close()
    told = capsys.readouterr().out
    assert "IncidentOpened, IncidentAcknowledged, IncidentResolved" in told
    assert "1 message, 1 issue, 3 cards, 1 ticket" in told
    assert "To Do → In Progress → Done" in told
    assert "12 delivered" in told
