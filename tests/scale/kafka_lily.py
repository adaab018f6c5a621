"""A Lily whose log is Kafka: the API here, the pipeline in a process that can be killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from httpx import Client

from lily.api.app import create_app
from lily.settings import Settings, child_environment, load
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.store.presence import alive
from lily.wiring import Core, reads_kafka
from lily.wiring import core as build_core
from lily.wiring import services as build_services
from tests.serving import serving

ROOT = Path(__file__).parents[2]


class Pipeline:
    """`lily pipeline`, started and ended as a supervisor would."""

    def __init__(self, settings: Settings, system: Core) -> None:
        self._settings = settings
        self._system = system
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 150) -> None:
        line = [sys.executable, "-m", "lily.cli", "pipeline", "--home", str(self._settings.home)]
        line += ["--parent", str(os.getpid())]
        chosen = self._settings
        given = {
            "LILY_LOG": chosen.log, "LILY_SPARK": "local[2]", "LILY_LAKE": "off",
            "LILY_KAFKA_SECURITY": chosen.kafka_security,
            "LILY_KAFKA_MECHANISM": chosen.kafka_mechanism,
            "LILY_KAFKA_USERNAME": chosen.kafka_username,
            "LILY_KAFKA_PASSWORD": chosen.kafka_password.get_secret_value(),
        }  # fmt: skip
        if chosen.kafka_ca is not None:
            given["LILY_KAFKA_CA"] = str(chosen.kafka_ca)
        environment = child_environment(chosen, **given)
        with (self._settings.home / "pipeline.log").open("ab") as output:
            self._process = subprocess.Popen(line, env=environment, stdout=output, stderr=output)
        own = self._process
        until(lambda: self._is_warm() or own.poll() is not None, seconds)
        if own.poll() is not None:
            said = (self._settings.home / "pipeline.log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"the pipeline ended:\n{said}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        children = _children(self._process.pid)
        self._process.send_signal(how)
        self._process.wait(60)
        if how == signal.SIGKILL:
            for each in children:  # Java does not notice at once
                _kill(each)
        self._process = None

    def _is_warm(self) -> bool:
        pids = {self._process.pid} if self._process else set()
        return any(
            each.detail.get("warm") and each.pid in pids
            for each in alive(self._system.database, "pipeline")
        )


class KafkaLily(msgspec.Struct):
    settings: Settings
    core: Core
    system: Core
    one: Client
    other: Client
    pipeline: Pipeline


@contextmanager
def kafka_lily(server: Server, home: Path, log: str, name: str, **more: Any) -> Iterator[KafkaLily]:
    url = server.create_database(name)
    migrate(url)
    settings = load(**{"home": home, "database": url, "log": log, "lake": "off", **more})
    core, twin, system = (
        build_core(settings, role) for role in ("lily_app", "lily_app", "lily_system")
    )
    pipeline = Pipeline(settings, system)
    try:
        pipeline.start()
        with (
            serving(create_app(build_services(core))) as one,
            serving(create_app(build_services(twin))) as other,
        ):
            yield KafkaLily(settings, core, system, one, other, pipeline)
    finally:
        pipeline.end()
        for each in (core, twin, system):
            each.close()


def fetch_jars(missing: Callable[[str], NoReturn]) -> None:
    """Those of Spark's Kafka source and of its way into the lake, once."""
    if reads_kafka(load()):
        return
    done = subprocess.run(["make", "jars"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        missing(f"The jars of Spark cannot be had: {done.stderr[-300:]}")


def until(holds: Callable[[], Any], seconds: float = 60) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("it did not come to be in time")
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    import psutil

    return [each.pid for each in psutil.Process(pid).children(recursive=True)]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
