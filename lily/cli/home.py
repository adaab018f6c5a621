"""The folder of an installation: its lock, its credentials, and what a killed run left behind."""

import fcntl
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lily.cli import processes
from lily.cli.failures import Failure


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Only one `lily up` per folder; the lock ends with the process, however it ends."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        handle = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as cause:
        raise Failure(
            f"{home} cannot be written ({cause.strerror}); choose another folder with --home."
        ) from cause
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as cause:
        holder = os.read(handle, 32).decode().strip() or "unknown"
        os.close(handle)
        raise Failure(
            f"Lily is already running on {home} (process {holder});"
            " stop that one, or choose another folder with --home and another --port."
        ) from cause
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, and never readable by others, not even for a moment."""
    fresh = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def write_credentials(home: Path, values: Mapping[str, str]) -> Path:
    path = home / "credentials"
    write_private(path, json.dumps(dict(values), indent=2) + "\n")
    return path


def read_credentials(home: Path) -> dict[str, str] | None:
    """None when there are none; a sentence when they cannot be read."""
    path = home / "credentials"
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as cause:
        raise Failure(
            f"{path} cannot be read ({cause}); repair it, or give --url and --token."
        ) from cause
    if not isinstance(values, dict):
        raise Failure(f"{path} is not a JSON object; repair it, or give --url and --token.")
    return {str(key): str(value) for key, value in values.items()}


def keep_url(home: Path, url: str) -> None:
    """Credentials follow the API when it moves to another port."""
    known = read_credentials(home)
    if known is not None and known.get("url") != url:
        write_credentials(home, {**known, "url": url})


def note_processes(home: Path, pids: Mapping[str, int]) -> None:
    """Written at every change, so that the next start finds what a killed one left behind."""
    (home / "processes.json").write_text(json.dumps(dict(pids)))


def end_leftovers(home: Path) -> list[str]:
    """End children of a `lily up` that was killed; returns their names."""
    try:
        known = json.loads((home / "processes.json").read_text())
    except (FileNotFoundError, ValueError):
        return []
    ended = []
    for name, pid in known.items():
        if processes.alive(pid) and "lily.cli" in processes.command_of(pid):
            processes.end(pid, signal.SIGTERM, signal.SIGKILL, patience=15)
            processes.sweep(pid)
            ended.append(name)
    return ended
