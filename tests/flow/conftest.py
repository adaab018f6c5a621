"""What several tests of flows share."""

from collections.abc import Iterator

import pytest
from httpx import Client

from lily.api.app import create_app
from lily.wiring import Core, Services, services
from tests.flow.corridor import Corridor
from tests.flow.people import Person, admin
from tests.serving import serving


@pytest.fixture(scope="module")
def corridor(system: Core, log_url: str) -> Iterator[Corridor]:
    """The ingest job of the shared Lily, which works when told to, on whatever the log is."""
    built = Corridor(system)
    yield built
    built.close()


@pytest.fixture(scope="module")
def wired(core: Core) -> Services:
    """What an API process is made of."""
    return services(core)


@pytest.fixture(scope="module")
def client(wired: Services) -> Iterator[Client]:
    """Of an API that serves the shared Lily."""
    with serving(create_app(wired)) as client:
        yield client


@pytest.fixture
def boss(core: Core, client: Client) -> Person:
    """The admin of a tenant of their own."""
    return admin(core, client)
