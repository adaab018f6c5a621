"""The host of crawlers: differences, deletions after the end, one run at a time, retries."""

import time
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from uuid import UUID, uuid4

import msgspec
import pytest

from lily.clock import FrozenClock
from lily.errors import Conflict
from lily.events.observations import AssetSeen
from lily.store import crawls, feed
from lily.store.crawl_seen import Seen
from lily.store.throttle import LONGEST, Backlog
from lily.types import Tenant
from lily.wiring import Core
from lily.workers import crawl
from tests.flow.apply import read
from tests.flow.corridor import Corridor, append
from tests.flow.crawling import TESTER, ask, connect, crawled, run_of, waiting
from tests.flow.sources import Estate
from tests.waiting import until


@pytest.fixture
def estate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Estate:
    return Estate(tmp_path, monkeypatch)


@pytest.fixture
def connection(core: Core, tenant: Tenant, estate: Estate) -> UUID:
    return connect(core, tenant, "made", "test-made", plan=str(estate.path), password="swordfish-7")


def names(count: int, start: int = 0) -> list[str]:
    return [f"made://t{n:04}" for n in range(start, start + count)]


def later(system: Core, **span: float) -> Core:
    """The same system, some time later."""
    clock = FrozenClock(system.clock.now() + timedelta(**span))
    return Core(system.settings, clock, system.seal, system.database)


def test_only_differences_are_sent_and_gone_is_said_after_the_end(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(3))
    assert crawled(core, system, tenant, connection).counts["new"] == 3
    corridor.run()
    estate.has(*names(3, 1), notes={"made://t0001": "changed"})
    run = crawled(core, system, tenant, connection)
    assert run.counts == {
        "read": 3, "new": 1, "changed": 1, "unchanged": 1, "gone": 1, "rejected": 0,
        "edges": 0,
    }  # fmt: skip
    assert waiting(system, tenant) == names(2) + names(1, 3)
    corridor.run()
    assert read(core, tenant, "made://t0000").deleted_by == "source"
    assert read(core, tenant, "made://t0001").description == "changed"
    assert read(core, tenant, "made://t0001").source == "made"
    estate.has(*names(4))
    assert crawled(core, system, tenant, connection).counts["new"] == 1
    corridor.run()
    assert read(core, tenant, "made://t0000").deleted_by is None


def test_a_crawl_that_dies_half_way_deletes_nothing_and_goes_on_at_its_cursor(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(60), columns=100)
    crawled(core, system, tenant, connection)
    corridor.run()
    rest = [name for name in names(60) if name not in ("made://t0001", "made://t0059")]
    estate.has(*rest, columns=100, **{"break": 50, "how": "bug"})
    run = crawled(core, system, tenant, connection)
    assert (run.state, run.counts["gone"]) == ("queued", 0)
    assert run.error == "RuntimeError: broken with ********"
    assert waiting(system, tenant) == []
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        progress = Seen(conn, tenant.number, connection).progress()
    assert progress is not None and 0 < progress.cursor <= 50
    before = run.counts["read"]
    estate.has(*rest, columns=100)
    crawl.work(later(system, minutes=1), Event())
    run = run_of(core, tenant, run.id)
    assert (run.state, run.attempt, run.counts["gone"]) == ("succeeded", 2, 2 * 101)
    assert before < run.counts["read"] < before + 58 * 101  # not from the beginning
    corridor.run()
    assert read(core, tenant, "made://t0001#c5").deleted_by == "source"
    assert read(core, tenant, "made://t0002").deleted_by is None


def test_a_crawl_waits_while_too_much_of_the_log_is_not_applied(
    core: Core, system: Core, tenant: Tenant, corridor: Corridor
) -> None:
    corridor.run()
    backlog = Backlog(system.database, tenant.cell, Event(), most=2)
    assert backlog.wait() < LONGEST
    append(core, tenant, *(AssetSeen(qualified_name=f"waits#{n}") for n in range(3)))
    stop = Event()
    held = Backlog(system.database, tenant.cell, stop, most=2)
    waiting = Thread(target=held.wait)
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    corridor.run()
    waiting.join()
    assert Backlog(system.database, tenant.cell, stop, most=2).wait() < LONGEST


def test_an_unchanged_crawl_of_100_000_columns_sends_nothing(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(100), columns=1000)
    began = time.monotonic()
    run = crawled(core, system, tenant, connection)
    first = time.monotonic() - began
    assert run.counts["new"] == 100_100
    assert len(waiting(system, tenant)) == 100_100
    with system.database.cell(tenant.cell) as conn:  # as if the pipeline had applied it
        conn.execute(
            "UPDATE applied a SET position ="
            ' (SELECT coalesce(max("offset"), 0) FROM log l WHERE l.lane = a.lane)'
        )
    began = time.monotonic()
    run = crawled(core, system, tenant, connection)
    again = time.monotonic() - began
    assert (run.state, run.counts["unchanged"]) == ("succeeded", 100_100)
    assert waiting(system, tenant) == []
    assert again < 30, f"first {first:.1f} s, again {again:.1f} s"


def test_a_busy_source_is_tried_again_later_each_time_and_then_given_up(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(2), **{"break": 1, "how": "busy"})
    run = crawled(core, system, tenant, connection)
    assert (run.state, run.attempt) == ("queued", 1)
    crawl.work(later(system, seconds=5), Event())
    assert run_of(core, tenant, run.id).attempt == 1  # not yet
    for span in (1, 2, 5):
        crawl.work(later(system, minutes=span), Event())
    run = run_of(core, tenant, run.id)
    assert (run.state, run.attempt) == ("failed", 4)
    assert run.error == "broken with ********"
    assert finished(core, tenant) == ["failed"]


