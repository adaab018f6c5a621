"""Real parts for every test: one PostgreSQL for the session, a fresh tenant for each test."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from lily.settings import Settings, load
from lily.store.embedded import Server, stop
from lily.store.migrate import migrate
from lily.types import Tenant
from lily.wiring import Core
from lily.wiring import core as build_core
from tests import elsewhere

if TYPE_CHECKING:
    from tests.flow.people import Person
    from tests.live import Live

_names = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL of our own, gone at the end."""
    with new_server() as running:
        yield running


@contextmanager
def new_server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="lily-test-"))
    embedded = Server(folder / "postgres")
    embedded.prepare()
    with (folder / "postgres.log").open("wb") as output:
        process = embedded.run(output.fileno())
        embedded.wait(process)
        yield embedded
        stop(process)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def home(server: Server) -> str:
    """The URL of a migrated database."""
    url = server.create_database("lily")
    migrate(url)
    return url


@pytest.fixture(scope="session")
def settings(
    home: str,
    server: Server,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Settings:
    folder = tmp_path_factory.mktemp("home")
    # Asked for only then: who merely has these settings does not go through the log.
    log = request.getfixturevalue("log_url") + "/shared" if elsewhere.log_is() else "postgres"
    return load(home=folder, database=home, egress_allow=[str(server.socket)], log=log)


@pytest.fixture(scope="session")
def core(settings: Settings) -> Iterator[Core]:
    built = build_core(settings, "lily_app")
    yield built
    built.close()


@pytest.fixture(scope="session")
def system(settings: Settings) -> Iterator[Core]:
    built = build_core(settings, "lily_system")
    yield built
    built.close()


@pytest.fixture
def tenant(core: Core) -> Tenant:
    return new_tenant(core)


def new_tenant(core: Core, cell: str = "home") -> Tenant:
    """A tenant that nobody else knows."""
    name = f"tenant-{next(_names)}-{uuid4().hex[:6]}"
    with core.database.home() as conn:
        conn.execute(
            "INSERT INTO tenant (id, name, cell) VALUES (%s, %s, %s)", [uuid4(), name, cell]
        )
    return core.database.tenant(name)


@pytest.fixture(scope="session")
def log_url() -> Iterator[str]:
    """The log of a running Lily; LILY_TEST_LOG=kafka makes it a broker of our own."""
    with elsewhere.log() as url:
        yield url


@pytest.fixture(scope="session")
def spark_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where jobs run; LILY_TEST_SPARK=cluster makes it a cluster with two workers."""
    with elsewhere.spark(tmp_path_factory.mktemp("cluster")) as master:
        yield master


@pytest.fixture(scope="session")
def live(
    server: Server, log_url: str, spark_master: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    """A running Lily with its own database; started once, when the first test asks for it."""
    from tests.live import live_lily

    home = tmp_path_factory.mktemp("live")
    # So many partitions as a small machine has cores.
    with live_lily(server, home, log=log_url, spark=spark_master, kafka_partitions=2) as running:
        yield running


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where log or Spark are elsewhere, only what goes through them is worth a second run."""
    elsewhere.keep_what_goes_there(config, items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    elsewhere.refuse_skips(session)


@pytest.fixture
def api(live: Live) -> Person:
    """The admin of a fresh tenant, on the running Lily."""
    from tests.flow.people import admin

    return admin(live.core, live.one)
