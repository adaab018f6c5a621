"""Every class of answer, on a clock that the test moves: tried when published, and not else."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from lily.errors import Unavailable
from lily.notify import egress
from lily.notify.verdicts import ATTEMPTS, FAILURES, SCHEDULE
from lily.store import outbox
from lily.types import Tenant
from lily.wiring import Core
from lily.workers.deliver import Engine
from lily.workers.wire import Wire
from tests.flow.notifying import NOON, Stage, staged
from tests.vendors.server import Scripted, running


@pytest.fixture
def stage(core: Core, system: Core, tenant: Tenant) -> Iterator[Stage]:
    with staged(core, system, tenant) as made:
        yield made


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_a_success_is_told_once(stage: Stage, status: int) -> None:
    with running(Scripted(status)) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen()
        stage.tell()
        stage.match()
        assert stage.deliver() == 0
        [sent] = stage.deliveries()
        assert (sent.state, sent.attempts, sent.status, len(vendor.calls)) == (
            "delivered", 1, status, 1,
        )  # fmt: skip


def test_an_outcome_is_written_when_the_store_is_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, failures = outbox.settle, [Unavailable("away"), Unavailable("still away")]

    def unsteady(*given: Any) -> None:
        if failures:
            raise failures.pop()
        settle(*given)

    monkeypatch.setattr(outbox, "settle", unsteady)

    async def play() -> None:
        wire = Wire(egress.networks(stage.allowed))
        engine = Engine(stage.system, wire)
        writing = asyncio.create_task(engine.write())
        try:
            for _ in range(2):  # the writer has nothing to do in between, and then again
                stage.happen()
                stage.match()
                engine.start(await engine.claim())
                async with asyncio.timeout(20):
                    while {sent.state for sent in stage.deliveries()} != {"delivered"}:
                        await asyncio.sleep(0.02)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await engine.finish(5)
            await wire.close()

    with running(Scripted(200)) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        asyncio.run(play())
        assert not failures and len(vendor.calls) == len(stage.deliveries()) == 2


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 504, 501, 599])
def test_what_may_heal_is_tried_on_the_published_schedule_and_then_dead(
    stage: Stage, status: int
) -> None:
    with running(Scripted(status)) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen()
        stage.match()
        expected = [NOON]
        assert stage.deliver() == 1
        for wait in SCHEDULE:
            stage.after(seconds=wait.total_seconds() - 0.001)
            assert stage.deliver() == 0, "too early"
            stage.after(seconds=0.001)
            assert stage.deliver() == 1
            expected.append(expected[-1] + wait)
        [sent] = stage.deliveries()
        assert (sent.state, sent.attempts, sent.tries) == ("dead", ATTEMPTS, ATTEMPTS)
        assert [attempt.at for attempt in stage.attempts(sent.id)] == expected
        assert len({headers["webhook-id"] for _, _, headers, _ in vendor.calls}) == 1
        stage.after(days=30)
        assert stage.deliver() == 0
        [failed] = stage.facts("DeliveryFailed")
        assert failed.after and failed.after["delivery"] == str(sent.id)


def test_chance_makes_a_wait_longer_but_not_by_more_than_a_fifth(stage: Stage) -> None:
    stage.chance = lambda: 0.999
    with running(Scripted(500)) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen()
        stage.tell()
        [sent] = stage.deliveries()
        assert timedelta(seconds=5.9) < sent.due_at - NOON < timedelta(seconds=6)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 415, 422, 302, 418])
def test_what_can_never_work_is_dead_at_once_with_its_reason(stage: Stage, status: int) -> None:
    away = {"Location": "http://127.0.0.1:1/"} if status == 302 else {}
    with running(Scripted((status, away, b"not like this"))) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen()
        stage.tell()
        [sent] = stage.deliveries()
        assert (sent.state, sent.status, sent.attempts) == ("dead", status, 1)
        assert f"answered {status}" in sent.reason and "not like this" in sent.reason
        assert len(vendor.calls) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_patience_that_is_asked_for_is_given_and_does_not_count(stage: Stage, status: int) -> None:
    wait = {"Retry-After": "120"}
    with running(Scripted((status, wait, b""), 200)) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen(count=3)
        stage.match()
        stage.deliver()
        told = len(vendor.calls)
        stage.happen()
        stage.match()
        stage.after(seconds=119)
        assert stage.deliver() == 0, "the whole target waits, also for what is new"
        stage.after(seconds=2)
        stage.tell()
        assert {sent.state for sent in stage.deliveries()} == {"delivered"}
        throttled = [a for sent in stage.deliveries() for a in stage.attempts(sent.id)
                     if a.outcome == "throttled"]  # fmt: skip
        assert throttled and all(sent.attempts == 1 for sent in stage.deliveries())
        assert told <= 3


def test_a_429_without_a_time_waits_too(stage: Stage) -> None:
    with running(Scripted(429, 200)) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen()
        stage.match()
        assert stage.deliver() == 1
        stage.after(seconds=29)
        assert stage.deliver() == 0
        stage.after(seconds=1)
        assert stage.deliver() == 1
        assert stage.deliveries()[0].state == "delivered"


def test_what_is_gone_is_switched_off_and_people_are_told(stage: Stage) -> None:
    with running(Scripted(410)) as vendor, running(Scripted(200)) as other:
        stage.subscribe(stage.webhook(vendor.url))
        stage.subscribe(stage.webhook(other.url), ["TargetDisabled"])
        stage.happen(count=30)
        stage.tell()
        calls = len(vendor.calls)
        stage.happen()
        stage.tell()
        assert len(vendor.calls) == calls <= 16, "nothing is sent there any more"
        assert {s.state for s in stage.deliveries() if s.kind == "AssetChanged"} <= {
            "dead", "waiting",
        }  # fmt: skip
        [disabled] = stage.facts("TargetDisabled")
        assert disabled.after and "410" in disabled.after["reason"]
        assert len(other.calls) == 1


def test_nobody_there_is_like_a_failure_that_may_heal(stage: Stage) -> None:
    stage.subscribe(stage.webhook("http://127.0.0.1:1"))
    stage.happen()
    stage.tell()
    [sent] = stage.deliveries()
    assert (sent.state, sent.attempts) == ("waiting", 1)
    assert "cannot connect" in sent.reason
    assert sent.due_at == NOON + SCHEDULE[0]


def test_a_target_that_only_fails_is_left_alone_and_tried_with_one(stage: Stage) -> None:
    with running(Scripted(*[500] * (FAILURES + 6), 200)) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen(count=100)
        stage.match()
        assert stage.deliver() == 16
        assert stage.deliver() == 0, "the circuit is open"
        stage.after(minutes=6)
        assert stage.deliver() == 1, "one to see whether it is back"
        assert vendor.calls and stage.deliver() > 1
        stage.tell()
        assert {sent.state for sent in stage.deliveries()} == {"delivered"}


def test_a_new_subscription_hears_no_history(stage: Stage) -> None:
    with running(Scripted(200)) as vendor:
        target = stage.webhook(vendor.url)
        stage.happen(count=5)
        stage.subscribe(target)
        stage.happen(count=2)
        stage.tell()
        assert len(vendor.calls) == 2


def test_reading_the_same_facts_again_makes_nothing_new(stage: Stage) -> None:
    with running(Scripted(200)) as vendor:
        stage.subscribe(stage.webhook(vendor.url))
        stage.happen(count=3)
        stage.tell()
        with stage.system.database.cell(stage.tenant.cell, [stage.tenant.number]) as conn:
            conn.execute("UPDATE consumer SET position = 0 WHERE name = 'notify'")
        stage.tell()
        assert len(vendor.calls) == 3 == len(stage.deliveries())
