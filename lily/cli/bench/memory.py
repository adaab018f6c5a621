"""`lily bench memory`: a large file streams in, and no process grows with it."""

import tempfile
import time
from collections import defaultdict
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

import typer

from lily.cli.bench import shape
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report
from lily.cli.bench.usage import PROC, below, roots
from lily.cli.bulk import ENDED, ROUTE
from lily.cli.client import Client, connect
from lily.cli.failures import Failure

EVERY = 0.5
FLAT = 64  # MB that the API may have more at its peak than before
HEAP = 1_024  # MB: Spark's heap, and what its executors hold of one part each
BLOCK = 10_000  # lines that are made once and sent over and over


def measure(where: Place, megabytes: int, load: bool) -> Report:
    """Send so many megabytes; loading them may be left out, which takes most of the time."""
    report = Report("memory")
    watch = Watch(where)
    with tempfile.TemporaryDirectory(dir=where.settings.home) as folder:
        path = Path(folder) / "large.ndjson"
        lines = _made(path, megabytes * 1_000_000)
        typer.echo(f"Sending {megabytes} MB …", err=True)
        with watch:
            client = connect(where.settings.home, where.url, timeout=3_600)
            with path.open("rb") as file:
                answer = _sent(client, file, path)
            sent = dict(watch.peak)
            job = _followed(client, answer["job_id"]) if load else _cancelled(client, answer)
    report.notes.append(f"{lines} lines; the job {job['state']}: {job['counts']}")
    for group in ("api", "bulk", "spark", "postgresql"):
        before, peak = watch.before.get(group, 0.0), watch.peak.get(group, 0.0)
        target = before + {"api": FLAT, "bulk": HEAP + FLAT}.get(group, 0.0)
        limit = target if group in ("api", "bulk") else None
        report.add(f"PSS of {group} before", before, "MB")
        report.add(f"PSS of {group} at its peak while sending", sent.get(group, 0.0), "MB")
        report.add(f"PSS of {group} at its peak", peak, "MB", limit)
    return report


class Watch:
    """The most memory that each group of processes had while the block ran."""

    def __init__(self, where: Place) -> None:
        self._roots = roots(where)
        self._over = Event()
        self._thread = Thread(target=self._look, name="memory", daemon=True)
        self.before = self._read()
        self.peak: dict[str, float] = dict(self.before)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(EVERY):
            for group, size in self._read().items():
                self.peak[group] = max(self.peak.get(group, 0.0), size)

    def _read(self) -> dict[str, float]:
        others = {pid for pids in self._roots.values() for pid in pids}
        found: dict[str, float] = defaultdict(float)
        for group, pids in self._roots.items():
            for root in pids:
                own = [root, *(pid for pid in below(root) if pid not in others)]
                found[group] += sum(map(_pss, own)) / 1_000
        return found


def _pss(pid: int) -> int:
    """Kilobytes, shared pages counted by their share; 0 for a process that has ended."""
    try:
        text = (PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def _made(path: Path, size: int) -> int:
    """The same lines again and again, so that they are quickly made: the last of them counts."""
    with tempfile.TemporaryFile() as scrap:
        shape.write(scrap, BLOCK, seed=5)
        scrap.seek(0)
        block = scrap.read()
    lines = 0
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(block)
            lines += BLOCK
    return lines


def _sent(client: Client, file: IO[bytes], path: Path) -> dict[str, Any]:
    status, answer = client.upload(ROUTE, file, path.stat().st_size, name=path.name)
    if status != 202:
        raise Failure(f"The file was refused with {status}: {answer}")
    found: dict[str, Any] = answer
    return found


def _followed(client: Client, job: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while found.get("state") not in ENDED:
        found = client.get(f"{ROUTE}/status/{job}")
        time.sleep(EVERY)
    return found


def _cancelled(client: Client, answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.post(f"{ROUTE}/{answer['job_id']}/cancel")
    return found
