"""Once a day every tenant's propagation is computed from nothing and compared with what is stored.

Nothing should ever differ. If something does, it is told as a fact, and a task looks at everything
of the tenant again.
"""

from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event, Thread
from uuid import uuid4

from pyspark.sql import SparkSession

from lily import wiring
from lily.errors import LilyError, Unavailable
from lily.events.facts import Fact
from lily.lineage.stirred import BY
from lily.pipeline.recompute import recompute
from lily.pipeline.session import session
from lily.store import feed
from lily.store.database import Unit
from lily.store.propagation import Propagator
from lily.store.propagation_feed import rests_at
from lily.store.propagation_plan import Difference
from lily.store.propagation_tasks import Tasks, ask_for_all
from lily.telemetry import LOOP_FAILURES, PROPAGATION_LIMITED, logger
from lily.types import Tenant
from lily.wiring import Core, save

HOUR = 3  # of the day, UTC
TRIES = 3  # until a tenant holds still
LOOK = 60.0


class Nightly:
    """A thread that sleeps until the hour has come."""

    def __init__(self, core: Core, spark: SparkSession, settings: str, stop: Event) -> None:
        self._core = core
        self._spark = spark
        self._settings = settings
        self._stop = stop
        self._due = following(core.clock.now())
        self._thread = Thread(target=self._run, name="propagation-check", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(LOOK):
            if self._core.clock.now() < self._due:
                continue
            self._due = following(self._core.clock.now())
            with suppress(Unavailable):  # then it is checked the night after
                for tenant in self._core.database.tenants():
                    if not self._stop.is_set():
                        self._check(tenant)

    def _check(self, tenant: Tenant) -> None:
        try:
            check(self._core, self._spark, self._settings, tenant)
        except LilyError as cause:
            logger(__name__).warning("a check waits", tenant=tenant.name, reason=str(cause))
        except Exception as cause:  # noqa: BLE001  a check must not stop what it checks
            if not self._stop.is_set():
                LOOP_FAILURES.labels("propagation-check").inc()
                logger(__name__).error("a check failed", reason=str(cause), exc_info=True)


def check(core: Core, spark: SparkSession, settings: str, tenant: Tenant) -> list[Difference]:
    """Compare; what differs while nothing moves is told, and looked at again."""
    for _ in range(TRIES):
        before = _moved(core, tenant)
        found = recompute(spark, core, settings, tenant).differences
        if not found:
            return []
        if before is not None and before == _moved(core, tenant):
            _tell(core, tenant, found)
            return found
    return []


def compared(core: Core, tenant: Tenant) -> list[Difference]:
    """The comparison alone, with a Spark of its own."""
    spark, settings = _spark(core)
    try:
        return recompute(spark, core, settings, tenant).differences
    finally:
        spark.stop()


def repaired(core: Core, tenant: Tenant, stop: Event) -> int:
    """Apply what differs, planned on Spark; how many assets show something new."""
    spark, settings = _spark(core)
    propagator = Propagator(core.database, core.clock, stop, enrichments=wiring.enrichments())
    tasks = Tasks(
        propagator, recompute=lambda which: recompute(spark, core, settings, which), wide=-1
    )
    try:
        with core.database.cell(tenant.cell, [tenant.number]) as conn:
            ask_for_all(conn, tenant, f"recompute-{uuid4()}", 0, core.clock.now())
        while tasks.step(tenant) and not stop.is_set():
            pass
        return tasks.changed
    finally:
        tasks.close()
        propagator.close()
        spark.stop()


def following(now: datetime) -> datetime:
    """The next time that the hour strikes."""
    due = now.replace(hour=HOUR, minute=0, second=0, microsecond=0)
    return due if due > now else due + timedelta(days=1)


def _spark(core: Core) -> tuple[SparkSession, str]:
    settings = core.settings.home / "run" / "recompute.json"
    save(core.settings, settings)
    return session(core, "lily-recompute"), str(settings)


def _moved(core: Core, tenant: Tenant) -> int | None:
    with core.database.cell(tenant.cell, [tenant.number]) as conn:
        return rests_at(conn, tenant.number)


def _tell(core: Core, tenant: Tenant, found: list[Difference]) -> None:
    PROPAGATION_LIMITED.labels("check").inc()
    now, cause = core.clock.now(), f"check-{uuid4()}"
    by = Counter(each.change for each in found)
    after = {"missing": by["new"], "surplus": by["gone"], "moved": by["moved"], "applied": True}
    told = Fact(kind="PropagationChecked", at=now, by=BY, cause=cause, after=after)
    with core.database.cell(tenant.cell, [tenant.number]) as conn:
        ask_for_all(conn, tenant, cause, len(found), now)
        feed.record(Unit(conn, tenant), [told])
