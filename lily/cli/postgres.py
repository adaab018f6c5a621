"""The embedded PostgreSQL as a supervised child."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lily.cli import processes
from lily.cli.supervisor import Program

if TYPE_CHECKING:
    from lily.store.embedded import Server

NAME = "postgres"


def program(server: "Server") -> Program:
    """SIGINT stops it fast and clean; SIGQUIT at once, and it recovers at the next start."""
    before_exec = processes.die_with_parent(signal.SIGINT)

    def launch(output: int) -> subprocess.Popen[bytes]:
        clear_the_way(server.data)
        return server.run(output, before_exec)

    return Program(NAME, launch, signal.SIGINT, signal.SIGQUIT, patience=20)


def clear_the_way(data: Path) -> None:
    """Stop a server that an earlier run left on this folder, and what a dead one left running."""
    pid = postmaster(data)
    if pid is not None:
        processes.end(pid, signal.SIGINT, signal.SIGQUIT, patience=20)
    for orphan in _working_in(data):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(orphan, signal.SIGQUIT)


def postmaster(data: Path) -> int | None:
    """The process that serves this folder now, if there is one."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None
    ours = processes.alive(pid) and str(data) in processes.command_of(pid)
    return pid if ours else None


def _working_in(data: Path) -> list[int]:
    """Backends without their postmaster: they hold its shared memory until they end."""
    found = []
    for folder in processes.PROC.glob("[0-9]*"):
        with suppress(OSError):
            here = (folder / "cwd").readlink() == data.resolve()
            if here and processes.command_of(int(folder.name)).startswith("postgres:"):
                found.append(int(folder.name))
    return found
