"""An S3 server and an Iceberg REST catalog, fetched once, run for a test."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import httpx

from tests.scale.tools import by_pip
from tests.scale.trino_server import COPY, CannotFetch, fetch, free_port, java

MOTO = "moto[server]==5.2.5"
NESSIE = "0.99.0"
ICEBERG = "1.12.0"
CACHE = Path.home() / ".cache" / "lily"
BUCKET = "company-lake"
STARTING = 120.0
Missing = Callable[[str], NoReturn]


@contextmanager
def s3(folder: Path, missing: Missing) -> Iterator[str]:
    """The address of an empty S3 with one bucket; any key opens it."""
    place = by_pip(MOTO, missing)
    port = free_port()
    line = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    address = f"http://127.0.0.1:{port}"
    with _running(line, folder / "s3.log", f"{address}/", {"PYTHONPATH": str(place)}):
        assert httpx.put(f"{address}/{BUCKET}").status_code == 200
        yield address


@contextmanager
def nessie(folder: Path, storage: str, missing: Missing) -> Iterator[str]:
    """The address of a REST catalog whose warehouse `lily` is the bucket."""
    try:
        program = java()
        jar = _jar("org.projectnessie.nessie:nessie-quarkus", NESSIE, "runner")
    except CannotFetch as cause:
        missing(str(cause))
    port, other = free_port(), free_port()
    options = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.port": other,
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lily",
        "nessie.catalog.warehouses.lily.location": f"s3://{BUCKET}",
        "nessie.catalog.service.s3.default-options.endpoint": storage,
        "nessie.catalog.service.s3.default-options.path-style-access": "true",
        "nessie.catalog.service.s3.default-options.region": "us-east-1",
        "nessie.catalog.service.s3.default-options.request-signing-enabled": "false",
        "nessie.catalog.service.s3.default-options.access-key": "urn:nessie-secret:quarkus:lily.s3",
        "lily.s3.name": "test",
        "lily.s3.secret": "test",
    }
    line = [str(program), "-Xmx384m", "-XX:+UseSerialGC"]
    line += [f"-D{name}={value}" for name, value in options.items()]
    address = f"http://127.0.0.1:{port}/iceberg"
    with _running([*line, "-jar", str(jar)], folder / "nessie.log", f"{address}/v1/config"):
        yield f"rest:{address}/?warehouse=lily"


def bundle(missing: Missing) -> Path:
    """The jar with which Spark's Iceberg writes to S3."""
    try:
        return _jar("org.apache.iceberg:iceberg-aws-bundle", ICEBERG)
    except CannotFetch as cause:
        missing(str(cause))


def _jar(artefact: str, version: str, kind: str = "") -> Path:
    folder = CACHE / artefact.partition(":")[2]
    if not (found := list(folder.glob(f"*{version}*.jar"))):
        whole = f"{artefact}:{version}" + (f":jar:{kind}" if kind else "")
        where = [f"-Dartifact={whole}", f"-DoutputDirectory={folder}"]
        fetch(["mvn", "-q", "-B", COPY, *where], whole)
        found = list(folder.glob(f"*{version}*.jar"))
    return found[0]


@contextmanager
def _running(
    line: list[str], log: Path, ready: str, more: dict[str, str] | None = None
) -> Iterator[None]:
    """A server, from when it answers until the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(line, stdout=output, stderr=output, env=more, cwd=log.parent)
    try:
        _wait(process, ready, log)
        yield
    finally:
        process.terminate()
        process.wait(20)


def _wait(process: "subprocess.Popen[bytes]", ready: str, log: Path) -> None:
    end = time.monotonic() + STARTING
    while True:
        try:
            if httpx.get(ready, timeout=5).status_code < 500:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{ready} does not answer: {log.read_text()[-2000:]}")
        time.sleep(0.2)