def test_a_refusal_ends_a_run_at_once(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(2), **{"break": 0, "how": "reject"})
    run = crawled(core, system, tenant, connection)
    assert (run.state, run.attempt) == ("failed", 1)


def test_what_breaks_the_rules_is_counted_and_the_rest_arrives(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has("made://good", " ", "made://" + "x" * 5000)
    run = crawled(core, system, tenant, connection)
    assert (run.state, run.counts["rejected"]) == ("partial", 2)
    assert "longer than 4000" in run.error
    assert waiting(system, tenant) == ["made://good"]


def test_a_source_may_say_itself_that_something_is_gone(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(2))
    crawled(core, system, tenant, connection)
    estate.has(*names(1), gone=["made://t0001", "made://never"])
    assert crawled(core, system, tenant, connection).counts["gone"] == 1


def test_one_connection_is_crawled_by_one_process_at_a_time(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(3), wait=1)
    first = ask(core, tenant, connection)
    assert ask(core, tenant, connection) == first  # one that waits is enough
    busy = Thread(target=crawl.work, args=(system, Event()))
    busy.start()
    until(lambda: run_of(core, tenant, first).state == "running", 20)
    second = ask(core, tenant, connection)
    assert second != first
    crawl.work(system, Event())
    assert run_of(core, tenant, second).state == "queued"
    estate.go_on()
    busy.join(20)
    crawl.work(system, Event())
    assert [run_of(core, tenant, each).state for each in (first, second)] == ["succeeded"] * 2


def test_a_run_whose_process_died_is_taken_over_and_the_dead_one_can_write_nothing(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(3))
    id = ask(core, tenant, connection)
    dead = uuid4()
    with system.database.cell(tenant.cell, [tenant.number]) as conn:
        claimed = crawls.claim(conn, [tenant.number], dead, system.clock.now())
    assert claimed is not None and claimed.id == id
    crawl.work(later(system, seconds=20), Event())
    assert run_of(core, tenant, id).state == "running"
    crawl.work(later(system, seconds=40), Event())
    assert run_of(core, tenant, id).state == "succeeded"
    sent = waiting(system, tenant)
    crawl.crawl(system, tenant, claimed, dead, Event())  # it was only slow
    assert waiting(system, tenant) == sent
    assert finished(core, tenant) == ["succeeded"]


def test_a_cancelled_run_stops_and_deletes_nothing(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(3))
    crawled(core, system, tenant, connection)
    estate.has(*names(2), wait=1)
    id = ask(core, tenant, connection)
    busy = Thread(target=crawl.work, args=(system, Event()))
    busy.start()
    until(lambda: run_of(core, tenant, id).state == "running", 20)
    with core.database.unit(tenant) as unit:
        crawls.cancel(unit, id, TESTER, core.clock.now())
    estate.go_on()
    busy.join(20)
    run = run_of(core, tenant, id)
    assert (run.state, run.error) == ("cancelled", "cancelled by tester")
    assert len(waiting(system, tenant)) == 3  # of the first crawl
    with core.database.unit(tenant) as unit, pytest.raises(Conflict):
        crawls.cancel(unit, id, TESTER, core.clock.now())
    assert finished(core, tenant) == ["succeeded", "cancelled"]


def test_a_stopping_process_puts_its_run_back_without_counting_an_attempt(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(3))
    id = ask(core, tenant, connection)
    stopping = Event()
    stopping.set()
    crawl.work(system, stopping)
    run = run_of(core, tenant, id)
    assert (run.state, run.attempt) == ("queued", 0)
    crawl.work(system, Event())
    assert run_of(core, tenant, id).state == "succeeded"


def test_a_rate_limit_spreads_what_is_sent(
    core: Core, system: Core, tenant: Tenant, estate: Estate
) -> None:
    estate.has(*names(50))
    slow = connect(core, tenant, "slow", "test-made", plan=str(estate.path), rate_limit=100)
    began = time.monotonic()
    crawled(core, system, tenant, slow)
    assert time.monotonic() - began >= 0.5


def test_a_schedule_asks_by_itself_and_a_new_connection_waits_for_its_turn(
    core: Core, system: Core, tenant: Tenant, estate: Estate, connection: UUID
) -> None:
    estate.has(*names(1))
    with core.database.unit(tenant) as unit:
        unit.conn.execute(
            "UPDATE connection SET schedule = '1h' WHERE tenant = %s", [tenant.number]
        )
    for minutes, asked in ((0, 0), (59, 0), (67, 1), (68, 1), (140, 2)):
        crawl.work(later(system, minutes=minutes), Event())
        with core.database.unit(tenant) as unit:
            runs = crawls.page(unit, connection, None, 10)
        assert [(run.cause, run.state) for run in runs] == [("schedule", "succeeded")] * asked
    with core.database.unit(tenant) as unit:
        unit.conn.execute(
            "UPDATE connection SET enabled = false WHERE tenant = %s", [tenant.number]
        )
    crawl.work(later(system, days=3), Event())
    with core.database.unit(tenant) as unit:
        assert len(crawls.page(unit, connection, None, 10)) == 2


def finished(core: Core, tenant: Tenant) -> list[str]:
    with core.database.unit(tenant) as unit:
        links = feed.after(unit, 0, 1000, kinds=["CrawlFinished"])
    return [msgspec.json.decode(link.payload or "{}")["after"]["state"] for link in links]
