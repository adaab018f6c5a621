"""The propagate stage: facts in, what they stir in the graph made so.

A streaming query whose source long-polls the feeds of all cells. Its position lives in the store,
moved in the transaction of the effect; the checkpoint is thrown away at each start. Reaches that
are too large for one transaction are worked off beside it, chunk by chunk.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from lily import wiring
from lily.errors import NotFound, Unavailable
from lily.lineage.stirred import Told
from lily.pipeline.nightly import Nightly
from lily.pipeline.recompute import recompute
from lily.pipeline.session import check, fresh_checkpoint, progress, session
from lily.store import takeover
from lily.store.lease import Lease
from lily.store.presence import presence
from lily.store.propagation import Propagator, Stretch
from lily.store.propagation_feed import FactTail, Places, Read
from lily.store.propagation_plan import Plan
from lily.store.propagation_tasks import CALM, TaskLoop, Tasks
from lily.types import Tenant
from lily.wiring import Core

DUTY = "propagate"
NAME = "lily-facts"
SCHEMA = "cell string, tenant int, start long, end long, facts binary"
ARROW = pa.schema(
    [
        ("cell", pa.string()), ("tenant", pa.int32()), ("start", pa.int64()), ("end", pa.int64()),
        ("facts", pa.binary()),
    ]
)  # fmt: skip
WAIT = 2.0
LAST_BATCH = 25.0
BEAT = 0.5

# Not MessagePack: facts hold numbers of any size.
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Told]).decode


class FactSource(DataSource):
    """`spark.readStream.format("lily-facts").option("settings", path)`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return FactReader(wiring.packed(self.options["settings"]))


class FactReader(SimpleDataSourceStreamReader):
    """Opens its connections in the process that reads, not where it is built."""

    def __init__(self, settings: str) -> None:
        self._settings = settings
        self._tail: FactTail | None = None

    def initialOffset(self) -> dict[str, Any]:
        return _pack(self._open().places())

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        places = _unpack(start)
        found = self._open().read(places, WAIT)
        if not found:
            return iter([]), start
        for each in found:
            places.setdefault(each.cell, {})[each.tenant] = each.end
        return iter([_arrow(found)]), _pack(places)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        return iter([_arrow(self._open().between(_unpack(start), _unpack(end)))])

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the store has committed the position together with the effect."""

    def _open(self) -> FactTail:
        if self._tail is None:
            self._tail = FactTail(wiring.unpacked(self._settings, "lily_system").database)
        return self._tail


class PropagateStage:
    """What happens to each batch of facts; and the large reaches beside it."""

    def __init__(self, core: Core, stop: Event) -> None:
        self._core = core
        self._stop = stop
        self._tenants: dict[int, Tenant] = {}
        self._propagator = Propagator(
            core.database, core.clock, stop, enrichments=wiring.enrichments()
        )
        self._tasks = Tasks(self._propagator, recompute=self._recompute, calm=CALM)
        self._loop = TaskLoop(self._propagator, self._tasks)
        self._spark: SparkSession | None = None
        self._settings = ""
        self._batch = Lock()
        self._ending = False
        self.facts = 0
        self.seconds = 0.0

    @property
    def changed(self) -> int:
        """Assets that showed something new."""
        return self._propagator.changed + self._tasks.changed

    def start(self, spark: SparkSession, settings: Path, checkpoint: Path) -> StreamingQuery:
        self._spark, self._settings = spark, str(settings)
        spark.dataSource.register(FactSource)
        frame = spark.readStream.format(NAME).option("settings", str(settings)).load()
        query = (
            frame.writeStream.foreachBatch(self.apply)
            .queryName(DUTY)
            .options(**progress(checkpoint))
            .start()
        )
        self._loop.start()
        Nightly(self._core, spark, str(settings), self._stop).start()
        return query

    def apply(self, frame: DataFrame, number: int) -> None:
        """One transaction a tenant: its position, and everything that its facts stir."""
        with self._batch:
            if self._ending:
                raise Unavailable("the stage ends; these facts wait for the next one")
            began = monotonic()
            for row in frame.toArrow().to_pylist():
                tenant = self._tenant(row["tenant"], row["cell"])
                if tenant is not None:
                    facts = _decode(row["facts"])
                    self._propagator.handle(Stretch(tenant, row["start"], row["end"], facts))
                    self.facts += len(facts)
            self.seconds = monotonic() - began

    def finish(self) -> None:
        """Let what is under way be committed, and begin nothing else."""
        if self._batch.acquire(timeout=LAST_BATCH):
            self._ending = True
            self._batch.release()
        self._loop.finish(LAST_BATCH)

    def close(self) -> None:
        self._propagator.close()

    def _recompute(self, tenant: Tenant) -> Plan:
        """A whole tenant on the executors: what was switched on is filled in."""
        assert self._spark is not None
        return recompute(self._spark, self._core, self._settings, tenant)

    def _tenant(self, number: int, cell: str) -> Tenant | None:
        """None if there is no such tenant in that cell any more: then it is read elsewhere."""
        known = self._tenants.get(number)
        if known is None or known.cell != cell:
            try:
                known = self._tenants[number] = self._core.database.tenant(number)
            except NotFound:
                return None
        return known if known.cell == cell else None


class Attached:
    """The stage inside another application: begun when nobody else has it, later than its host."""

    def __init__(self, core: Core, stop: Event, queries: list[StreamingQuery]) -> None:
        self._core = core
        self._stop = stop
        self._queries = queries  # of the host, who looks after this one too
        self._lease = Lease(core.database, DUTY, stop.set)
        self._thread: Thread | None = None
        self.stage = PropagateStage(core, stop)

    def start(self, spark: SparkSession, settings: Path) -> None:
        self._thread = Thread(target=self._begin, args=(spark, settings), name=DUTY, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """The host stops: what is under way is committed."""
        if self._thread is not None:
            self._thread.join(LAST_BATCH)
            self.stage.finish()

    def close(self) -> None:
        self.stage.close()
        self._lease.release()

    def _begin(self, spark: SparkSession, settings: Path) -> None:
        if self._lease.acquire(self._stop):
            self._core.database.each_cell(
                partial(takeover.cut_off, self._core.database, takeover.PROPAGATE)
            )
            checkpoint = fresh_checkpoint(self._core.settings.home / "checkpoints" / DUTY)
            self._queries.append(self.stage.start(spark, settings, checkpoint))


def run(core: Core, stop: Event) -> None:
    """The stage as an application of its own, until `stop` is set."""
    with presence(core, DUTY) as me:
        queries: list[StreamingQuery] = []
        attached = Attached(core, stop, queries)
        settings = core.settings.home / "run" / f"{DUTY}.json"
        wiring.save(core.settings, settings)
        spark = session(core, "lily-propagate")
        try:
            attached.start(spark, settings)
            while not stop.wait(BEAT):
                for query in queries:
                    check(query)
                state = "active" if queries else "standby"
                me.say(state=state, facts=attached.stage.facts, changed=attached.stage.changed)
            attached.finish()
        finally:
            attached.close()
            spark.stop()


def _arrow(found: list[Read]) -> pa.RecordBatch:
    rows = [(each.cell, each.tenant, each.start, each.end, _encode(each.facts)) for each in found]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(ARROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def _pack(places: Places) -> dict[str, Any]:
    return {
        cell: {str(tenant): at for tenant, at in tenants.items()}
        for cell, tenants in places.items()
    }


def _unpack(packed: dict[str, Any]) -> Places:
    return {
        cell: {int(tenant): at for tenant, at in tenants.items()}
        for cell, tenants in packed.items()
    }
