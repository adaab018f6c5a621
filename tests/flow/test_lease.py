"""Who leads: one at a time, replaced when it falls silent, and shut out when it comes back late."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event
from uuid import uuid4

import psycopg
import pytest

from lily.cli import checks
from lily.errors import Fenced
from lily.settings import load
from lily.store import lease, takeover
from lily.store.database import HOME, direct
from lily.store.embedded import Server
from lily.store.ingest import Batch, Ingest, Span
from lily.store.lease import Lease, holders
from lily.store.migrate import migrate
from lily.store.presence import presence
from lily.store.writer import Writer
from lily.tags.effective import effective
from lily.wiring import Core
from lily.wiring import core as build_core
from tests.waiting import until

Make = Callable[..., Lease]


@pytest.fixture
def duty() -> str:
    return f"test-{uuid4().hex[:8]}"


@pytest.fixture
def make(system: Core, duty: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(lease, "BEAT", 0.05)
    monkeypatch.setattr(lease, "PAUSE", 0.05)
    made: list[Lease] = []

    def build(lost: Callable[[], None] = lambda: None, term: float = 8.0) -> Lease:
        made.append(Lease(system.database, duty, lost, term))
        return made[-1]

    yield build
    for each in made:
        each.release()


def test_only_one_has_a_duty_and_the_next_has_a_higher_number(
    system: Core, make: Make, duty: str
) -> None:
    one, other = make(), make()
    assert one.free()
    assert not other.free()
    [held] = [each for each in holders(system.database) if each.duty == duty]
    assert held.epoch == one.epoch
    before = one.epoch
    one.release()
    assert other.acquire(Event())
    assert other.epoch > before


def test_who_falls_silent_is_replaced_and_hears_of_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was paused, or whose connection hangs: it is there, but does not renew."""
    lost, silent = Event(), Event()
    one, other = make(lost.set, term=0.5), make()
    renew = one._ask
    monkeypatch.setattr(one, "_ask", lambda what: None if not silent.is_set() else renew(what))
    assert one.free()
    assert other.acquire(Event())
    assert not lost.is_set()
    silent.set()
    until(lost.is_set)


def test_a_holder_that_was_killed_on_this_machine_is_not_waited_for(
    system: Core, make: Make, duty: str
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as short:
        short.wait()
    one = make(term=3600.0)
    assert one.free()
    with system.database.home() as conn:
        conn.execute("UPDATE lease SET pid = %s WHERE duty = %s", [short.pid, duty])
    assert make().free()


def test_a_holder_survives_that_its_connection_is_cut(make: Make, home: str, duty: str) -> None:
    lost = Event()
    one = make(lost.set)
    assert one.free()
    assert one._conn is not None
    before = one._conn.info.backend_pid
    with psycopg.connect(home, autocommit=True) as conn:
        conn.execute("SELECT pg_terminate_backend(%s)", [before])
    until(lambda: one._conn is not None and one._conn.info.backend_pid != before)
    assert not make().free()
    assert not lost.is_set()


@pytest.fixture(scope="module")
def apart(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """A database of one's own: the position of the log is one for all tenants."""
    url = server.create_database(f"lease_{uuid4().hex[:8]}")
    migrate(url)
    built = build_core(load(home=tmp_path_factory.mktemp("lease"), database=url), "lily_system")
    yield built
    built.close()


def test_a_leader_that_comes_back_late_commits_nothing(apart: Core) -> None:
    first, second = _writer(apart), _writer(apart)
    start = _position(apart)
    takeover.claim(apart.database, 1, Event())
    assert first.apply(HOME, _batch(start, start + 5, epoch=1), str)
    takeover.claim(apart.database, 2, Event())
    with pytest.raises(Fenced, match="taken over"):  # it is the next one, and yet refused
        first.apply(HOME, _batch(start + 5, start + 9, epoch=1), str)
    assert second.apply(HOME, _batch(start + 5, start + 7, epoch=2), str)
    assert _position(apart) == start + 7
    first.close()
    second.close()


def test_a_transaction_of_a_leader_that_hangs_is_ended(apart: Core) -> None:
    """It holds the position's lock, and its process may be paused for hours."""
    before = _position(apart)
    with psycopg.connect(
        apart.database.role_url(HOME), application_name=takeover.INGEST
    ) as hanging:
        hanging.execute("UPDATE applied SET position = 999 WHERE lane = 'core'")
        takeover.claim(apart.database, 3, Event())
        with pytest.raises(psycopg.OperationalError):
            hanging.commit()
        with suppress(psycopg.OperationalError):
            hanging.rollback()
    assert _position(apart) == before


def test_the_doctor_says_who_leads_and_who_waits(apart: Core) -> None:
    with presence(apart, "pipeline") as waiting:
        waiting.say(warm=True, state="standby")
        until(lambda: checks.pipeline(apart).state == "warning")
        assert "none leads" in checks.pipeline(apart).sentence
        leader = Lease(apart.database, "ingest", lambda: None)
        assert leader.free()
        found = checks.pipeline(apart)
        leader.release()
    assert (found.state, "1 more stand by" in found.sentence) == ("ok", True)


def _writer(core: Core) -> Writer:
    ingest = Ingest(effective, core.database.tenant, lambda _: {})
    return Writer(core.database, ingest, core.clock, Event())


def _batch(start: int, end: int, epoch: int) -> Batch:
    return Batch(uuid4(), [Span("core", start, end)], [], [], epoch=epoch)


def _position(core: Core) -> int:
    with direct(core.database, HOME) as conn:
        row = conn.execute("SELECT position FROM applied WHERE lane = 'core'").fetchone()
    assert row is not None
    return int(row[0])
