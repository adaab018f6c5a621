"""A whole Lily in this process: real Spark pipeline, real database, the API on a port."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
from httpx import Client

from lily.api.app import create_app
from lily.pipeline.main import run
from lily.settings import Settings, load
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.store.presence import alive
from lily.wiring import Core
from lily.wiring import core as build_core
from lily.wiring import services as build_services
from tests.serving import serving

PATIENCE = 60.0


class Live(msgspec.Struct):
    """Two API processes' worth of services, behind each other's back, over one pipeline."""

    settings: Settings
    core: Core
    system: Core
    one: Client
    other: Client


@contextmanager
def live_lily(server: Server, home: Path, name: str = "live", **more: Any) -> Iterator[Live]:
    url = server.create_database(name)
    migrate(url)
    allowed = [str(server.socket)]  # warehouses of tests are behind the same socket
    # A slow machine is no reason to answer that an observation is not applied yet.
    patient = {"egress_allow": allowed, "wait_limit": PATIENCE}
    settings = load(**{"home": home, "database": url, **patient, **more})
    core, twin, system = (
        build_core(settings, role) for role in ("lily_app", "lily_app", "lily_system")
    )
    with (
        _pipeline(system),
        serving(create_app(build_services(core))) as one,
        serving(create_app(build_services(twin))) as other,
    ):
        yield Live(settings, core, system, one, other)
    for each in (core, twin, system):
        each.close()


@contextmanager
def _pipeline(system: Core) -> Iterator[None]:
    stop = Event()
    thread = Thread(target=run, args=(system, stop), name="pipeline")
    thread.start()
    try:
        end = time.monotonic() + 4 * PATIENCE
        while not any(process.detail.get("warm") for process in alive(system.database, "pipeline")):
            if not thread.is_alive() or time.monotonic() > end:
                raise RuntimeError("the pipeline did not become warm")
            time.sleep(0.1)
        yield
    finally:
        stop.set()
        thread.join(60)
