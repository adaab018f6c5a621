"""A standalone Spark cluster on this machine: a master and workers that know nothing of Lily."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import psutil
import pyspark

SPARK = Path(pyspark.__file__).parent
CORES = 2
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
PATIENCE = 60.0


class Cluster(msgspec.Struct):
    """Where it is, and the folder in which applications log what they do."""

    url: str
    folder: Path
    processes: list[Any] = []

    def application(self, name: str, properties: Mapping[str, str]) -> dict[str, str]:
        """The environment of a driver, with a spark-defaults.conf such as an operator writes."""
        conf, events = self.folder / name / "conf", self.folder / name / "events"
        for each in (conf, events):
            each.mkdir(parents=True)
        lines = {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            **properties,
        }
        text = "".join(f"{key} {value}\n" for key, value in lines.items())
        (conf / "spark-defaults.conf").write_text(text)
        return {
            **os.environ,  # noqa: TID251
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "LILY_SPARK": self.url,
        }

    def events(self, name: str) -> list[dict[str, Any]]:
        """What Spark itself has written down of an application, so far."""
        found = [
            line
            for path in sorted((self.folder / name / "events").glob("*"))
            for line in path.read_bytes().splitlines(keepends=True)
        ]
        return [json.loads(line) for line in found if line.endswith(b"\n")]


def tasks(events: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Seconds of each task that went well, by the executor that it ran on."""
    found: dict[str, list[float]] = {}
    for each in events:
        if (
            each["Event"] == "SparkListenerTaskEnd"
            and each["Task End Reason"]["Reason"] == "Success"
        ):
            info = each["Task Info"]
            took = (info["Finish Time"] - info["Launch Time"]) / 1000
            found.setdefault(info["Executor ID"], []).append(took)
    return found


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Master and workers with nothing of ours in their environment, gone at the end."""
    port, pages = free_port(), free_port()
    made = Cluster(f"spark://127.0.0.1:{port}", folder)
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(folder),
        **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},  # noqa: TID251
    }
    try:
        at = ["--host", "127.0.0.1"]
        made.processes.append(
            start(folder, env, MASTER, *at, "--port", str(port), "--webui-port", str(pages))
        )
        wait(port)
        for number in range(workers):
            work = folder / f"work-{number}"
            more = ["--cores", str(CORES), "--memory", "2g", "--work-dir", str(work)]
            line = [*at, *more, "--webui-port", str(free_port()), made.url]
            made.processes.append(start(folder, env, WORKER, *line))
        joined(pages, workers)
        yield made
    finally:
        for process in reversed(made.processes):
            end(process)


def start(folder: Path, env: Mapping[str, str], role: str, *line: str) -> "subprocess.Popen[bytes]":
    with (folder / f"{role.rpartition('.')[2]}.log").open("ab") as output:
        return subprocess.Popen(
            [str(SPARK / "bin" / "spark-class"), role, *line],
            cwd=folder,
            env={**env, "SPARK_DAEMON_MEMORY": "256m"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def end(process: "subprocess.Popen[bytes]") -> None:
    """With everything that it has started."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for each in below:
        try:
            each.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def joined(pages: int, workers: int) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{pages}/json/") as answer:
                if json.loads(answer.read())["aliveworkers"] == workers:
                    return
        except OSError:
            pass
        assert time.monotonic() < until, "workers did not join"
        time.sleep(0.2)


def wait(port: int) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            assert time.monotonic() < until, f"nobody listens on {port}"
            time.sleep(0.1)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def other_python() -> str:
    """An interpreter of the same version without Lily, if there is one; else the running one."""
    asked = "import sys; print(*sys.version_info[:2], sep='.')"
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("/usr/bin/python3", f"/usr/bin/python{ours}"):
        if shutil.which(name) is not None:
            done = subprocess.run([name, "-c", asked], capture_output=True, text=True)
            has = subprocess.run([name, "-c", "import msgspec"], capture_output=True)
            if done.stdout.strip() == ours and has.returncode:
                return name
    return ""
