"""A real Kafka of our own: one KRaft node from Maven jars, for development, benches and tests.

`python -m lily.cli.broker` runs it until Ctrl-C; `make kafka` calls that.
"""

import argparse
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lily.settings import java_command

VERSION = "4.3.0"
CACHE = Path.home() / ".cache" / "lily" / "kafka"
FETCHING = 900.0
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lily</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>2.25.3</version>
    </dependency>
  </dependencies>
</project>
"""
LOGGING = """rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
"""
JAVA = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class CannotFetch(Exception):
    """Says what could not be had, and why."""


def fetched() -> Path:
    """The folder of the broker's jars; the first time Maven fetches 44 MB."""
    place = CACHE / VERSION
    if (place / ".whole").exists():
        return place
    if shutil.which("mvn") is None:
        raise CannotFetch("Kafka is fetched by Maven (mvn), which is not installed")
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / ".whole").exists():  # another process may have been at it
            (place / "pom.xml").write_text(POM.format(version=VERSION))
            goal = "dependency:copy-dependencies"
            line = ["mvn", "-q", "-B", "-f", str(place / "pom.xml"), goal, "-DincludeScope=runtime"]
            _run([*line, f"-DoutputDirectory={place}"], f"Kafka {VERSION}", FETCHING)
            (place / ".whole").touch()
    return place


def _run(line: list[str], what: str, seconds: float) -> str:
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise CannotFetch(f"{what} cannot be had: {cause}") from cause
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotFetch(f"{what} cannot be had: {' '.join(said)}")
    return done.stdout.strip()


class Broker:
    """One node in a folder; it may be killed and started again on the same port and data."""

    def __init__(self, folder: Path, port: int = 0, more: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._jars = fetched()
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._more = dict(more or {})
        self._prepare()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self, seconds: float = 60.0) -> None:
        """Until it takes connections."""
        logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        with (self._folder / "kafka.log").open("ab") as output:
            self._process = subprocess.Popen(
                [java_command(), *JAVA, logging, "-cp", f"{self._jars}/*",
                 "kafka.Kafka", str(self._folder / "server.properties")],
                cwd=self._folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        end = time.monotonic() + seconds
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self._folder / "kafka.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"Kafka did not start:\n{said}")
            time.sleep(0.1)

    def kill(self) -> None:
        """As kill -9 does: nothing is flushed, nobody is told."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def wait(self) -> None:
        """Until it ends by itself."""
        if self._process is not None:
            self._process.wait()

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process = None

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self._folder / "server.properties"
        options = {**_options(self.port, free_port(), self._folder / "data"), **self._more}
        settings.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        (self._folder / "log4j2.properties").write_text(LOGGING)
        if (self._folder / "data" / "meta.properties").exists():
            return
        java = [java_command(), "-cp", f"{self._jars}/*", "kafka.tools.StorageTool"]
        cluster = _run([*java, "random-uuid"], "a cluster id", 60).splitlines()[-1]
        line = [*java, "format", "--standalone", "-t", cluster, "-c", str(settings)]
        _run(line, "Kafka's folder", 60)


def _options(port: int, controller: int, data: Path) -> dict[str, str]:
    own = f"PLAINTEXT://127.0.0.1:{port}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"{own},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": own,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def free_port() -> int:
    """One that nobody listens on, below those that connections going out are given: on a busy
    machine such a port is taken again before a server has started."""
    for _ in range(1000):
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("There is no free port between 20000 and 32000.")


@contextmanager
def broker(folder: Path | None = None, more: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A running one; without a folder its data are gone at the end."""
    place = folder or Path(tempfile.mkdtemp(prefix="lily-kafka-"))
    made = Broker(place, more=more)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    """Run it here until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description="A single Kafka node for development.")
    parser.add_argument("--home", type=Path, default=Path(".lily/kafka"))
    parser.add_argument("--port", type=int, default=9092)
    asked = parser.parse_args()
    try:
        made = Broker(asked.home.absolute(), asked.port)
    except CannotFetch as cause:
        sys.exit(str(cause))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        made.start()
        sys.stdout.write(f"Kafka listens: LILY_LOG=kafka://{made.address}\n")
        sys.stdout.flush()
        made.wait()
    except KeyboardInterrupt:
        pass
    finally:
        made.stop()


if __name__ == "__main__":
    main()
