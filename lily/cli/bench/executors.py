"""`lily bench executors`: one file, loaded on a Spark cluster by one executor, then by more.

Each time into an empty Lily. Who did the work is told by Spark's event log and by the CPU time of
driver and workers; executors have one core each.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from lily.cli.bench import bulk, eventlog
from lily.cli.bench.eventlog import DRIVER, Told
from lily.cli.bench.load import play
from lily.cli.bench.place import own
from lily.cli.bench.report import Report
from lily.cli.bench.usage import Meter
from lily.cli.failures import Failure
from lily.cli.standalone import NotStarted, Standalone, standalone
from lily.clock import SystemClock

APPLICATION = "lily-bulk"
PLAN = "MapInArrow"  # what of the plan is ours


def measure(assets: int, seed: int, counts: Sequence[int]) -> Report:
    report, took = Report("executors"), {}
    with tempfile.TemporaryDirectory(prefix="lily-executors-") as name:
        folder = Path(name)
        path = folder / "estate.ndjson"
        bulk.made(report, path, assets, seed)
        try:
            with standalone(folder, max(counts)) as cluster:
                for count in counts:
                    took[count] = _load(report, cluster, path, count, assets)
        except NotStarted as cause:
            raise Failure(str(cause)) from cause
    for count in counts[1:]:
        report.add(
            f"{count} executors, times as fast as {counts[0]}", took[counts[0]] / took[count], ""
        )
    return report


def _load(report: Report, cluster: Standalone, path: Path, count: int, assets: int) -> float:
    """Seconds of Spark's jobs."""
    name = f"with-{count}"
    env = cluster.application(name, {"spark.cores.max": str(count)})
    typer.echo(f"Loading with {count} executors …", err=True)
    with own(LILY_SPARK_CORES="1", LILY_LAKE="off", **env) as plain:
        servers = {f"worker {number}": pid for number, pid in enumerate(cluster.workers, 1)}
        where = replace(plain, servers=servers)
        bulk.first(where, path.parent)  # Spark starts for it, and gets its executors
        meter, began = Meter(where), SystemClock().now().timestamp()
        watch = play(bulk.load(where, path))
        spent = meter.seconds()
        if watch.job.get("state") != "succeeded":
            raise Failure(f"The job {watch.job.get('state')}: {watch.job.get('reason')}")
        told = eventlog.read(cluster.events(name), APPLICATION).since(began)
    _tell(report, count, told, watch.ended - watch.began, spent, assets)
    return told.seconds


def _tell(
    report: Report, count: int, told: Told, whole: float, spent: dict[str, float], assets: int
) -> None:
    each = f"{count} executor{'s' if count > 1 else ''}"
    report.add(f"{each}: Spark's jobs", told.seconds, "s")
    report.add(f"{each}: rate of Spark's jobs", assets / told.seconds, "assets/s")
    report.add(f"{each}: first byte → last row readable", whole, "s")
    report.add(f"{each}: executors that had tasks", len(told.counts), "", count, "more")
    report.add(f"{each}: tasks on the driver", told.counts[DRIVER], "tasks", 0)
    workers = sum(seconds for group, seconds in spent.items() if group.startswith("worker "))
    report.add(f"{each}: CPU of executors", workers, "s")
    report.add(f"{each}: CPU of the driver", spent.get("bulk", 0.0), "s")
    report.add(f"{each}: CPU of PostgreSQL", spent.get("postgresql", 0.0), "s")
    for executor, busy in sorted(told.busy.items()):
        report.notes.append(
            f"{each}: number {executor} ran {told.counts[executor]} tasks, {busy:.1f} s in all"
        )
    if not any(PLAN in plan for plan in told.plans):
        raise Failure(f"No plan in Spark's event log has {PLAN}")
