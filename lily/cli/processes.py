"""What the operating system knows of processes: parents, sessions, and how to end them."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PROC = Path("/proc")


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """For a child to call before it runs: the kernel then sends the signal when the parent dies.

    The parent is the thread that forked, so children must be started from a thread that stays.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here: after the fork it is too late
    return lambda: libc.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) and None


def follow_parent(parent: int, number: signal.Signals = signal.SIGTERM) -> None:
    """In a child: end when the parent ends, even if that was before we could ask for it."""
    die_with_parent(number)()
    if os.getppid() != parent:
        raise SystemExit(0)


def alive(pid: int) -> bool:
    """Running, or stopped; a zombie is not alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    fields = _stat(pid)
    return fields is None or fields[0] not in "ZX"


def command_of(pid: int) -> str:
    """The command line of a process; empty when there is none."""
    if PROC.joinpath("self").exists():
        with suppress(OSError):
            raw = (PROC / str(pid) / "cmdline").read_bytes()
            return raw.replace(b"\0", b" ").decode(errors="replace").strip()
        return ""
    done = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip()


def members(session: int) -> list[int]:
    """The living processes of a session, whatever group they moved themselves to."""
    found = []
    for folder in PROC.glob("[0-9]*"):
        fields = _stat(int(folder.name))
        if fields is not None and fields[0] not in "ZX" and int(fields[3]) == session:
            found.append(int(folder.name))
    return found


def sweep(session: int, number: signal.Signals = signal.SIGKILL) -> int:
    """Signal what is left of a session; returns how many processes that were."""
    left = members(session)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    if not PROC.joinpath("self").exists():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(session, number)
    return len(left)


def end(pid: int, gently: signal.Signals, firmly: signal.Signals, patience: float) -> None:
    """Ask a process that is not our child to stop, then insist."""
    for number in (gently, firmly):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        until = time.monotonic() + patience
        while alive(pid) and time.monotonic() < until:
            time.sleep(0.05)
        if not alive(pid):
            return


def _stat(pid: int) -> list[str] | None:
    """State, parent, group, session and so on; None when it is gone or unknown here."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
