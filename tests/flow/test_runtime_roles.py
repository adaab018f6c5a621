"""What every role does: be seen, keep its loops alive, and know how far the log is behind."""

import socket
import subprocess
import sys
from threading import Event, Thread

import pytest

from lily.store.lag import BY_TENANT, COUNTED, LAG, lag, looking
from lily.store.presence import alive, presence
from lily.types import Tenant
from lily.wiring import Core
from lily.workers import main
from tests.waiting import until


def test_a_role_is_seen_while_it_runs_and_tells_what_it_says(core: Core) -> None:
    with presence(core, "test-role") as me:
        me.say(warm=True)
        until(lambda: any(p.detail.get("warm") for p in alive(core.database, "test-role")))
        [seen] = alive(core.database, "test-role")
        assert seen.id == me.id
    assert alive(core.database, "test-role") == []


def test_a_role_is_seen_again_after_its_connection_broke(core: Core, system: Core) -> None:
    with presence(system, "test-broken") as me:
        until(lambda: bool(alive(core.database, "test-broken")))
        with core.database.home() as conn:
            conn.execute("DELETE FROM process WHERE id = %s", [me.id])
        me.say(again=True)
        until(lambda: any(p.detail.get("again") for p in alive(core.database, "test-broken")))


def test_rows_of_processes_long_gone_are_forgotten(core: Core) -> None:
    with core.database.home() as conn:
        conn.execute(
            "INSERT INTO process VALUES (gen_random_uuid(), 'gone', 'h', 1, now(),"
            " now() - interval '2 hours', '{}')"
        )
    with presence(core, "test-cleaner"):
        until(lambda: _count(core, "gone") == 0)


def test_a_loop_that_breaks_begins_again_and_the_others_go_on(
    system: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "FIRST_PAUSE", 0.01)
    tries, steady = [], Event()

    def broken(core: Core, stop: Event) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("no luck")
        stop.wait()

    def well(core: Core, stop: Event) -> None:
        steady.set()
        stop.wait()

    stop = Event()
    thread = Thread(target=main.run, args=(system, stop, [broken, well]))
    thread.start()
    until(lambda: len(tries) == 3 and steady.is_set())
    until(lambda: any(p.detail.get("failure_broken") for p in alive(system.database, "work")))
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert alive(system.database, "work") == []


def test_a_loop_is_named_after_its_module(system: Core) -> None:
    def run(core: Core, stop: Event) -> None: ...

    run.__module__ = "lily.workers.retention"
    assert main.name_of(run) == "retention"


def test_lag_counts_what_waits_and_since_when(core: Core, system: Core, tenant: Tenant) -> None:
    before = {part.lane: part.waiting for part in lag(system.database, "home")}
    with core.database.home() as conn:
        conn.execute(
            'INSERT INTO log (lane, "offset", tenant, at, key, value) VALUES'
            " ('fields', nextval('log_fields_offset'), %s, now() - interval '1 minute', 'k', '{}')",
            [tenant.number],
        )
    after = {part.lane: part for part in lag(system.database, "home")}
    assert after["fields"].waiting == before["fields"] + 1
    assert after["fields"].seconds >= 60
    with system.database.cell("home") as conn:
        conn.execute("DELETE FROM log WHERE tenant = %s", [tenant.number])


@pytest.mark.parametrize("statement", [LAG, BY_TENANT])
def test_to_tell_what_waits_the_log_is_not_read_whole(system: Core, statement: str) -> None:
    with looking(system.database, "home") as conn:
        plan = "\n".join(row[0] for row in conn.execute(f"EXPLAIN {statement}", [COUNTED]))
    assert "log_core" in plan
    assert "Seq Scan on log" not in plan


def _count(core: Core, role: str) -> int:
    with core.database.home() as conn:
        row = conn.execute("SELECT count(*) FROM process WHERE role = %s", [role]).fetchone()
    assert row is not None
    return int(row[0])


def test_a_killed_process_of_this_machine_is_gone_at_once(core: Core) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as short:
        short.wait()
    with core.database.home() as conn:
        conn.execute(
            "INSERT INTO process VALUES (gen_random_uuid(), 'killed', %s, %s, now(), now(), '{}'),"
            " (gen_random_uuid(), 'killed', 'another-machine', %s, now(), now(), '{}')",
            [socket.gethostname(), short.pid, short.pid],
        )
    assert [process.host for process in alive(core.database, "killed")] == ["another-machine"]
    with core.database.home() as conn:
        conn.execute("DELETE FROM process WHERE role = 'killed'")
