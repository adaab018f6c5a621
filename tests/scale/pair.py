"""Pipelines as on several machines: each a process with a folder of its own, over one database."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil
from httpx import Client

from lily.api.app import create_app
from lily.settings import Settings, child_environment, load
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.store.presence import Process, alive
from lily.wiring import Core, secret_key_file
from lily.wiring import core as build_core
from lily.wiring import services as build_services
from tests.serving import serving
from tests.waiting import until

START = 150.0


class Machine:
    """`lily pipeline` on a machine that can be killed, paused and started again."""

    def __init__(self, settings: Settings, system: Core, home: Path) -> None:
        self.home = home
        self._settings = settings
        self._system = system
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped: list[int] = []

    @property
    def state(self) -> str:
        """What it says of itself; empty when it says nothing."""
        found = self.seen()
        return str(found.detail.get("state", "")) if found else ""

    def seen(self) -> Process | None:
        pid = self._process.pid if self._process else 0
        running = alive(self._system.database, "pipeline")
        return next((each for each in running if each.pid == pid), None)

    def start(self, state: str) -> None:
        """Returns when it has come to that state."""
        chosen = self._settings
        environment = child_environment(
            chosen, LILY_HOME=str(self.home), LILY_SPARK="local[2]", LILY_LAKE="off",
            LILY_LOG=chosen.log, LILY_SECRET_KEY_FILE=str(secret_key_file(chosen)),
        )  # fmt: skip
        line = [sys.executable, "-m", "lily.cli", "pipeline", "--parent", str(os.getpid())]
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "pipeline.log").open("ab") as output:
            self._process = subprocess.Popen(line, env=environment, stdout=output, stderr=output)
        until(lambda: self.state == state or self.ended(), START)
        assert not self.ended(), self.said()

    def kill(self) -> None:
        """The machine is gone, with all that ran on it."""
        for pid in self._all():
            _signal(pid, signal.SIGKILL)
        self.join()

    def pause(self) -> None:
        self._stopped = self._all()
        for pid in self._stopped:
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self._stopped:
            _signal(pid, signal.SIGCONT)

    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def join(self) -> None:
        if self._process is not None:
            self._process.wait(60)
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self.resume()
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def said(self) -> str:
        return (self.home / "pipeline.log").read_text(errors="replace")

    def _all(self) -> list[int]:
        if self._process is None:
            return []
        own = psutil.Process(self._process.pid)
        return [own.pid, *(each.pid for each in own.children(recursive=True))]


class Pair(msgspec.Struct):
    settings: Settings
    core: Core
    system: Core
    api: Client
    one: Machine
    other: Machine

    def ready(self) -> tuple[Machine, Machine]:
        """One that leads, and one that is warm."""
        leader, waiting = self.one, self.other
        if waiting.state == "active":
            leader, waiting = waiting, leader
        if leader.state != "active":
            leader.start("active")
        if waiting.state != "standby":
            waiting.start("standby")
        return leader, waiting


@contextmanager
def pair(server: Server, folder: Path, name: str, log: str = "postgres") -> Iterator[Pair]:
    """Two machines, neither started yet, and an API."""
    url = server.create_database(name)
    migrate(url)
    settings = load(home=folder / "api", database=url, log=log, lake="off")
    core, system = (build_core(settings, role) for role in ("lily_app", "lily_system"))
    one, other = (Machine(settings, system, folder / each) for each in ("one", "other"))
    try:
        with serving(create_app(build_services(core))) as api:
            yield Pair(settings, core, system, api, one, other)
    finally:
        one.stop()
        other.stop()
        core.close()
        system.close()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
