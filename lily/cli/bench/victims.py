"""The processes of one Lily, found through its own table, to be killed."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lily.cli import postgres, processes
from lily.cli.bench.place import Place
from lily.cli.failures import Failure
from lily.settings import child_environment
from lily.store.presence import alive


def find(where: Place, what: str) -> int:
    """The process to kill: the postmaster, or the newest living process of a role."""
    if what == "postgres":
        pid = postgres.postmaster(where.settings.home / "postgres")
        if pid is None:
            raise Failure(f"There is no embedded PostgreSQL in {where.settings.home} to kill.")
        return pid
    with where.core("lily_app", 1) as core:
        known = alive(core.database, what)
    ours = [each for each in known if _is_lily(each.pid)]
    if not ours:
        raise Failure(f"No process of the role {what} runs on this machine.")
    # A pipeline that stands by does nothing; the one that works is the one to kill.
    working = [each for each in ours if each.detail.get("state", "active") == "active"]
    return max(working or ours, key=lambda each: each.started_at).pid


def kill(where: Place, what: str) -> None:
    os.kill(find(where, what), signal.SIGKILL)


def kill_and_forget(where: Place) -> None:
    """Kill the pipeline and take its checkpoints away."""
    kill(where, "pipeline")
    shutil.rmtree(where.settings.home / "checkpoints", ignore_errors=True)


@contextmanager
def second_pipeline(where: Place) -> Iterator["subprocess.Popen[bytes]"]:
    """One pipeline more while the block runs."""
    home = str(where.settings.home)
    twin = subprocess.Popen(
        [sys.executable, "-m", "lily.cli", "pipeline", "--home", home],
        env=child_environment(where.settings),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield twin
    finally:
        twin.terminate()
        try:
            twin.wait(40)
        except subprocess.TimeoutExpired:
            twin.kill()
            twin.wait()


def _is_lily(pid: int) -> bool:
    return processes.alive(pid) and "lily" in processes.command_of(pid)
