"""`lily ingest`: files of assets. Small ones go in lists, with the outcome of each at once."""

import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from lily.cli import bulk, options, show
from lily.cli.asset import ROUTE
from lily.cli.client import Client, sentence
from lily.cli.failures import USAGE, Failure, from_status
from lily.cli.online import Online, online_command
from lily.formats.records import Record, read

LIST_LIMIT = 1000
BYTE_LIMIT = 4_000_000
SMALL = 1_000_000
SHOWN = 20
ITEM = re.compile(r"\[(\d+)\]\.?(.*)")


@online_command
def ingest(
    online: Online,
    path: Annotated[
        str,
        typer.Argument(
            metavar="FILE|DIR",
            help="JSON, NDJSON, CSV, XLSX, XML or Parquet, .gz and .zst too; - is JSON on stdin.",
        ),
    ],
    wait: Annotated[bool, typer.Option(help="Wait until what was sent is readable.")] = True,
    size: Annotated[
        int, typer.Option(min=1, max=LIST_LIMIT, help="Assets a request.")
    ] = LIST_LIMIT,
    as_json: options.AsJson = False,
) -> None:
    """Load a file of assets, or every file below a folder.

    A file is a job that Spark loads. JSON up to 1 MB is sent in requests, which is quicker.
    """
    client = online()
    if path != "-" and not _is_small(Path(path)):
        jobs = bulk.send_files(client, bulk.files_in(Path(path)), wait, quiet=as_json)
        show.answer(jobs, as_json, "\n".join(map(bulk.told, jobs)))
        bulk.verdict(jobs)
        return
    tally = Tally()
    with _opened(path) as file, _progress(path, quiet=as_json) as advance:
        for batch in batches(read(file), size, tally):
            send(client, batch, tally, wait)
            advance(tally.accepted + tally.failed)
    show.answer(asdict(tally), as_json, tally.text())
    if tally.failed:
        raise Failure(f"{tally.failed} of {tally.read} were refused; correct them and send again.")


def _is_small(path: Path) -> bool:
    """Whether lists are the quicker way; what is not there is told by who opens it."""
    if path.is_dir() or not path.exists():
        return not path.is_dir()
    names = path.name.removesuffix(".gz")
    return names.endswith((".json", ".ndjson", ".jsonl")) and path.stat().st_size <= SMALL


@dataclass
class Tally:
    """What became of a file."""

    read: int = 0
    accepted: int = 0
    failed: int = 0
    errors: list[dict[str, object]] = field(default_factory=list)

    def refuse(self, line: int, reason: str) -> None:
        self.failed += 1
        self.errors.append({"line": line, "reason": reason})

    def text(self) -> str:
        lines = [f"line {e['line']}: {e['reason']}" for e in self.errors[:SHOWN]]
        if len(self.errors) > SHOWN:
            lines.append(f"… and {len(self.errors) - SHOWN} more; --json lists them all")
        return "\n".join([*lines, f"{self.accepted} of {self.read} accepted."])


def batches(records: Iterable[Record], size: int, tally: Tally) -> Iterator[list[Record]]:
    """Lists that one request may carry; what is not an object is refused here."""
    batch: list[Record] = []
    held = 0
    for record in records:
        tally.read += 1
        if record.reason or not isinstance(record.value, dict):
            tally.refuse(record.line, record.reason or "an asset is a JSON object")
            continue
        weight = len(json.dumps(record.value))
        if batch and (len(batch) == size or held + weight > BYTE_LIMIT):
            yield batch
            batch, held = [], 0
        batch.append(record)
        held += weight
    if batch:
        yield batch


def send(client: Client, batch: list[Record], tally: Tally, wait: bool) -> None:
    """One request; its outcomes are counted item by item."""
    headers = None if wait else {"Prefer": "respond-async"}
    body = [record.value for record in batch]
    status, answer = client.exchange("POST", ROUTE, body, headers=headers)
    if status in (401, 403, 429) or status >= 500:
        before = f"{tally.accepted} were accepted before line {batch[0].line}."
        raise Failure(f"{sentence(status, answer)} {before}", from_status(status))
    if status >= 400:
        each = by_item(answer)
        if len(each) == len(batch):
            for number, record in enumerate(batch):
                tally.refuse(record.line, each.get(number, "refused"))
        else:
            _halve(client, batch, tally, wait, sentence(status, answer))
        return
    outcomes = answer.get("items", []) if isinstance(answer, dict) else []
    for number, record in enumerate(batch):
        reason = refused(outcomes[number]) if number < len(outcomes) else ""
        if reason:
            tally.refuse(record.line, reason)
        else:
            tally.accepted += 1


def by_item(problem: Any) -> dict[int, str]:
    """Reasons of a refused list by item, from fields such as `[3].asset_name`."""
    reasons: dict[int, str] = {}
    for error in problem.get("errors") or [] if isinstance(problem, dict) else []:
        found = ITEM.match(str(error.get("field")))
        if found is not None:
            number, field = int(found[1]), found[2]
            said = f"{field}: {error.get('message')}" if field else str(error.get("message"))
            reasons[number] = f"{reasons[number]}; {said}" if number in reasons else said
    return reasons


def _halve(client: Client, batch: list[Record], tally: Tally, wait: bool, reason: str) -> None:
    """A list was refused as a whole: halve it until the guilty ones stand alone."""
    if len(batch) == 1:
        tally.refuse(batch[0].line, reason)
        return
    middle = len(batch) // 2
    send(client, batch[:middle], tally, wait)
    send(client, batch[middle:], tally, wait)


def refused(outcome: Any) -> str:
    """Why an item was refused; empty when it was not."""
    if not isinstance(outcome, dict):
        return ""
    status = outcome.get("status", 200)
    problem = outcome.get("problem") or outcome.get("error")
    if isinstance(status, int) and status < 400 and not problem:
        return ""
    if isinstance(status, str) and status not in ("failed", "rejected", "refused"):
        return ""
    return sentence(status if isinstance(status, int) else 422, problem or outcome)


@contextmanager
def _opened(path: str) -> Iterator[IO[str]]:
    if path == "-":
        yield sys.stdin
        return
    try:
        opener = gzip.open if path.endswith(".gz") else open
        with opener(path, "rt", encoding="utf-8-sig") as file:
            yield file
    except UnicodeDecodeError as cause:
        raise Failure(f"{path} is not UTF-8 text ({cause.reason}); convert it.", USAGE) from cause
    except OSError as cause:
        raise Failure(f"{path} cannot be read: {cause.strerror or cause}.", USAGE) from cause


@contextmanager
def _progress(path: str, quiet: bool) -> Iterator[Any]:
    """A bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=quiet or not console.is_terminal
    ) as bar:
        task = bar.add_task(Path(path).name, total=None)
        yield lambda done: bar.update(task, completed=done)
