"""`lily ingest` for files of any size and format: send each as a job, and follow it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lily.cli.client import Client, refusal
from lily.cli.failures import FAILED, USAGE, Failure
from lily.errors import Invalid
from lily.formats.columns import SUFFIXES, kind_of

ROUTE = "/api/v1/metadata/bulk"
POLL = 0.25
SHOWN = 20
ENDED = ("succeeded", "partial", "failed", "cancelled")
Progress = Callable[[dict[str, Any]], None]


def files_in(path: Path) -> list[Path]:
    """The file, or every file below a folder whose ending tells a format, by name."""
    if not path.is_dir():
        return [path]
    found = [each for each in sorted(path.rglob("*")) if each.is_file() and _known(each)]
    if not found:
        endings = ", ".join(SUFFIXES)
        raise Failure(f"{path} has no file that ends in {endings} (.gz and .zst too).", USAGE)
    return found


def _known(path: Path) -> bool:
    try:
        kind_of("", path.name)
    except Invalid:
        return False
    return True


def send_files(client: Client, paths: Sequence[Path], wait: bool, quiet: bool) -> list[Any]:
    """One job a file, in order; the next one is sent when the last one has ended."""
    done = []
    for path in paths:
        with _bar(path, quiet) as progress:
            done.append(send_file(client, path, wait, progress))
    return done


def send_file(client: Client, path: Path, wait: bool, progress: Progress) -> dict[str, Any]:
    if not _known(path):
        raise Failure(f"{path}: the ending must be one of {', '.join(SUFFIXES)}.", USAGE)
    try:
        with path.open("rb") as file:
            status, answer = client.upload(ROUTE, file, path.stat().st_size, name=path.name)
    except OSError as cause:
        raise Failure(f"{path} cannot be read: {cause.strerror or cause}.", USAGE) from cause
    if status >= 400:
        raise refusal(status, answer)
    where = f"{ROUTE}/status/{answer['job_id']}"
    job: dict[str, Any] = client.get(where)
    while wait and job["state"] not in ENDED:
        progress(job)
        time.sleep(POLL)
        job = client.get(where)
    progress(job)
    return {"file": str(path), **job}


def told(job: dict[str, Any]) -> str:
    """What became of a file, in lines."""
    counts = job["counts"]
    lines = [f"line {error['line']}: {error['reason']}" for error in job["errors"][:SHOWN]]
    if counts["rejected"] > len(lines):
        lines.append(f"… and {counts['rejected'] - len(lines)} more: GET {job['errors_url']}")
    if job["reason"]:
        lines.append(job["reason"])
    lines.append(
        f"{job['file']}: {job['state']}; {counts['accepted']} of {counts['read']} accepted"
        f" ({counts['created']} created, {counts['updated']} updated,"
        f" {counts['unchanged']} unchanged)."
    )
    return "\n".join(lines)


def verdict(jobs: Sequence[dict[str, Any]]) -> None:
    """An exit code for what was refused or went wrong."""
    bad = [job for job in jobs if job["state"] in ("partial", "failed", "cancelled")]
    if bad:
        names = ", ".join(f"{job['file']} ({job['state']})" for job in bad)
        raise Failure(f"Not everything was loaded: {names}.", FAILED)


@contextmanager
def _bar(path: Path, quiet: bool) -> Iterator[Progress]:
    """A bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=quiet or not console.is_terminal
    ) as bar:
        task = bar.add_task(path.name, total=None)

        def show(job: dict[str, Any]) -> None:
            text = f"{path.name} {job['stage']}"
            bar.update(task, description=text, completed=job["counts"]["read"], total=job["lines"])

        yield show
