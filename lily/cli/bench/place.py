"""The Lily that a bench runs against: one that is there, or one of its own."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import typer

from lily.cli import configured, readiness
from lily.cli import home as folder
from lily.cli.failures import UNREACHABLE, Failure
from lily.settings import Settings, child_environment, load
from lily.store.database import Role
from lily.types import Tenant
from lily.wiring import Core, core, reads_kafka, server

PATIENCE = 240.0


@dataclass(frozen=True)
class Place:
    """Where it answers, who gets in, and which settings its processes have."""

    settings: Settings
    url: str
    tenant: str
    username: str
    password: str
    servers: Mapping[str, int] = field(default_factory=dict)  # others that work for it, by name

    @contextmanager
    def core(self, role: Role, pool: int = 4) -> Iterator[Core]:
        """The same databases as that Lily, for what cannot be seen through its API."""
        built = core(self.settings, role, pool)
        try:
            yield built
        finally:
            built.close()

    def known_tenant(self, role: Role = "lily_app") -> Tenant:
        with self.core(role, 1) as built:
            return built.database.tenant(self.tenant)


@contextmanager
def place(home: Path | None, url: str | None, start: bool) -> Iterator[Place]:
    """A Lily that is ready."""
    if start:
        with own() as made:
            yield made
    else:
        found = _known(configured.settings(home=home), url)
        _await(found.url, None)
        yield found


def _known(settings: Settings, url: str | None) -> Place:
    known = folder.read_credentials(settings.home)
    if not known:
        raise Failure(
            f"There are no credentials in {settings.home}; start `lily up` there, point --home at"
            " them, or let the bench start its own Lily with --start.",
            UNREACHABLE,
        )
    where = url or known["url"]
    parts = urlsplit(where)
    placed = load(home=settings.home, host=parts.hostname, port=parts.port, log=settings.log)
    return Place(placed, where, known["tenant"], known["username"], known["password"])


@contextmanager
def own_on(log: str) -> Iterator[Place]:
    """One of its own, whose log is `postgres` or `kafka`: with a broker of its own then."""
    if log == "postgres":
        with own() as where:
            yield where
        return
    from lily.cli.broker import CannotFetch, broker

    if not reads_kafka(load()):
        raise Failure("Spark cannot read Kafka without its jars: run `make jars` first.")
    try:
        with broker() as running, own(f"kafka://{running.address}") as where:
            yield replace(where, servers={"kafka": running.pid or 0})
    except CannotFetch as cause:
        raise Failure(str(cause)) from cause


@contextmanager
def own(log: str = "postgres", **more: str) -> Iterator[Place]:
    """An empty installation in a temporary folder, gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="lily-bench-"))
    settings = load(home=home, port=0, database="embedded", log=log)
    line = [sys.executable, "-m", "lily.cli", "up", "--home", str(home), "--port", "0"]
    # What it tells others, it tells us, and what it reads is ours: all of it on this machine.
    embedded = server(settings)
    allowed = ["127.0.0.0/8", *([str(embedded.socket)] if embedded else [])]
    env = child_environment(settings, LILY_LOG=log, LILY_EGRESS_ALLOW=json.dumps(allowed), **more)
    with (home / "up.log").open("wb") as output:
        lily = subprocess.Popen(line, stdout=output, stderr=output, env=env)
    try:
        typer.echo(f"Starting a Lily of its own in {home} …", err=True)
        while folder.read_credentials(home) is None:
            _patient(lily, home)
        found = _known(settings, None)
        _await(found.url, lily)
        yield found
    finally:
        lily.terminate()
        try:
            lily.wait(90)
        except subprocess.TimeoutExpired:
            lily.kill()
            lily.wait()
        shutil.rmtree(home, ignore_errors=True)


def _patient(lily: subprocess.Popen[bytes], home: Path) -> None:
    if lily.poll() is not None:
        said = (home / "up.log").read_text(errors="replace").strip().splitlines()[-5:]
        raise Failure("Lily did not start: " + " / ".join(said))
    time.sleep(0.1)


def _await(url: str, lily: subprocess.Popen[bytes] | None) -> None:
    """Until it says that it is ready."""
    parts = urlsplit(url)
    until = time.monotonic() + PATIENCE
    while True:
        status, reason = readiness.probe(parts.hostname or "", parts.port or 80, "/readyz", 5)
        if status == 200:
            return
        if time.monotonic() > until or (lily is not None and lily.poll() is not None):
            raise Failure(f"{url} does not become ready: {reason or status}.", UNREACHABLE)
        time.sleep(0.25)
