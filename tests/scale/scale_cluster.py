"""Lily's jobs on a standalone Spark cluster: a master and two workers on this machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
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
from lily.cli.bench import eventlog, shape
from lily.cli.bench.eventlog import DRIVER, Told
from lily.cli.broker import free_port
from lily.cli.bulk import ENDED
from lily.cli.standalone import Standalone, end, standalone
from lily.settings import Settings, child_environment, load
from lily.store import feed, raw
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.store.presence import alive
from lily.wiring import Core
from lily.wiring import core as build_core
from lily.wiring import services as build_services
from tests.flow.bulk import send, status
from tests.flow.people import Person, admin
from tests.serving import serving

PASSWORD = "not-for-anybodys-eyes"
PATIENCE = 240.0
ASSETS = 60_000  # two parts
BULK = "lily-bulk"
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
}
EXECUTOR = "CoarseGrainedExecutorBackend"
pytestmark = pytest.mark.timeout(600)


class Lily(msgspec.Struct):
    settings: Settings
    core: Core
    client: Client
    cluster: Standalone
    log: Path

    def person(self) -> Person:
        return admin(self.core, self.client)

    @contextmanager
    def running(
        self, stage: str, name: str, properties: dict[str, str], **env: str
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """A stage of the pipeline, as an application of the cluster, in a process of its own."""
        line = [sys.executable, "-m", "lily.cli", "pipeline", "--stage", stage]
        ours = child_environment(self.settings)
        given = {**self.cluster.application(name, properties), **env}
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

    def told_by_spark(self, name: str, application: str = "") -> Told:
        return eventlog.read(self.cluster.events(name), application)

    def told(self) -> str:
        return self.log.read_text()[-3000:]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def lily(
    server: Server, spark: Standalone, tmp_path_factory: pytest.TempPathFactory
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
    with lily.running("ingest", "corridor", more, LILY_SPARK_PYTHON=_other_python()) as process:
        began = time.monotonic()
        lily.until(lambda: _warm(lily), process)
        typer.echo(f"pipeline on the cluster warm after {time.monotonic() - began:.1f} s")
        spent = sorted(_until_readable(api, number) for number in range(40))
        typer.echo(f"POST and GET: p50 {spent[20] * 1000:.0f} ms, p95 {spent[37] * 1000:.0f} ms")
        _nothing_is_shown(lily, pages)
        lily.until(lambda: _tag_arrives(api), process)
    ran = lily.told_by_spark("corridor").counts
    typer.echo(f"tasks of the corridor by executor: {dict(ran)}")
    assert ran and DRIVER not in ran
    [written] = lily.cluster.events("corridor").glob("*")
    assert PASSWORD not in written.read_text()


def test_executors_load_a_file_and_the_driver_does_none_of_it(lily: Lily, tmp_path: Path) -> None:
    """Numbers are Spark's own, from its event log; which is faster depends on the cores here."""
    body, found = _estate(tmp_path), {}
    for executors in (1, 2):
        who, name = lily.person(), f"bulk-{executors}"
        with lily.running("bulk-work", name, {"spark.cores.max": str(executors)}) as process:
            job = send(who, body)["job_id"]
            lily.until(partial(_over, who, job), process)
            done = status(who, job)
        assert (done["state"], done["counts"]["created"]) == ("succeeded", ASSETS), lily.told()
        told = lily.told_by_spark(name, BULK)
        typer.echo(
            f"{executors} executors: {ASSETS} assets in {told.seconds:.1f} s of Spark's jobs;"
            f" tasks {dict(told.counts)}, their seconds {told.busy}"
        )
        assert set(told.counts) == set(told.executors), "every executor worked, and nobody else"
        assert len(told.executors) == executors
        assert any("MapInArrow" in plan for plan in told.plans)
        found[executors] = _state(lily, who)
    assert found[1] == found[2]


def test_executors_come_with_a_file_and_leave_after_it(lily: Lily, tmp_path: Path) -> None:
    """Dynamic allocation, as docs/how-to/spark-cluster.md has it; sooner."""
    body, done = _estate(tmp_path), []
    with lily.running("bulk-work", "dynamic", DYNAMIC) as process:
        for _ in range(2):
            who = lily.person()
            job = send(who, body)["job_id"]
            lily.until(partial(_over, who, job), process)
            done.append((status(who, job)["state"], _state(lily, who)))
            lily.until(lambda: _all_left(lily.told_by_spark("dynamic", BULK)), process)
    assert [state for state, _ in done] == ["succeeded", "succeeded"], lily.told()
    assert done[0] == done[1]
    told = lily.told_by_spark("dynamic", BULK)
    typer.echo(f"executors that came and left: {sorted(told.executors)}")
    assert len(told.counts) >= 2, "the second file had others than the first"
    assert DRIVER not in told.counts


def test_an_executor_killed_in_the_middle_changes_nothing(lily: Lily, tmp_path: Path) -> None:
    body = _estate(tmp_path)
    calm, rough = lily.person(), lily.person()
    with lily.running("bulk-work", "killed", {"spark.cores.max": "2"}) as process:
        first = send(calm, body)["job_id"]
        lily.until(partial(_over, calm, first), process)
        second = send(rough, body)["job_id"]
        with lily.core.database.unit(rough.tenant) as unit:
            unit.conn.execute("SELECT 1 FROM feed_head FOR UPDATE")  # they wait for it to go on
            lily.until(lambda: _somebody_waits(lily), process)
            os.kill(_executor(lily.cluster), signal.SIGKILL)
            lily.until(lambda: lily.told_by_spark("killed", BULK).lost, process)
        lily.until(partial(_over, rough, second), process)
    assert [status(calm, first)["state"], status(rough, second)["state"]] == ["succeeded"] * 2
    assert _state(lily, calm) == _state(lily, rough)


def _all_left(told: Told) -> bool:
    return bool(told.executors) and {*told.executors} == {*told.lost}


def _somebody_waits(lily: Lily) -> bool:
    with lily.core.database.home() as conn:
        [[waiting]] = conn.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall()
    return int(waiting) > 0


def _executor(cluster: Standalone) -> int:
    """The process of the newest executor; those of other applications may not be gone yet."""
    found = []
    for worker in cluster.workers:
        for process in psutil.Process(worker).children():
            with suppress(psutil.Error):
                if EXECUTOR in " ".join(process.cmdline()):
                    found.append((process.create_time(), process.pid))
    return max(found)[1]


def _estate(folder: Path) -> bytes:
    path = folder / "estate.ndjson"
    with path.open("wb") as file:
        shape.write(file, ASSETS, 1)
    return path.read_bytes()


def _over(who: Person, job: str) -> bool:
    return status(who, job)["state"] in ENDED


def _state(lily: Lily, who: Person) -> tuple[Any, ...]:
    with lily.core.database.unit(who.tenant) as unit:
        assert feed.check(unit) is None
        return raw.state(unit), raw.told(unit, "%/%")


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
    assert any(EXECUTOR in line for line in lines)
    assert [line for line in lines if PASSWORD in line] == []
    base = f"http://127.0.0.1:{pages}/api/v1/applications"
    with urlopen(base) as answer:
        [application] = json.loads(answer.read())
    for page in ("environment", "sql", "executors", "jobs"):
        with urlopen(f"{base}/{application['id']}/{page}") as answer:
            text = answer.read().decode()
        assert PASSWORD not in text, page
    assert "spark.archives" in urlopen(f"{base}/{application['id']}/environment").read().decode()


def _other_python() -> str:
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
