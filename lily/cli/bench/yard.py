"""A yard to deliver from and to: a tenant, endpoints in a process, workers that can be killed."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen
from uuid import UUID, uuid4

from lily import plugins
from lily.clock import SystemClock
from lily.events.facts import Fact
from lily.identity.actor import Actor
from lily.notify.match import Match
from lily.settings import Settings, child_environment
from lily.store import connections, feed, subscriptions
from lily.store.connections import Connection
from lily.store.subscriptions import Subscription
from lily.types import Tenant
from lily.wiring import Core, bootstrap

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BENCH = Actor("bench", "bench")
LOOPBACK = '["127.0.0.0/8"]'
CHUNK = 500


class Endpoints:
    """The receivers' process."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"

    def stats(self) -> dict[str, Any]:
        with urlopen(f"{self.url}/stats", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def await_different(self, wanted: int, patience: float) -> dict[str, Any]:
        """Until so many different ones arrived, or nothing new came for so long."""
        best, moved = -1, time.monotonic()
        while time.monotonic() - moved < patience:
            found = self.stats()
            if found["different"] >= wanted:
                return found
            if found["different"] > best:
                best, moved = found["different"], time.monotonic()
            time.sleep(0.1)
        return self.stats()


@contextmanager
def endpoints() -> Iterator[Endpoints]:
    line = [sys.executable, "-m", "lily.cli.bench.receivers"]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Endpoints(process, int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


class Workers:
    """`lily work`, several of them side by side."""

    def __init__(self, settings: Settings, count: int) -> None:
        self._settings = settings
        self._environment = child_environment(
            settings, LILY_EGRESS_ALLOW=LOOPBACK, LILY_LOG_LEVEL="error"
        )
        self._running = [self._start() for _ in range(count)]

    def kill(self, number: int) -> None:
        """kill -9 one, and start another in its place."""
        place = number % len(self._running)
        self._running[place].send_signal(signal.SIGKILL)
        self._running[place].wait()
        self._running[place] = self._start()

    def stop(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        line = [sys.executable, "-m", "lily.cli", "work", "--home", str(self._settings.home)]
        return subprocess.Popen(
            line, env=self._environment, stdout=subprocess.DEVNULL, stderr=sys.stderr.fileno(),
        )  # fmt: skip


@contextmanager
def workers(settings: Settings, count: int) -> Iterator[Workers]:
    made = Workers(settings, count)
    try:
        yield made
    finally:
        made.stop()


def tenant_of(core: Core) -> Tenant:
    """The first tenant of an empty Lily."""
    bootstrap(core)
    return core.database.tenants()[0]


def connect(core: Core, tenant: Tenant, plugin: str, **options: Any) -> UUID:
    id, now = uuid4(), SystemClock().now()
    public, secrets = plugins.split(plugins.check("target", plugin, options))
    sealed = core.seal.seal(secrets, connections.about(tenant.number, id)) if secrets else None
    made = Connection(
        id, f"{plugin} {id}", plugin, ["target"], public, sealed, None, 0, True, 1, now, now
    )
    with core.database.unit(tenant) as unit:
        connections.create(unit, made, BENCH)
    return id


def subscribe(core: Core, tenant: Tenant, connection: UUID, kind: str) -> None:
    now = SystemClock().now()
    made = Subscription(
        uuid4(), f"bench {connection}", Match(facts=[kind]), connection, None, "admin", True, None,
        0, 1, now, now,
    )  # fmt: skip
    with core.database.unit(tenant) as unit:
        subscriptions.create(unit, made, BENCH)


def happen(core: Core, tenant: Tenant, facts: Sequence[Fact]) -> None:
    for start in range(0, len(facts), CHUNK):
        with core.database.unit(tenant) as unit:
            feed.record(unit, facts[start : start + CHUNK])


def changes(count: int) -> list[Fact]:
    """Facts of about a kilobyte."""
    now = SystemClock().now()
    return [
        Fact(
            kind="AssetChanged", at=now, by="bench", cause=str(uuid4()), guid=uuid4(),
            qualified_name=f"bench/table_{number}", asset_type="table", version=number,
            before={"description": "x" * 200}, after={"description": "y" * 200},
        )
        for number in range(count)
    ]  # fmt: skip


def incidents(count: int) -> list[Fact]:
    now = SystemClock().now()
    return [
        Fact(
            kind="IncidentOpened", at=now, by="bench", cause=str(uuid4()),
            after={"incident_id": str(uuid4()), "title": f"Incident {number}", "state": "open"},
        )
        for number in range(count)
    ]  # fmt: skip
