"""`lily dead`: observations that could not be processed."""

from typing import Annotated

import typer

from lily.cli import documents, options, show
from lily.cli.client import connect, segment
from lily.cli.failures import USAGE, Failure

app = typer.Typer(help="List, inspect, fix, replay and drop dead letters.", no_args_is_help=True)

ROUTE = "/api/v1/dead-letters"
COLUMNS = ("id", "at", "stage", "plugin", "key", "state", "reason")
EVERY = 1_000_000
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...")]
All = Annotated[bool, typer.Option("--all", help="Every parked one.")]


@app.command("list")
def list_(
    state: Annotated[str, typer.Option(help="parked, replayed or dropped.")] = "parked",
    stage: Annotated[str | None, typer.Option(help="decode, validate, hook or merge.")] = None,
    limit: options.Limit = 50,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """List dead letters."""
    pages = connect(home, url, token).pages(ROUTE, limit, state=state, stage=stage)
    show.rows(list(pages), COLUMNS, as_json)


@app.command("show")
def show_(
    letter: Annotated[str, typer.Argument(metavar="ID")],
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Show one dead letter with its reason and what was sent."""
    show.record(connect(home, url, token).get(f"{ROUTE}/{segment(letter)}"), as_json)


@app.command()
def replay(
    letters: Ids = None,
    everything: All = False,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Send dead letters through the pipeline again; each has one effect however often replayed."""
    _chosen("replay", letters, everything)
    client = connect(home, url, token)
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
def drop(
    letters: Ids = None,
    everything: All = False,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Give dead letters up."""
    _chosen("drop", letters, everything)
    client = connect(home, url, token)
    ids = letters or [str(item["id"]) for item in client.pages(ROUTE, EVERY, state="parked")]
    for letter in ids:
        client.post(f"{ROUTE}/{segment(letter)}/drop")
    show.answer({"dropped": ids}, as_json, f"Dropped {len(ids)}.")


@app.command()
def fix(
    letter: Annotated[str, typer.Argument(metavar="ID")],
    document: Annotated[str, typer.Argument(help="What it should have been: JSON, @file or -.")],
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Replay a dead letter with what the observation should have been."""
    body = {"observation": documents.read(document)}
    path = f"{ROUTE}/{segment(letter)}/replay"
    show.record(connect(home, url, token).post(path, body), as_json)


def _chosen(verb: str, letters: list[str] | None, everything: bool) -> None:
    if bool(letters) == everything:
        raise Failure(f"Say which: lily dead {verb} ID…, or --all.", USAGE)
