"""The Spark session: local by default, any master by setting."""

import logging
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.errors import Fenced
from lily.pipeline import shipping
from lily.store.presence import is_gone
from lily.wiring import Core

CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
NOTED = "5000"  # milliseconds

# More than Spark hides by itself: what its pages show must let nobody in.
SECRETS = "(?i)secret|passw|token|access[.]?key|credential|jaas|sasl"


def session(
    core: Core,
    application: str,
    java: str = "",
    more: Mapping[str, str] | None = None,
    master: str = "",
    modest: bool = True,
) -> SparkSession:
    """A session made for small, quick batches: see docs/decisions for each choice.

    On a cluster who is `modest` takes only so many cores as the settings say, because it stays.
    """
    logging.getLogger("py4j").setLevel(logging.WARNING)
    chosen, scratch = core.settings, core.settings.home / "spark"
    scratch.mkdir(parents=True, exist_ok=True)
    where = master or chosen.spark
    placed = _local() if where.startswith("local") else _cluster(core, scratch, modest)
    options = {
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        # A million rows look small to Spark, and do not fit into a driver's memory.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        # A batch is larger than a megabyte, and would go through the block manager and a socket.
        "spark.task.maxDirectResultSize": "32m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.pythonUDF.arrow.enabled": "true",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.sql.ui.explainMode": "simple",  # of each batch, written whether anybody looks or not
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.log.level": "ERROR",
        **placed,
        **(more or {}),
    }
    _start_java(chosen.spark_memory, f"{_java(scratch)} {java}", options.get("spark.jars", ""))
    builder = SparkSession.builder.master(where).appName(application)
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _start_java(memory: str, options: str, jars: str) -> None:
    """The JVM, told only what it cannot be told later.

    Left to itself Spark writes the whole configuration on its command line, for all to read.
    """
    told = ["--driver-memory", memory, "--driver-java-options", options.strip()]
    told += ["--jars", jars] if jars else []
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*told, "pyspark-shell"])  # noqa: TID251
    SparkContext._ensure_initialized()


def _local() -> dict[str, str]:
    # Spark reads these from nowhere else when the session is made in a running interpreter.
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")  # noqa: TID251
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def _cluster(core: Core, scratch: Path, modest: bool) -> dict[str, str]:
    """Executors elsewhere: they get the code; spark-defaults.conf says what else they need."""
    chosen = core.settings
    given = chosen.spark_python
    os.environ["PYSPARK_PYTHON"] = given or sys.executable  # noqa: TID251
    if given:
        # Streaming sources run here, with that interpreter, and have to find what we have.
        os.environ["PYTHONPATH"] = os.pathsep.join(shipping.places())  # noqa: TID251
    shipped = shipping.archive(scratch / "shipped", whole=bool(given))
    options = {
        "spark.archives": f"{shipped}#{shipping.FOLDER}",
        "spark.executorEnv.PYTHONPATH": shipping.FOLDER,
        "spark.redaction.regex": SECRETS,
        "spark.executor.syncLogLevel.enabled": "true",  # else each task writes lines on its worker
    }
    return {**options, "spark.cores.max": str(chosen.spark_cores)} if modest else options


def fresh_checkpoint(folder: Path) -> Path:
    """A new one each start: where to go on is in the store, together with the rows.

    Those of processes of this machine that are gone are removed; one that stands by in the same
    folder keeps its own.
    """
    prefix = f"{socket.gethostname()}~"
    for each in folder.glob(f"{prefix}*~*"):
        pid = int(each.name.removeprefix(prefix).partition("~")[0])
        if pid == os.getpid() or is_gone(pid):
            shutil.rmtree(each, ignore_errors=True)
    return folder / f"{prefix}{os.getpid()}~{uuid4().hex}"


def progress(checkpoint: Path) -> dict[str, str]:
    """How a query notes how far it has come: now and then, beside its batches.

    Nobody ever goes on from these notes. To write them before and after each batch takes four
    processes (`chmod`, for want of Hadoop's native library) and 16 ms.
    """
    return {
        "checkpointLocation": str(checkpoint),
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": NOTED,
        # Spark asks for a sink of which it knows that it bears batches twice: ours does.
        "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
    }


def check(query: StreamingQuery) -> None:
    """A query that ended takes the process with it; the supervisor starts a new one."""
    if query.isActive:
        return
    cause = query.exception()
    if cause is not None and "Fenced" in str(cause):
        raise Fenced("another pipeline has moved the position; starting over behind it")
    raise cause or StreamingQueryException("the query ended by itself")


def _java(scratch: Path) -> str:
    """A small heap that gives memory back, and no files outside the scratch folder.

    Only the quick compiler: the other one took 40 to 75 µs an event in the first minutes, and
    never got it back, because the JVM only plans and passes on. Room for the young, because
    each batch is garbage a moment later.
    """
    return (
        f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch} -XX:+UseSerialGC"
        " -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=25 -Xss512k"
        " -XX:TieredStopAtLevel=1 -Xms192m -Xmn128m -XX:SurvivorRatio=4"
    )
