"""The lake stage: every half minute, what the store has gained goes into the Iceberg tables.

Spark only keeps the time. The stage asks the store by position, and each table says itself how
far it goes, so it may die at any point and go on where the last commit ended.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event, Lock
from time import monotonic

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.errors import Unavailable
from lily.pipeline.archive import CellArchive, Writer
from lily.pipeline.session import check, fresh_checkpoint, progress, session
from lily.store.database import HOME
from lily.store.presence import alive, is_loading, presence
from lily.telemetry import LOOP_FAILURES, logger
from lily.wiring import Core, lake_storage, rest_catalog, warehouse

EVERY = "30 seconds"
BUDGET = 20.0  # seconds a tick, half of them at rest: the ingest job lives in the same process
UPKEEP_EVERY = 3600.0
FIRST_UPKEEP = 600.0
PATIENCE = 3  # ticks in a row that are left to work that is waited for
BEAT = 0.5
LIMIT = 3.0  # its commits are all or nothing, so it may be cut off


def start(spark: SparkSession, stage: "LakeStage", checkpoint: Path) -> StreamingQuery:
    """A query that does nothing but call the stage; it costs no process of its own."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return (
        ticks.writeStream.foreachBatch(stage.tick)
        .trigger(processingTime=EVERY)
        .options(**progress(checkpoint))
        .start()
    )


def run(core: Core, stop: Event, jars: Path | None = None) -> None:
    """The stage as an application of its own; that of the ingest application then rests.

    With the jars Spark itself writes the latest tables of the shared cell.
    """
    home = core.settings.home
    found = sorted(jars.glob("*.jar")) if jars is not None else []
    with presence(core, "lake") as me:
        me.say(state="starting")
        spark, writers = with_jars(core, home / "spark", found)
        stage = LakeStage(core, stop, guest=False, writers=writers)
        try:
            query = start(spark, stage, fresh_checkpoint(home / "checkpoints" / "lake-alone"))
            me.say(state="active")
            while not stop.wait(BEAT):
                check(query)
            stage.finish(LIMIT)
        finally:
            stage.close()
            spark.stop()


def with_jars(
    core: Core, scratch: Path, jars: Sequence[Path]
) -> tuple[SparkSession, dict[str, Writer]]:
    """A session, and who writes the latest tables of which cell: a catalog is called the same in
    every cell, and a session can have only one of a name, so it is the shared cell's."""
    from lily.pipeline.lake_merge import ByMerge, in_database, on_s3, options

    chosen = core.settings
    place = warehouse(chosen, HOME)
    if chosen.lake_catalog == "database":
        catalog = in_database(core.database.place_of(HOME), place)
    else:
        catalog = rest_catalog(chosen)
    if place.startswith("s3:"):
        catalog |= on_s3(lake_storage(chosen))
    more = options(catalog, jars) if jars else {}
    spark = session(core, "lily-lake", more=more)
    return spark, {HOME: ByMerge(spark, scratch)} if jars else {}


class LakeStage:
    """Archives all cells. A lake that fails is tried again with the next tick.

    As a guest of the ingest application it leaves the work to one that runs for itself, and while
    that application is `pressed` it waits a while.
    """

    def __init__(
        self,
        core: Core,
        stop: Event,
        guest: bool = True,
        writers: Mapping[str, Writer] | None = None,
        pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._core = core
        self._pressed = pressed
        self._writers = writers or {}
        self._stop = stop
        self._cells: dict[str, CellArchive] = {}
        self._upkeep_at = monotonic() + FIRST_UPKEEP
        self._yielded = 0
        self._hurried = False  # others wait for the same machine
        self._guest = guest
        self.busy = Lock()

    def tick(self, _: DataFrame, __: int) -> None:
        if self._yields():
            return
        with self.busy:
            began = monotonic()
            self._safely(lambda: self._archive_all(began + BUDGET))
            if monotonic() > self._upkeep_at and not self._stop.is_set():
                self._upkeep_at = monotonic() + UPKEEP_EVERY
                for each in self._cells.values():
                    self._safely(each.upkeep)

    def _yields(self) -> bool:
        """Ticks go to a stream or to files that are waited for, but never many in a row."""
        if not self._guest:
            return False
        try:
            if alive(self._core.database, "lake"):
                return True
            self._hurried = self._pressed() or is_loading(self._core.database)
            patience = PATIENCE if self._hurried else 0
        except Unavailable:
            return True
        self._yielded = self._yielded + 1 if self._yielded < patience else 0
        return self._yielded > 0

    def finish(self, seconds: float) -> None:
        """Let a commit under way end, and begin no other."""
        self.busy.acquire(timeout=seconds)

    def close(self) -> None:
        for each in self._cells.values():
            each.close()

    def _archive_all(self, until: float) -> None:
        for cell in self._core.database.cells():
            if not self._stop.is_set():
                self._archive(cell, until)

    def _archive(self, cell: str, until: float) -> None:
        if cell not in self._cells:
            writer = self._writers.get(cell)
            self._cells[cell] = CellArchive(self._core, cell, self._stop.wait, writer)
        self._safely(lambda: self._cells[cell].catch_up(until, hurried=self._hurried))

    def _safely(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Unavailable as cause:
            logger(__name__).warning("lake stage waits", reason=str(cause))
        except Exception as cause:  # noqa: BLE001  a broken lake must not stop the ingest
            if self._stop.is_set():
                return  # cut off; the next one goes on from the last commit
            LOOP_FAILURES.labels("lake").inc()
            logger(__name__).error("lake stage failed", reason=str(cause), exc_info=True)
