"""A standalone Spark cluster of our own: a master and workers from the installed Spark, for
benches and tests. They know nothing of Lily, and what they run is shipped to them."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import msgspec

from lily.cli.broker import free_port

HERE = "127.0.0.1"
CORES = 2
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
PATIENCE = 60.0
GRACE = 10.0
# As an operator would write them. One core an executor, so that their number is what differs.
DEFAULTS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}


class NotStarted(Exception):
    """Says which part of the cluster did not come."""


class Standalone(msgspec.Struct, frozen=True):
    """Where it is, the processes of its workers, and a folder for what applications write."""

    url: str
    folder: Path
    workers: list[int]

    def events(self, name: str) -> Path:
        """Where an application's event log is."""
        return self.folder / name / "events"

    def application(self, name: str, properties: Mapping[str, str]) -> dict[str, str]:
        """What a driver needs in its environment: Spark's settings are in a file."""
        conf, events = self.folder / name / "conf", self.events(name)
        for each in (conf, events):
            each.mkdir(parents=True)
        lines = {**DEFAULTS, "spark.eventLog.dir": events.as_uri(), **properties}
        text = "".join(f"{key} {value}\n" for key, value in lines.items())
        (conf / "spark-defaults.conf").write_text(text)
        return {"SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": HERE, "LILY_SPARK": self.url}


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Standalone]:
    """Master and workers with nothing of ours in their environment, gone at the end."""
    port, pages = free_port(), free_port()
    url, at = f"spark://{HERE}:{port}", ["--host", HERE]
    started = [_start(folder, MASTER, *at, "--port", str(port), "--webui-port", str(pages))]
    try:
        _await(lambda: _answers(port), "master")
        for number in range(workers):
            has = ["--cores", str(CORES), "--memory", "2g"]
            has += ["--work-dir", str(folder / f"work-{number}"), "--webui-port", str(free_port())]
            started.append(_start(folder, WORKER, *at, *has, url))
        _await(lambda: _joined(pages) == workers, "workers")
        yield Standalone(url, folder, [each.pid for each in started[1:]])
    finally:
        for each in reversed(started):
            end(each)


def end(process: "subprocess.Popen[bytes]") -> None:
    """A process that leads a group, and all that it has started there."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _start(folder: Path, role: str, *line: str) -> "subprocess.Popen[bytes]":
    spark = _home()
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": HERE,
        "SPARK_CONF_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},  # noqa: TID251
    }
    with (folder / f"{role.rpartition('.')[2]}.log").open("ab") as output:
        return subprocess.Popen(
            [str(spark / "bin" / "spark-class"), role, *line],
            cwd=folder,
            env=env,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _home() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise NotStarted("there is no Spark here; install pyspark")
    return Path(found.origin).parent


def _await(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise NotStarted(f"the {what} of the Spark cluster did not come in {PATIENCE:.0f} s")
        time.sleep(0.1)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HERE, port), 1):
        return True
    return False


def _joined(pages: int) -> int:
    """Workers, as the master's page counts them."""
    with suppress(OSError), urlopen(f"http://{HERE}:{pages}/json/") as answer:
        return int(json.loads(answer.read())["aliveworkers"])
    return 0
