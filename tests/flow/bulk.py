"""What tests of files need: a Lily with its own database, and the runner as a real process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from httpx import Client

from lily.api.app import create_app
from lily.settings import Settings, child_environment, load
from lily.store import raw
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.types import Tenant
from lily.wiring import Core
from lily.wiring import core as build_core
from lily.wiring import services as build_services
from tests.flow.people import Person, admin
from tests.serving import serving

PATH = "/api/v1/metadata/bulk"
PATIENCE = 300.0


class Bulk(msgspec.Struct):
    settings: Settings
    core: Core
    client: Client
    runners: list[subprocess.Popen[bytes]] = []

    def person(self) -> Person:
        return admin(self.core, self.client)

    def start(self) -> "subprocess.Popen[bytes]":
        """A runner in its own session, as `lily up` starts it."""
        settings = self.settings
        line = [sys.executable, "-m", "lily.cli", "pipeline", "--stage", "bulk-work"]
        output = (settings.home / "runner.log").open("ab")
        runner = subprocess.Popen(
            line, env=child_environment(settings, LILY_SPARK=settings.spark), stdout=output,
            stderr=output, start_new_session=True,
        )  # fmt: skip
        output.close()
        self.runners.append(runner)
        return runner

    def running(self) -> None:
        """Make sure that there is a runner."""
        if not self.runners or self.runners[-1].poll() is not None:
            self.start()

    def kill(self) -> None:
        """kill -9 of the newest runner and all that it started."""
        runner = self.runners.pop()
        os.killpg(runner.pid, signal.SIGKILL)
        runner.wait()


@contextmanager
def bulk_lily(server: Server, home: Path, **more: str) -> Iterator[Bulk]:
    url = server.create_database(f"bulk_{home.name.replace('-', '_')}")
    migrate(url)
    settings = load(home=home, database=url, **more)
    core = build_core(settings, "lily_app")
    with serving(create_app(build_services(core))) as client:
        lily = Bulk(settings, core, client)
        try:
            yield lily
        finally:
            for runner in lily.runners:
                if runner.poll() is None:
                    os.killpg(runner.pid, signal.SIGKILL)
                runner.wait()
    core.close()


def send(who: Person, body: Any, name: str = "assets.ndjson", **headers: str) -> dict[str, Any]:
    answer = who.client.post(
        PATH, params={"name": name}, content=body, headers={**who.headers, **headers}
    )
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"{PATH}/status/{answer.json()['job_id']}"
    found: dict[str, Any] = answer.json()
    return found


def status(who: Person, job: str) -> dict[str, Any]:
    found: dict[str, Any] = who.client.get(f"{PATH}/status/{job}", headers=who.headers).json()
    return found


def finished(who: Person, job: str) -> dict[str, Any]:
    """The job when it has ended."""
    end = time.monotonic() + PATIENCE
    while (found := status(who, job))["state"] in ("queued", "running"):
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found


def loaded(who: Person, body: Any, name: str = "assets.ndjson", **headers: str) -> dict[str, Any]:
    return finished(who, send(who, body, name, **headers)["job_id"])


def state_of(core: Core, tenant: Tenant) -> list[tuple[Any, ...]]:
    """Number and hash of a tenant's assets of each kind; not of when they were stored."""
    with core.database.unit(tenant) as unit:
        return [*raw.state(unit)]


def facts_of(core: Core, tenant: Tenant) -> list[tuple[Any, ...]]:
    with core.database.unit(tenant) as unit:
        return [*raw.told(unit)]
