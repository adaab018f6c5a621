"""`lily pipeline`: the Spark application, from a warm start over the lease to a graceful stop."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic
from typing import NamedTuple
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
from lily.pipeline.session import check, fresh_checkpoint, progress, session
from lily.pipeline.source import LogSource
from lily.store import positions, takeover
from lily.store.lag import lag
from lily.store.lease import Lease
from lily.store.presence import Presence, alive, presence
from lily.store.tidying import Tidying
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
    """Until `stop` is set: lead, or be warm for the day that whoever leads is gone."""
    with presence(core, "pipeline") as me:
        lost = Event()

        def give_up() -> None:
            lost.set()
            stop.set()

        lease = Lease(core.database, DUTY, give_up)
        me.say(warm=False, state="starting")
        # One that is warm already takes over sooner than we could.
        leads = not _is_awaited(core, me) and lease.free()
        try:
            with TemporaryDirectory(prefix="lily-") as folder:
                _work(core, stop, me, Turn(lease, leads, Path(folder) / "begin"))
        finally:
            lease.release()
        if lost.is_set():
            raise Fenced("another pipeline holds the lease")


class Turn(NamedTuple):
    """Whose turn it is to write."""

    lease: Lease
    at_once: bool  # whether it was ours from the start
    begin: Path  # where the log's reader looks whether it may begin

    def take(self, core: Core, job: Job, stop: Event) -> None:
        """Shut out whoever led before, and let the reader begin."""
        job.epoch = self.lease.epoch
        takeover.claim(core.database, self.lease.epoch, stop)
        self.begin.touch()


def _is_awaited(core: Core, me: Presence) -> bool:
    """Whether another pipeline stands by, ready to go."""
    with suppress(Unavailable):
        others = [each for each in alive(core.database, "pipeline") if each.id != me.id]
        return any(each.detail.get("state") == "standby" for each in others)
    return False


def _work(core: Core, stop: Event, me: Presence, turn: Turn) -> None:
    home = core.settings.home
    settings = home / "run" / "pipeline.json"
    save(core.settings, settings)
    log = kafka.find(core)
    spark = session(core, "lily-ingest", more=log.options if log else None)
    job = Job(core, stop)
    stage = lake.LakeStage(core, stop, pressed=lambda: job.is_pressed)
    queries: list[StreamingQuery] = []
    propagation = Attached(core, stop, queries)
    try:
        if turn.at_once:
            turn.take(core, job, stop)
        spark.dataSource.register(LogSource)
        frame = (
            spark.readStream.format(LogSource.name())
            .option("settings", str(settings))
            .option("begin", str(turn.begin))
            .load()
        )
        query = (
            frame.writeStream.foreachBatch(job.apply)
            .options(**progress(fresh_checkpoint(home / "checkpoints" / DUTY)))
            .start()
        )
        me.say(state="warming")
        if not turn.at_once and not _stand_by(core, stop, me, turn, job, query):
            return
        warmed = _warm_up(core, job, stop, partial(_note, core, query)) if turn.at_once else 0.0
        beside = log.stage(core, job, spark, stop) if log else None
        if beside is not None and turn.at_once:
            warmed += _warm_up(core, job, stop, beside.note)
        me.say(warm=True, state="active", since=core.clock.now().isoformat())
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


def _stand_by(
    core: Core, stop: Event, me: Presence, turn: Turn, job: Job, query: StreamingQuery
) -> bool:
    """Rehearse until batches are quick, then wait for the lease; false if asked to stop first."""
    began = monotonic()
    while not _is_quick(job) and monotonic() - began < WARM_LIMIT and not stop.wait(0.05):
        check(query)
    me.say(warm=True, state="standby")
    logger(__name__).info("pipeline is warm", seconds=round(monotonic() - began, 1), leads=False)
    if not turn.lease.acquire(stop, partial(check, query)):
        return False
    me.say(state="taking over")
    turn.take(core, job, stop)
    logger(__name__).info("this pipeline leads now", epoch=turn.lease.epoch)
    return True


def _is_quick(job: Job) -> bool:
    """Whether the last rehearsals followed each other without delay."""
    done = list(job.rehearsals)
    return len(done) > WARM_IN_A_ROW and done[-1] - done[-1 - WARM_IN_A_ROW] < (
        WARM_IN_A_ROW * WARM_SECONDS
    )


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
    beat, tidying = 0, Tidying(core.database)
    while not stop.wait(BEAT):
        for query in queries:
            check(query)
        job.check()
        if beside is not None:
            beside.check()
            me.say(kafka="read" if beside.runs else "away")
        me.say(events=job.events, dead=job.dead, batch_seconds=round(job.seconds, 4))
        with suppress(Unavailable):
            tidying.look(job.events)
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
