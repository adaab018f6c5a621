"""The supervisor, with real child processes."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from lily.cli import processes
from lily.cli.supervisor import Program, Supervisor, pause_after, why


class Heard:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.events: list[str] = []
        self.last: list[object] = []

    def line(self, name: str, raw: bytes) -> None:
        self.lines.append((name, raw.decode().strip()))

    def news(self, name: str, level: str, event: str, **more: object) -> None:
        self.events.append(event)
        self.last.append(more.get("last"))


def python(name: str, code: str, patience: float = 5.0) -> Program:
    command = [sys.executable, "-u", "-c", textwrap.dedent(code)]

    def launch(output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    return Program(name, launch, patience=patience)


SLEEPER = "import time\nprint('up')\ntime.sleep(60)"
POLITE = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit(0)))
    print('up')
    time.sleep(60)
"""
STUBBORN = """
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('up')
    time.sleep(60)
"""


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def supervisor(heard: Heard) -> Iterator[Supervisor]:
    made = Supervisor(heard)
    yield made
    hurry = Event()
    hurry.set()
    made.shut_down([list(made.pids())], hurry)


def watched(supervisor: Supervisor, until: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    supervisor.watch(Event(), lambda: until() or time.monotonic() > end)
    assert until()


def test_a_dead_child_is_started_again_and_says_why(supervisor: Supervisor, heard: Heard) -> None:
    supervisor.add(python("api", "import sys\nprint('no database')\nsys.exit(3)"))
    watched(supervisor, lambda: len(heard.events) == 2)
    assert heard.events == [
        "api ended with code 3; starting it again in 0.5 s",
        "api ended with code 3; starting it again in 1 s",
    ]
    assert heard.last[0] == ["no database"]


def test_a_killed_child_is_named_with_its_signal(supervisor: Supervisor, heard: Heard) -> None:
    child = supervisor.add(python("pipeline", SLEEPER))
    watched(supervisor, lambda: ("pipeline", "up") in heard.lines)
    os.kill(supervisor.pids()["pipeline"], signal.SIGKILL)
    watched(supervisor, lambda: child.starts == 2)
    assert heard.events == ["pipeline killed by SIGKILL; starting it again in 0.5 s"]


def test_a_program_that_cannot_start_is_tried_again(supervisor: Supervisor, heard: Heard) -> None:
    def launch(output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/nowhere/lily"], stdout=output)

    supervisor.add(Program("work", launch))
    assert "work cannot be started" in heard.events[0]


def test_children_stop_in_order_and_each_is_waited_for(
    supervisor: Supervisor, heard: Heard
) -> None:
    for name in ("api", "pipeline", "postgres"):
        supervisor.add(python(name, POLITE))
    watched(supervisor, lambda: len(heard.lines) == 3)
    supervisor.shut_down([["api"], ["pipeline"], ["postgres"]], Event())
    assert [name for name, said in heard.lines if said == "bye"] == ["api", "pipeline", "postgres"]
    assert supervisor.pids() == {}


def test_a_child_that_does_not_stop_is_ended(supervisor: Supervisor, heard: Heard) -> None:
    supervisor.add(python("work", STUBBORN, patience=0.3))
    watched(supervisor, lambda: len(heard.lines) == 1)
    supervisor.shut_down([["work"]], Event())
    assert heard.events == ["work did not stop within 0.3 s; ending it"]
    assert supervisor.pids() == {}


def test_a_second_ctrl_c_hurries(supervisor: Supervisor, heard: Heard) -> None:
    supervisor.add(python("work", STUBBORN, patience=60))
    watched(supervisor, lambda: len(heard.lines) == 1)
    hurry = Event()
    hurry.set()
    began = time.monotonic()
    supervisor.shut_down([["work"]], hurry)
    assert time.monotonic() - began < 5


def test_what_a_dead_child_left_running_is_ended_too(supervisor: Supervisor, heard: Heard) -> None:
    code = """
        import os, subprocess, sys, time
        grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],
                                      process_group=0)
        print(grandchild.pid)
        time.sleep(60)
    """
    supervisor.add(python("pipeline", code))
    watched(supervisor, lambda: len(heard.lines) == 1)
    grandchild = int(heard.lines[0][1])
    os.kill(supervisor.pids()["pipeline"], signal.SIGKILL)
    watched(supervisor, lambda: not processes.alive(grandchild))
    watched(supervisor, lambda: bool(heard.events))
    assert "left 1 processes" in heard.events[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs PR_SET_PDEATHSIG")
def test_children_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    child = (
        "import time; from lily.cli.processes import follow_parent;"
        "import sys; follow_parent(int(sys.argv[1]));"
        "open(sys.argv[2], 'w').write('up'); time.sleep(60)"
    )
    parent = (
        "import os, subprocess, sys, time;"
        "p = subprocess.Popen([sys.executable, '-c', sys.argv[1], str(os.getpid()), sys.argv[2]],"
        " start_new_session=True);"
        "print(p.pid, flush=True); time.sleep(60)"
    )
    mark = tmp_path / "mark"
    with subprocess.Popen(
        [sys.executable, "-c", parent, child, str(mark)], stdout=subprocess.PIPE, text=True
    ) as supervising:
        assert supervising.stdout is not None
        pid = int(supervising.stdout.readline())
        _until(mark.exists)
        supervising.kill()
    _until(lambda: not processes.alive(pid))


def test_pauses_double_up_to_a_limit_and_a_long_life_resets_them() -> None:
    pauses = [0.0]
    for _ in range(8):
        pauses.append(pause_after(pauses[-1], life=1.0))
    assert pauses[1:] == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
    assert pause_after(15.0, life=61.0) == 0.5


def test_exit_codes_are_told_in_words() -> None:
    assert why(-9) == "killed by SIGKILL"
    assert why(-99) == "killed by signal 99"
    assert why(2) == "ended with code 2"


def _until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
