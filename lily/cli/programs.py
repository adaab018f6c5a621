"""The Lily roles as programs for the supervisor."""

import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from os import getpid

from lily.cli.supervisor import Program

PATIENCE = {"serve": 15.0, "pipeline": 30.0, "work": 15.0}
BULK = ("--stage", "bulk")


def role(
    command: str,
    env: Mapping[str, str],
    name: str = "",
    listener: socket.socket | None = None,
    more: Sequence[str] = (),
) -> Program:
    """One role in a process and session of its own, so that Ctrl-C reaches only the supervisor."""
    line = [sys.executable, "-m", "lily.cli", command, "--parent", str(getpid()), *more]
    passed: list[int] = []
    if listener is not None:
        passed.append(listener.fileno())
        line += ["--listener", str(listener.fileno())]

    def launch(output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(env),
            pass_fds=passed,
            start_new_session=True,
        )

    return Program(name or command, launch, patience=PATIENCE[command])


def api(count: int, env: Mapping[str, str], listener: socket.socket) -> list[Program]:
    """API processes that share one socket."""
    names = ["serve"] if count == 1 else [f"serve-{number}" for number in range(1, count + 1)]
    return [role("serve", env, name, listener) for name in names]
