"""`lily pipeline`: the Spark application, from lease to graceful stop."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event
from time import monotonic
from uuid import uuid4

from pyspark.sql.streaming.query import StreamingQuery

from lily.errors import Fenced, Unavailable
from lily.events.envelope import Envelope
from lily.events.observations import Nothing
from lily.log.postgres import append_in
from lily.pipeline import kafka, lake
from lily.pipeline.ingest import Job
from lily.pipeline.kafka import KafkaStage
from lily.pipeline.propagate import Attached
from lily.pipeline.session import check, fresh_checkpoint, session
from lily.pipeline.source import LogSource
from lily.store import positions
from lily.store.lag import lag
from lily.store.lease import Lease
from lily.store.presence import Presence, presence
from lily.telemetry import logger
from lily.types import Place
from lily.wiring import Core, save

DUTY = "ingest"
BEAT = 0.5
WARM_SECONDS = 0.25
WARM_IN_A_ROW = 4
WARM_LIMIT = 20.0
BATCH_LIMIT = 25.0
LAG_EVERY = 4  # beats


def run(core: Core, stop: Event) -> None:
    """Until `stop` is set: stand by for the lease, then apply the log batch by batch."""
    with presence(core, "pipeline") as me:
        lost = Event()

        def give_up() -> None:
            lost.set()
            stop.set()

        lease = Lease(core.database, DUTY, give_up)
        me.say(warm=False, state="standby")
        if not lease.acquire(stop):
            return
        try:
            _lead(core, stop, me)
        finally:
            lease.release()
        if lost.is_set():
            raise Fenced("another pipeline holds the lease")


def _lead(core: Core, stop: Event, me: Presence) -> None:
    home = core.settings.home
    settings = home / "run" / "pipeline.json"
    save(core.settings, settings)
    me.say(warm=False, state="starting")
    log = kafka.find(core)
    spark = session(core, "lily-ingest", more=log.options if log else None)
    job = Job(core, stop)
    stage = lake.LakeStage(core, stop, pressed=lambda: job.is_pressed)
    queries: list[StreamingQuery] = []
    propagation = Attached(core, stop, queries)
    try:
        spark.dataSource.register(LogSource)
        frame = spark.readStream.format(LogSource.name()).option("settings", str(settings)).load()
        query = (
            frame.writeStream.foreachBatch(job.apply)
            .option("checkpointLocation", str(fresh_checkpoint(home / "checkpoints" / DUTY)))
            .start()
        )
        me.say(state="warming")
        warmed = _warm_up(core, job, stop, partial(_note, core, query))
        beside = log.stage(core, job, spark, stop) if log else None
        if beside is not None:
            warmed += _warm_up(core, job, stop, beside.note)
        me.say(warm=True, state="active")
        logger(__name__).info("pipeline is warm", seconds=round(warmed, 1))
        queries.append(query)
        propagation.start(spark, settings)
        if core.settings.lake != "off":
            queries.append(
                lake.start(spark, stage, fresh_checkpoint(home / "checkpoints" / "lake"))
            )
        _follow(queries, job, core, stop, me, beside)
        _finish(query, job, beside)
        propagation.finish()
        stage.finish(lake.LIMIT)
    finally:
        stage.close()
        propagation.close()
        job.close()
        spark.stop()


def _warm_up(core: Core, job: Job, stop: Event, send: Callable[[Envelope], Place]) -> float:
    """Send observations that say nothing until batches are quick: the first ones never are."""
    began, quick = monotonic(), 0
    while quick < WARM_IN_A_ROW and monotonic() - began < WARM_LIMIT and not stop.is_set():
        sent = monotonic()
        envelope = Envelope(id=uuid4(), tenant=0, source="lily", by="lily", observation=Nothing())
        place = send(envelope)
        while not stop.is_set() and not _applied(core, place) and monotonic() - sent < WARM_LIMIT:
            job.check()
            stop.wait(0.01)
        quick = quick + 1 if monotonic() - sent < WARM_SECONDS else 0
    return monotonic() - began


def _note(core: Core, query: StreamingQuery, envelope: Envelope) -> Place:
    check(query)
    with core.database.cell("home") as conn:
        [offset] = append_in(conn, [envelope], [""])
    return Place("core", offset)


def _applied(core: Core, place: Place) -> bool:
    with core.database.cell("home") as conn:
        return positions.reached(conn, place)


def _follow(
    queries: list[StreamingQuery],
    job: Job,
    core: Core,
    stop: Event,
    me: Presence,
    beside: KafkaStage | None,
) -> None:
    beat = 0
    while not stop.wait(BEAT):
        for query in queries:
            check(query)
        job.check()
        if beside is not None:
            beside.check()
            me.say(kafka="read" if beside.runs else "away")
        me.say(events=job.events, dead=job.dead, batch_seconds=round(job.seconds, 4))
        if beat % LAG_EVERY == 0:
            with suppress(Unavailable):
                me.say(lag=_lag(core, beside))
        beat += 1


def _lag(core: Core, beside: KafkaStage | None) -> dict[str, float]:
    """Seconds that the oldest waiting observation of each lane has waited, over all cells."""
    waiting: dict[str, float] = {}

    def look(cell: str) -> None:
        for each in lag(core.database, cell):
            waiting[each.lane] = max(waiting.get(each.lane, 0.0), round(each.seconds, 3))

    core.database.each_cell(look)
    for lane, seconds in (beside.lag() if beside is not None else {}).items():
        waiting[lane] = max(waiting.get(lane, 0.0), seconds)
    return waiting


def _finish(query: StreamingQuery, job: Job, beside: KafkaStage | None) -> None:
    """Let the running batch commit, and begin no other: what is not applied stays in the log."""
    job.finish(BATCH_LIMIT)
    query.stop()
    if beside is not None:
        beside.close()
