"""The same grants and the same questions, asked of an Open Policy Agent beside Lily."""

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from lily.cli.bench.load import JSON, Tally, closed_loop, play
from lily.cli.bench.report import Report
from lily.cli.bench.wire import Wire
from lily.cli.failures import Failure

MODULE = "github.com/open-policy-agent/opa@v1.9.0"
CACHE = Path.home() / ".cache" / "lily" / "bin"
POLICY = """package lily

import rego.v1

decisions := [object.get(data.grants, [input.user, asset], false) | some asset in input.assets]
"""
PATH = "/v1/data/lily/decisions"
STARTING = 60.0


def beside(
    grants: Iterable[tuple[str, str]],
    questions: Sequence[tuple[str, list[str]]],
    connections: int,
    seconds: float,
    report: Report,
) -> None:
    """Whether users may write assets, a list of assets a request."""
    data: dict[str, dict[str, bool]] = {}
    for user, asset in grants:
        data.setdefault(user, {})[asset] = True
    with _serving(data) as url:
        tally = play(_asked(url, questions, connections, seconds))
    report.add("OPA over HTTP, same grants and questions", tally.rate, "/s")
    report.latency("OPA, request of 1,000", tally.seconds)
    report.notes += [f"{why}: {count} times" for why, count in tally.failures.items()]


async def _asked(
    url: str, questions: Sequence[tuple[str, list[str]]], connections: int, seconds: float
) -> Tally:
    tally, wire = Tally(), Wire(url, connections)
    bodies = [
        json.dumps({"input": {"user": user, "assets": assets}}).encode()
        for user, assets in questions
    ]

    async def once(number: int) -> None:
        began = time.perf_counter()
        status, body = await wire.request("POST", PATH, JSON, bodies[number % len(bodies)])
        wanted = len(questions[number % len(bodies)][1])
        if status == 200 and len(json.loads(body)["result"]) == wanted:
            tally.seconds.append(time.perf_counter() - began)
            tally.items += wanted
        else:
            tally.fail(f"OPA answered {status}")

    tally.began, tally.ended = await closed_loop(connections, seconds, once)
    wire.close()
    return tally


@contextmanager
def _serving(grants: dict[str, dict[str, bool]]) -> Iterator[str]:
    program = _program()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="lily-opa-") as folder:
        (Path(folder) / "data.json").write_text(json.dumps({"grants": grants}))
        (Path(folder) / "lily.rego").write_text(POLICY)
        process = subprocess.Popen(
            [program, "run", "--server", "--addr", address, "--log-level", "error", folder],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait(address, process)
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(20)


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    host, _, port = address.partition(":")
    end = time.monotonic() + STARTING
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.1)
    raise Failure("OPA did not start.")


def _program() -> str:
    """On the path, in the cache, or installed now."""
    if found := shutil.which("opa") or shutil.which("opa", path=str(CACHE)):
        return found
    if shutil.which("go") is None:
        raise Failure("There is neither opa nor a Go to install it with.")
    CACHE.mkdir(parents=True, exist_ok=True)
    command = ["env", f"GOBIN={CACHE}", "go", "install", MODULE]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"OPA cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return str(CACHE / "opa")
