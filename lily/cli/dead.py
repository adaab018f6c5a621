"""`lily dead`: observations that could not be processed."""

from typing import Annotated

import typer

from lily.cli import documents, options, show
from lily.cli.client import segment
from lily.cli.failures import USAGE, Failure
from lily.cli.online import Online, online_command

app = typer.Typer(help="List, inspect, fix, replay and drop dead letters.", no_args_is_help=True)

ROUTE = "/api/v1/dead-letters"
COLUMNS = ("id", "at", "stage", "plugin", "key", "state", "reason")
EVERY = 1_000_000
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...")]
All = Annotated[bool, typer.Option("--all", help="Every parked one.")]


@app.command("list")
@online_command
def list_(
    online: Online,
    state: Annotated[str, typer.Option(help="parked, replayed or dropped.")] = "parked",
    stage: Annotated[str | None, typer.Option(help="decode, validate, hook or merge.")] = None,
    limit: options.Limit = 50,
    as_json: options.AsJson = False,
) -> None:
    """List dead letters."""
    pages = online().pages(ROUTE, limit, state=state, stage=stage)
    show.rows(list(pages), COLUMNS, as_json)


@app.command("show")
@online_command
def show_(
    online: Online,
    letter: Annotated[str, typer.Argument(metavar="ID")],
    as_json: options.AsJson = False,
) -> None:
    """Show one dead letter with its reason and what was sent."""
    show.record(online().get(f"{ROUTE}/{segment(letter)}"), as_json)


@app.command()
@online_command
def replay(
    online: Online,
    letters: Ids = None,
    everything: All = False,
    as_json: options.AsJson = False,
) -> None:
    """Send dead letters through the pipeline again; each has one effect however often replayed."""
    _chosen("replay", letters, everything)
    client = online()
    wanted: dict[str, object] = {"ids": letters} if letters else {"filter": {"state": "parked"}}
    total = {"replayed": 0, "skipped": 0, "unreadable": 0}
    more = True
    while more:
        answer = client.post(f"{ROUTE}/replay", wanted)
        total = {name: count + answer[name] for name, count in total.items()}
        more = answer["more"]
    show.answer(
        total,
        as_json,
        f"Replayed {total['replayed']}; {total['skipped']} were not parked or do not exist,"
        f" {total['unreadable']} cannot be read and need `lily dead fix`.",
    )


@app.command()
@online_command
def drop(
    online: Online,
    letters: Ids = None,
    everything: All = False,
    as_json: options.AsJson = False,
) -> None:
    """Give dead letters up."""
    _chosen("drop", letters, everything)
    client = online()
    ids = letters or [str(item["id"]) for item in client.pages(ROUTE, EVERY, state="parked")]
    for letter in ids:
        client.post(f"{ROUTE}/{segment(letter)}/drop")
    show.answer({"dropped": ids}, as_json, f"Dropped {len(ids)}.")


@app.command()
@online_command
def fix(
    online: Online,
    letter: Annotated[str, typer.Argument(metavar="ID")],
    document: Annotated[str, typer.Argument(help="What it should have been: JSON, @file or -.")],
    as_json: options.AsJson = False,
) -> None:
    """Replay a dead letter with what the observation should have been."""
    body = {"observation": documents.read(document)}
    path = f"{ROUTE}/{segment(letter)}/replay"
    show.record(online().post(path, body), as_json)


def _chosen(verb: str, letters: list[str] | None, everything: bool) -> None:
    if bool(letters) == everything:
        raise Failure(f"Say which: lily dead {verb} ID…, or --all.", USAGE)
