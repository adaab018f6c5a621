"""The folder of an installation, its port and its log files."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lily.cli import home, processes
from lily.cli.failures import Failure
from lily.cli.listener import listen, port_of
from lily.cli.output import Output, RoleFile, pretty


def test_a_second_start_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with home.locked(tmp_path), pytest.raises(Failure, match="already running") as failure:
        home.locked(tmp_path).__enter__()
    assert str(os.getpid()) in failure.value.sentence
    with home.locked(tmp_path):
        pass


def test_credentials_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    path = home.write_credentials(tmp_path, {"url": "http://a", "password": "secret"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    home.keep_url(tmp_path, "http://b")
    assert home.read_credentials(tmp_path) == {"url": "http://b", "password": "secret"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_credentials_are_none_and_broken_ones_a_sentence(tmp_path: Path) -> None:
    assert home.read_credentials(tmp_path) is None
    (tmp_path / "credentials").write_text("{")
    with pytest.raises(Failure, match="cannot be read"):
        home.read_credentials(tmp_path)


def test_children_that_a_killed_start_left_are_ended(tmp_path: Path) -> None:
    code = "print(flush=True); import time; time.sleep(60)  # lily.cli"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as left:
        assert left.stdout is not None
        left.stdout.readline()
        home.note_processes(tmp_path, {"pipeline": left.pid, "gone": 2**22 + 1})
        assert home.end_leftovers(tmp_path) == ["pipeline"]
        assert left.wait() == -signal.SIGTERM


def test_a_process_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    home.note_processes(tmp_path, {"pipeline": os.getppid()})
    assert home.end_leftovers(tmp_path) == []
    assert processes.alive(os.getppid())


def test_a_taken_port_is_one_sentence_with_the_cure() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(Failure, match="is taken") as failure:
        listen("127.0.0.1", port_of(taken))
    assert "--port" in failure.value.sentence


def test_an_address_of_another_machine_is_one_sentence() -> None:
    with pytest.raises(Failure, match="LILY_HOST"):
        listen("192.0.2.1", 0)


def test_clients_wait_in_the_queue_of_a_port_whose_api_restarts() -> None:
    with (
        listen("127.0.0.1", 0) as sock,
        socket.create_connection(("127.0.0.1", port_of(sock)), timeout=5) as client,
        sock.accept()[0] as accepted,
    ):
        accepted.sendall(b"x")
        assert client.recv(1) == b"x"


def test_a_full_log_file_moves_aside(tmp_path: Path) -> None:
    file = RoleFile(tmp_path / "work.log", limit=10)
    for line in (b"one 1234\n", b"two 1234\n", b"three 12\n", b"four 123\n"):
        file.write(line)
    file.close()
    names = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert names == {
        "work.log": b"four 123\n",
        "work.log.1": b"three 12\n",
        "work.log.2": b"two 1234\n",
    }


def test_the_terminal_shows_log_lines_and_files_keep_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(tmp_path)
    output.line("pipeline", b"WARN NativeCodeLoader: noise of a library\n")
    output.line(
        "pipeline", b'{"time":"2024-05-06T07:08:09Z","level":"info","event":"batch","n":5}\n'
    )
    output.line("pipeline", b'{"level":"debug","event":"detail"}\n')
    output.news("pipeline", "warning", "pipeline ended", last=["Traceback"])
    output.close()
    shown = capsys.readouterr().err
    assert "batch" in shown and "n=5" in shown and "07:08:09" in shown
    assert "noise" not in shown and "detail" not in shown
    assert "Traceback" in shown
    assert b"noise" in (tmp_path / "pipeline.log").read_bytes()


def test_a_line_for_people_begins_with_time_and_role() -> None:
    line = {"time": "2024-05-06T07:08:09Z", "level": "info", "event": "ready", "port": 1}
    assert "serve" in pretty("serve", line)
