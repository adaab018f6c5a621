"""Another engine of decisions, started beside Lily and asked the same over HTTP."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lily.cli.bench.load import JSON, Tally, closed_loop, play
from lily.cli.bench.report import Report
from lily.cli.bench.wire import Wire
from lily.cli.failures import Failure

CACHE = Path.home() / ".cache" / "lily" / "bin"
STARTING = 60.0

Grants = dict[str, list[str]]  # by user, the assets they may write
Question = tuple[str, list[str]]


def ask(
    name: str,
    url: str,
    path: str,
    bodies: Sequence[tuple[bytes, int]],
    answers: Callable[[Any], int],
    connections: int,
    seconds: float,
    report: Report,
) -> None:
    """Requests in a closed loop, each with how many decisions it asks for."""
    tally = play(_asked(name, url, path, bodies, answers, connections, seconds))
    report.add(f"{name} over HTTP, same grants and questions", tally.rate, "/s")
    report.latency(f"{name}, request of {bodies[0][1]:,}", tally.seconds)
    report.notes += [f"{why}: {count} times" for why, count in tally.failures.items()]


async def _asked(
    name: str,
    url: str,
    path: str,
    bodies: Sequence[tuple[bytes, int]],
    answers: Callable[[Any], int],
    connections: int,
    seconds: float,
) -> Tally:
    tally, wire = Tally(), Wire(url, connections)

    async def once(number: int) -> None:
        body, wanted = bodies[number % len(bodies)]
        began = time.perf_counter()
        status, answer = await wire.request("POST", path, JSON, body)
        if status == 200 and answers(json.loads(answer)) == wanted:
            tally.seconds.append(time.perf_counter() - began)
            tally.items += wanted
        else:
            tally.fail(f"{name} answered {status}")

    tally.began, tally.ended = await closed_loop(connections, seconds, once)
    wire.close()
    return tally


@contextmanager
def serving(name: str, command: Sequence[str], port: int) -> Iterator[str]:
    """The engine while it answers on this port of the loopback address."""
    process = subprocess.Popen(  # a group of its own: some are started by a wrapper
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait(name, port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def installed(name: str, command: Sequence[str]) -> None:
    """Run what installs it. Raises Failure with its last words."""
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it says nothing"]
        raise Failure(f"{name} cannot be installed: {said[-1]}")


def _wait(name: str, port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTING
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise Failure(f"{name} did not start.")
