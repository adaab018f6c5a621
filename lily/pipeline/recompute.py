"""A whole tenant's propagation, computed from nothing on the executors.

Executors read edges, own labels and stored rows in slices of one snapshot; then joins, level by
level, with the plan cut at each level. It shares no statement with the incremental way: what both
agree on is right twice. Used to check, and to fill in after a rule was switched on.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from lily import wiring
from lily.lineage.labels import CARRIES_NOT
from lily.lineage.travel import DEEPEST, Carrier
from lily.store import propagation_parts, propagation_rules
from lily.store.database import direct
from lily.store.propagation import Owned, context_of
from lily.store.propagation_parts import SLICES, Moment, join_moment, open_moment
from lily.store.propagation_plan import Difference, Plan
from lily.types import Tenant
from lily.wiring import Core

EDGES = "upstream string, downstream string, id string, type string, stops array<string>"
SEEDS = "n int, name string, slot string, guid string, value string"
ALLOWED = "n int, guid string"
STORED = (
    "guid string, field string, name string, value string, root string, depth int, via string,"
    " rule string"
)
CARRIERS = (
    "n int, field string, rule string, kinds array<string>, max_depth int, downstream boolean,"
    " choosy boolean"
)
KEY = ["n", "name", "slot", "guid"]
ROW = ["guid", "field", "name", "value", "rule"]


class Errand(msgspec.Struct, frozen=True):
    """What an executor has to know; the settings are packed, for it may be on another machine."""

    settings: str
    tenant: Tenant
    moment: Moment
    carriers: list[Carrier]
    what: str


def recompute(spark: SparkSession, core: Core, settings: str, tenant: Tenant) -> Plan:
    """How the store differs from what follows from edges and own labels, at one moment."""
    with _moment(core, tenant) as (moment, carriers):
        read = partial(_frame, spark, settings, tenant, moment, carriers)
        stored = read("stored", STORED)
        if not carriers:
            return _differences(spark.createDataFrame([], STORED), stored)
        numbered = F.broadcast(spark.createDataFrame(_rows(carriers), CARRIERS))
        edges = read("edges", EDGES).persist(StorageLevel.MEMORY_AND_DISK)
        allowed = None
        if any(not each.receivers.is_empty for each in carriers):
            allowed = read("allowed", ALLOWED).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            reached = _walk(read("seeds", SEEDS), edges, numbered, allowed)
            return _differences(_wanted(reached, numbered), stored)
        finally:
            edges.unpersist()


def _walk(
    seeds: DataFrame, edges: DataFrame, carriers: DataFrame, allowed: DataFrame | None
) -> DataFrame:
    """Breadth first: of the ways of one level the smaller root wins, then the smaller edge."""
    start = F.col("guid").alias("root"), F.lit(0).alias("depth"), F.lit("").alias("via")
    frontier = seeds.dropDuplicates(KEY).select(*KEY, "value", *start).localCheckpoint()
    reached = frontier
    hops = _hops(edges)
    for depth in range(DEEPEST):
        step = (
            frontier.join(carriers, "n")
            .filter(F.col("max_depth") > depth)
            .join(hops, (F.col("near") == F.col("guid")) & (F.col("down") == F.col("downstream")))
            .filter(_passes())
        )
        if allowed is not None:
            to = allowed.select(F.col("n").alias("to_n"), F.col("guid").alias("to"))
            step = step.join(
                to, (F.col("to_n") == F.col("n")) & (F.col("to") == F.col("far")), "left"
            )
            step = step.filter(~F.col("choosy") | F.col("to").isNotNull())
        best = F.min(F.struct("root", "id", "value")).alias("best")
        found = step.groupBy("n", "name", "slot", F.col("far").alias("guid")).agg(best)
        frontier = (
            found.join(reached.select(*KEY), KEY, "left_anti")
            .select(
                *KEY, F.col("best.value"), F.col("best.root"), F.lit(depth + 1).alias("depth"),
                F.col("best.id").alias("via"),
            )
            .localCheckpoint()
        )  # fmt: skip
        if frontier.isEmpty():
            break
        reached = reached.unionByName(frontier).localCheckpoint()
    return reached


def _hops(edges: DataFrame) -> DataFrame:
    """Every edge both ways; a carrier takes one of them."""
    rest = "id", "type", "stops"
    down = edges.select(
        F.col("upstream").alias("near"), F.col("downstream").alias("far"), *rest,
        F.lit(True).alias("down"),
    )  # fmt: skip
    up = edges.select(
        F.col("downstream").alias("near"), F.col("upstream").alias("far"), *rest,
        F.lit(False).alias("down"),
    )  # fmt: skip
    return down.unionByName(up)


def _passes() -> Any:
    by_type = F.when(F.col("kinds").isNull(), ~F.col("type").isin(*CARRIES_NOT)).otherwise(
        F.array_contains(F.col("kinds"), F.col("type"))
    )
    called = F.when(F.col("name") == "", F.col("field")).otherwise(F.col("name"))
    stopped = F.coalesce(F.array_contains(F.col("stops"), called), F.lit(False))
    return by_type & ~stopped


def _wanted(reached: DataFrame, carriers: DataFrame) -> DataFrame:
    arrived = reached.filter(F.col("depth") > 0).join(carriers, "n")
    return arrived.select("guid", "field", "name", "value", "root", "depth", "via", "rule")


def _differences(wanted: DataFrame, stored: DataFrame) -> Plan:
    """What is missing, what is too much, and what came another way."""
    place = F.concat_ws("|", "depth", "root", "via")
    w = wanted.select(*ROW, place.alias("w"))
    s = stored.select(*ROW, place.alias("s"))
    rows = (
        w.join(s, ROW, "full_outer")
        .filter(~F.col("w").eqNullSafe(F.col("s")))
        .select(*ROW, "w", "s")
        .orderBy("guid")
        .toArrow()
        .to_pylist()
    )
    return Plan([_difference(row) for row in rows], len(rows))


def _difference(row: dict[str, Any]) -> Difference:
    change: Any = "gone" if row["w"] is None else "new" if row["s"] is None else "moved"
    depth, root, via = (row["w"] or row["s"]).split("|")
    rule = UUID(row["rule"]) if row["rule"] else None
    return Difference(
        UUID(row["guid"]), row["field"], row["name"], row["value"], UUID(root), int(depth),
        UUID(via), rule, change,
    )  # fmt: skip


# Reading ------------------------------------------------------------------------------------------


@contextmanager
def _moment(core: Core, tenant: Tenant) -> Iterator[tuple[Moment, list[Carrier]]]:
    """A snapshot kept open while executors read it, and what travels at that moment."""
    conn = direct(core.database, tenant.cell)
    try:
        moment = open_moment(conn, tenant.number)
        yield moment, propagation_rules.carriers(conn, tenant.number)
    finally:
        conn.close()


def _frame(
    spark: SparkSession, settings: str, tenant: Tenant, moment: Moment, carriers: list[Carrier],
    what: str, schema: str,
) -> DataFrame:  # fmt: skip
    """A few slices a task: an executor opens its own connection and reads its share."""
    errand = msgspec.json.encode(Errand(wiring.packed(settings), tenant, moment, carriers, what))
    tasks = min(SLICES, spark.sparkContext.defaultParallelism)
    slices = spark.range(0, SLICES, 1, tasks)
    return slices.mapInArrow(_reader(errand, what), schema)


def _reader(errand: bytes, what: str) -> Callable[[Iterable[pa.RecordBatch]], Iterable[Any]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = msgspec.json.decode(errand, type=Errand)
        core = wiring.unpacked(asked.settings, "lily_system")
        conn = direct(core.database, asked.tenant.cell)
        try:
            join_moment(conn, asked.moment)
            for batch in batches:
                for part in batch.column(0).to_pylist():
                    for rows in _rows_of(core, conn, asked, part):
                        if rows:
                            yield _arrow(rows, TYPES[what])
        finally:
            conn.close()
            core.close()

    return read


def _rows_of(core: Core, conn: Any, asked: Errand, part: int) -> Iterator[list[tuple[Any, ...]]]:
    tenant, number = asked.tenant, asked.tenant.number
    if asked.what == "edges":
        yield from propagation_parts.edges(conn, number, part)
    elif asked.what == "stored":
        yield from propagation_parts.stored(conn, number, part)
    elif asked.what == "allowed":
        yield from propagation_parts.allowed(conn, number, part, asked.carriers)
    else:
        context = context_of(core.database, conn, tenant, core.clock)
        own = Owned(conn, tenant, context, wiring.enrichments())
        yield from propagation_parts.seeds(conn, number, part, asked.carriers, own)


_TEXT, _INT = pa.string(), pa.int32()
TYPES: dict[str, pa.Schema] = {
    "edges": pa.schema(
        [("upstream", _TEXT), ("downstream", _TEXT), ("id", _TEXT), ("type", _TEXT),
         ("stops", pa.list_(_TEXT))]
    ),
    "seeds": pa.schema(
        [("n", _INT), ("name", _TEXT), ("slot", _TEXT), ("guid", _TEXT), ("value", _TEXT)]
    ),
    "allowed": pa.schema([("n", _INT), ("guid", _TEXT)]),
    "stored": pa.schema(
        [("guid", _TEXT), ("field", _TEXT), ("name", _TEXT), ("value", _TEXT), ("root", _TEXT),
         ("depth", _INT), ("via", _TEXT), ("rule", _TEXT)]
    ),
}  # fmt: skip


def _arrow(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _rows(carriers: Sequence[Carrier]) -> list[tuple[Any, ...]]:
    return [
        (n, c.field, str(c.rule) if c.rule else "", c.kinds, c.max_depth,
         c.direction == "downstream", not c.receivers.is_empty)
        for n, c in enumerate(carriers)
    ]  # fmt: skip
