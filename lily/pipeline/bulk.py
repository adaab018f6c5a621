"""The bulk job: Spark reads the parts of a file, executors merge them chunk by chunk.

Core assets of the whole file first, then fields. Each chunk is its own short transaction with its
own guard, so a job that was killed goes on where it stopped.
"""

import errno
import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from lily import wiring
from lily.errors import LilyError
from lily.formats.columns import Format
from lily.pipeline import bulk_archive
from lily.pipeline.hooks import HookCache, load_hooks
from lily.pipeline.parts import Origin, chunks, convert
from lily.pipeline.session import session
from lily.store.bulk import Loader, Place
from lily.store.database import direct
from lily.store.ingest import Ingest
from lily.store.jobs import Board, Job
from lily.store.spool import PART, Folder, part_of, parts_of, sweep
from lily.store.throttle import Throttle
from lily.tags.effective import effective
from lily.telemetry import logger
from lily.types import LANES, Lane, Tenant
from lily.wiring import Core

IDLE = 60.0
POLL = 0.2
BEAT = 2.0
SCHEMA = "part int, chunks int, seconds double, waited double"
# The JVM only hands bytes on: compiled lightly it starts sooner, and leaves the cores to others.
QUICK = "-XX:TieredStopAtLevel=1"


class Task(msgspec.Struct, frozen=True):
    """What an executor has to know; the settings are packed, for it may be on another machine."""

    settings: str
    runner: UUID
    lane: Lane
    origin: Origin


def work(core: Core, stop: Event, idle: float = IDLE) -> None:
    """Do the jobs that wait, and end when there was none for a while."""
    packed = wiring.pack(core.settings)
    runner = uuid4()
    board = Board(core.database, runner)
    chosen = core.settings
    spark = session(core, "lily-bulk", QUICK, master=_wide(chosen.spark), modest=False)
    # A part is a task, and a record: it is read whole, and split where it is merged.
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(PART))
    spark.conf.set("spark.sql.files.openCostInBytes", str(PART))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    quiet = 0.0
    loaded: list[Path] = []  # their lines are archived when no job waits
    try:
        sweep(chosen.home / "spool", board.needed, loaded.append)
        while not stop.is_set() and quiet < idle:
            job = board.claim()
            if job is not None:
                quiet = 0.0
                run = Run(core, board, spark, job, runner, packed, stop)
                loaded += run.run()
            elif loaded:
                bulk_archive.keep_left_over(core, loaded.pop(0))
            else:
                quiet = 0.0 if board.waiting() else quiet + POLL
                stop.wait(POLL)
    finally:
        spark.stop()


def _wide(master: str) -> str:
    """One more task than cores: while one waits for the tenant's feed, the others work."""
    if master == "local[*]":
        return f"local[{len(os.sched_getaffinity(0)) + 1}]"
    return master


class Run:
    """One job, from parts to the end."""

    def __init__(
        self,
        core: Core,
        board: Board,
        spark: SparkSession,
        job: Job,
        runner: UUID,
        settings: str,
        stop: Event,
    ) -> None:
        self._core = core
        self._board = board
        self._spark = spark
        self._job = job
        self._runner = runner
        self._settings = settings
        self._stop = stop
        self._tenant: Tenant = core.database.tenant(job.tenant)
        self._folder = Folder(core.settings.home / "spool", job.id)
        self._lost = Event()

    def run(self) -> list[Path]:
        """The folder with its lines, if all of them are loaded."""
        job, cell = self._job, self._tenant.cell
        logger(__name__).info("bulk job begins", job=str(job.id), format=job.format)
        with self._beating():
            try:
                self._prepare()
                for lane in LANES:
                    self._board.stage(cell, job, lane)
                    self._lane(lane)
                rejected = self._board.counts(cell, job).rejected
                bulk_archive.promise(self._folder, self._origin())
                self._board.finish(cell, job, "partial" if rejected else "succeeded")
                return [self._folder.path]
            except Exception as cause:  # noqa: BLE001  a job must say what happened to it
                self._failed(cause)
        return []

    def _prepare(self) -> None:
        """Parts on disk, and places in the lanes for all lines."""
        job, cell = self._job, self._tenant.cell
        lines = job.lines
        if not self._folder.parts.exists():
            if not self._folder.upload.exists():
                raise FileNotFoundError("the uploaded file is gone; send it again")
            self._board.stage(cell, job, "converting")
            format: Format = job.format  # type: ignore[assignment]
            lines = convert(self._folder, format)
        self._board.reserve(cell, job, lines or 0)

    def _lane(self, lane: Lane) -> None:
        if not any(parts_of(self._folder.parts)):
            return
        job = self._job
        task = Task(self._settings, self._runner, lane, self._origin())
        parts = self._spark.read.format("binaryFile").load(str(self._folder.parts))
        done = parts.select(*self._columns()).mapInArrow(_executor(task), SCHEMA).collect()
        logger(__name__).info(
            "lane merged",
            job=str(job.id),
            lane=lane,
            chunks=sum(row.chunks for row in done),
            seconds=round(sum(row.seconds for row in done), 1),
            waited=round(sum(row.waited for row in done), 1),
        )

    def _origin(self) -> Origin:
        job = self._job
        return Origin(
            self._tenant, job.id, job.by, job.traceparent, job.accepted_at, job.core_offset,
            job.fields_offset,
        )  # fmt: skip

    def _columns(self) -> tuple[str, ...]:
        """Of a file that executors can open, the JVM only has to say where it is."""
        local = "://" not in str(self._folder.parts)
        return ("path",) if local else ("path", "content")

    def _failed(self, cause: Exception) -> None:
        """Cancelled and taken over need no word; everything else is a reason."""
        job, cell = self._job, self._tenant.cell
        if self._stop.is_set():
            with suppress(LilyError):
                self._board.release(cell, job)
            return
        with suppress(LilyError):
            if not self._lost.is_set() and self._board.beat(cell, job):
                reason = reason_of(cause)
                logger(__name__).error("bulk job failed", job=str(job.id), reason=reason)
                self._board.finish(cell, job, "failed", reason)
                return
        logger(__name__).info("bulk job is no longer ours", job=str(job.id))

    @contextmanager
    def _beating(self) -> Iterator[None]:
        ended = Event()
        thread = Thread(target=self._beat, args=(ended,), name="beat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _beat(self, ended: Event) -> None:
        while not ended.wait(BEAT):
            ours = True
            with suppress(LilyError):
                ours = self._board.beat(self._tenant.cell, self._job)
            if not ours:
                self._lost.set()
            if not ours or self._stop.is_set():
                self._spark.sparkContext.cancelAllJobs()


def reason_of(cause: Exception) -> str:
    """What happened, in a sentence; Spark's stack traces are cut to their last words."""
    if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
        return "The disk of the spool is full; make room and resume the job."
    if isinstance(cause, LilyError | OSError):
        return str(cause)
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line or line.startswith("lily.errors.")]
    return (told[-1] if told else lines[0] if lines else type(cause).__name__)[:1000]


