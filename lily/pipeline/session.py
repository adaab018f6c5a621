"""The Spark session: local by default, any master by setting."""

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.errors import Fenced

CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def session(
    master: str,
    memory: str,
    scratch: Path,
    application: str,
    java: str = "",
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session made for small, quick batches: see docs/decisions for each choice."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    scratch.mkdir(parents=True, exist_ok=True)
    # Spark reads these from nowhere else when the session is made in a running interpreter.
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")  # noqa: TID251
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{_java(scratch)} {java}".strip(),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.pythonUDF.arrow.enabled": "true",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(master).appName(application)
    for name, value in {**options, **(more or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def fresh_checkpoint(folder: Path) -> Path:
    """A new one each start: where to go on is in the store, together with the rows."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder / uuid4().hex


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
        " -XX:TieredStopAtLevel=1 -Xms128m -Xmn64m"
    )
