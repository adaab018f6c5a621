"""Lily's jobs on a standalone Spark cluster: a master and two workers on this machine."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import psutil
import pytest
import typer
from httpx import Client
from psycopg.conninfo import make_conninfo

from lily.api.app import create_app
from lily.settings import Settings, child_environment, load
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.store.presence import alive
from lily.wiring import Core
from lily.wiring import core as build_core
from lily.wiring import services as build_services
from tests.flow.people import Person, admin
from tests.scale.cluster import Cluster, cluster, end, free_port, other_python, tasks
from tests.serving import serving

PASSWORD = "not-for-anybodys-eyes"
PATIENCE = 150.0
pytestmark = pytest.mark.timeout(600)


class Lily(msgspec.Struct):
    settings: Settings
    core: Core
    client: Client
    cluster: Cluster
    log: Path

    def person(self) -> Person:
        return admin(self.core, self.client)

    @contextmanager
    def running(
        self, stage: str, name: str, properties: dict[str, str], **env: str
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """A stage of the pipeline, as an application of the cluster, in a process of its own."""
        line = [sys.executable, "-m", "lily.cli", "pipeline", "--stage", stage]
        given = {**self.cluster.application(name, properties), **env}
        ours = child_environment(self.settings)
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                line, env={**ours, **given}, stdout=output, stderr=output, start_new_session=True
            )
        try:
            yield process
        finally:
            end(process)

    def until(self, what: Any, process: "subprocess.Popen[bytes]") -> None:
        over = time.monotonic() + PATIENCE
        while not what():
            assert process.poll() is None and time.monotonic() < over, self.told()
            time.sleep(0.1)

    def told(self) -> str:
        return self.log.read_text()[-3000:]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def lily(
    server: Server, spark: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lily]:
    home = tmp_path_factory.mktemp("home")
    url = make_conninfo(server.create_database("on_cluster"), password=PASSWORD)
    migrate(url)
    settings = load(home=home, database=url, spark=spark.url)
    core = build_core(settings, "lily_app")
    with serving(create_app(build_services(core))) as client:
        yield Lily(settings, core, client, spark, home / "pipeline.log")
    core.close()


def test_the_corridor_runs_on_executors_that_know_nothing_of_lily(lily: Lily) -> None:
    """POST → GET, then a tag along lineage; code and dependencies arrive by Spark."""
    pages = free_port()
    more = {"spark.ui.enabled": "true", "spark.ui.port": str(pages)}
    api = lily.person()
    with lily.running("ingest", "corridor", more, LILY_SPARK_PYTHON=other_python()) as process:
        began = time.monotonic()
        lily.until(lambda: _warm(lily), process)
        typer.echo(f"pipeline on the cluster warm after {time.monotonic() - began:.1f} s")
        spent = sorted(_until_readable(api, number) for number in range(40))
        typer.echo(f"POST and GET: p50 {spent[20] * 1000:.0f} ms, p95 {spent[37] * 1000:.0f} ms")
        _nothing_is_shown(lily, pages)
        lily.until(lambda: _tag_arrives(api), process)
    ran = tasks(lily.cluster.events("corridor"))
    typer.echo(f"tasks of the corridor by executor: { {who: len(f) for who, f in ran.items()} }")
    assert ran and "driver" not in ran
    assert PASSWORD not in json.dumps(lily.cluster.events("corridor"))


def _warm(lily: Lily) -> bool:
    return any(each.detail.get("warm") for each in alive(lily.core.database, "pipeline"))


def _post(api: Person, body: Any) -> Any:
    return api.client.post("/api/v1/metadata", json=body, headers=api.headers)


def _until_readable(api: Person, number: int) -> float:
    """Seconds. Where cores are scarce the first ones are answered with 202."""
    name, began = f"cluster/table_{number}", time.monotonic()
    made = _post(api, {"qualified_name": name, "asset_type": "table"})
    assert made.status_code in (201, 202), made.text
    path = f"/api/v1/metadata/{made.json()['guid']}"
    while (read := api.client.get(path, headers=api.headers)).status_code == 404:
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.05)
    assert read.json()["qualified_name"] == name
    return time.monotonic() - began


def _tag_arrives(api: Person) -> bool:
    """From an asset to the one that is made of it."""
    _post(api, {"qualified_name": "cluster/table_0", "asset_type": "table", "tags": ["PII"]})
    edge = {"from": "cluster/table_0", "to": "cluster/table_1", "relationship_type": "feeds"}
    api.client.post("/api/v1/metadata/lineage", json=edge, headers=api.headers)
    found = api.client.get("/api/v1/metadata/cluster%2Ftable_1", headers=api.headers)
    return "PII" in found.json().get("tags", ())


def _nothing_is_shown(lily: Lily, pages: int) -> None:
    """The password is in the URL of the database, and nowhere that others look."""
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append("\0".join(process.cmdline()))
        except psutil.Error:
            continue
    assert any("CoarseGrainedExecutorBackend" in line for line in lines)
    assert [line for line in lines if PASSWORD in line] == []
    base = f"http://127.0.0.1:{pages}/api/v1/applications"
    with urlopen(base) as answer:
        [application] = json.loads(answer.read())
    for page in ("environment", "sql", "executors", "jobs"):
        with urlopen(f"{base}/{application['id']}/{page}") as answer:
            text = answer.read().decode()
        assert PASSWORD not in text, page
    assert "spark.archives" in urlopen(f"{base}/{application['id']}/environment").read().decode()