# On executors -----------------------------------------------------------------------------------


class Worker:
    """What a Python worker keeps between tasks: connections, hooks, tenants."""

    def __init__(self, settings: str) -> None:
        self.core = wiring.unpacked(settings, "lily_system")
        self._hooks: HookCache = {}
        self._loaders: dict[UUID, Loader] = {}

    def load(self, task: Task, path: str, content: bytes) -> tuple[int, float, float]:
        """Merge one lane of a part; chunks, seconds, and seconds waited for the core lane."""
        began, waited = monotonic(), 0.0
        origin, tenant = task.origin, task.origin.tenant
        part = part_of(path)
        place = Place(tenant, origin.job, task.runner, task.lane, part.number)
        loader = self._loader(task)
        throttle = Throttle(self.core.database, tenant.cell, Event())
        with self.core.database.cell(tenant.cell, [tenant.number]) as conn:
            hooks = load_hooks(conn, [tenant.number], self.core.seal.open, self._hooks)
        mine = hooks.get(tenant.number, [])
        count = 0
        for chunk in chunks(part, content, task.lane, origin, mine, loader.done(place)):
            waited += throttle.wait()
            loader.apply(place, chunk)
            count += 1
        return count, monotonic() - began, waited

    def _loader(self, task: Task) -> Loader:
        tenant = task.origin.tenant
        found = self._loaders.get(task.origin.job)
        if found is None:
            for old in self._loaders.values():
                old.close()
            priorities = self.core.database.priorities()
            ingest = Ingest(effective, lambda _: tenant, lambda n: priorities.get(n, {}))
            database, clock = self.core.database, self.core.clock
            found = Loader(lambda: direct(database, tenant.cell), ingest, clock.now, Event())
            self._loaders = {task.origin.job: found}
        return found


_workers: dict[str, Worker] = {}


def _executor(task: Task) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield merge(task, batch)

    return run


def merge(task: Task, batch: Any) -> pa.RecordBatch:
    """Runs where Spark wants it to."""
    worker = _workers.get(task.settings)
    if worker is None:
        worker = _workers[task.settings] = Worker(task.settings)
        gc.freeze()
    rows = []
    gc.disable()  # a chunk has no cycles, and looking for them costs a third of the time
    try:
        for name, content in _contents(batch):
            done = worker.load(task, name, content)
            rows.append((part_of(name).number, *done))
    finally:
        gc.enable()
    return pa.RecordBatch.from_arrays(
        [
            pa.array(column, kind)
            for column, kind in zip(zip(*rows, strict=True), ARROW, strict=True)
        ],
        names=["part", "chunks", "seconds", "waited"],
    )


def _contents(batch: Any) -> Iterator[tuple[str, bytes]]:
    for row, path in enumerate(batch.column(0).to_pylist()):
        if batch.num_columns == 1:
            yield path, Path("/" + path.removeprefix("file:").lstrip("/")).read_bytes()
        else:
            yield path, batch.column(1)[row].as_buffer().to_pybytes()


ARROW = (pa.int32(), pa.int32(), pa.float64(), pa.float64())
