"""`lily dead`: observations that could not be processed."""

import json
from typing import Annotated

import typer

from lily.cli import options, show
from lily.cli.client import Client, connect, segment
from lily.cli.failures import USAGE, Failure

app = typer.Typer(help="List, inspect, fix, replay and drop dead letters.", no_args_is_help=True)

ROUTE = "/api/v1/dead-letters"
COLUMNS = ("id", "at", "stage", "plugin", "key", "state", "reason")
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
    if everything and not letters:
        counts = _replay_all(connect(home, url, token))
        told = f"Replayed {counts['replayed']}; {counts['unreadable']} need a fix."
        show.answer(counts, as_json, told)
        return
    _settle("replay", letters, everything, home, url, token, as_json)


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
    _settle("drop", letters, everything, home, url, token, as_json)


@app.command()
def fix(
    letter: Annotated[str, typer.Argument(metavar="ID")],
    document: Annotated[str, typer.Argument(help="The corrected observation, as JSON.")],
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Replace what was sent, and replay it."""
    try:
        raw = json.loads(document)
    except ValueError as cause:
        raise Failure(f"This is not JSON: {cause}. Quote it with '…'.", USAGE) from cause
    path = f"{ROUTE}/{segment(letter)}/replay"
    show.record(connect(home, url, token).post(path, {"observation": raw}), as_json)


def _replay_all(client: Client) -> dict[str, int]:
    """A thousand at a time, until none is left that can be read."""
    replayed = 0
    while True:
        answer = client.post(f"{ROUTE}/replay", {"filter": {}})
        replayed += answer["replayed"]
        if not answer["more"]:
            return {"replayed": replayed, "unreadable": answer["unreadable"]}


def _settle(
    verb: str,
    letters: list[str] | None,
    everything: bool,
    home: options.Home,
    url: options.Url,
    token: options.Token,
    as_json: bool,
) -> None:
    if not letters and not everything:
        raise Failure(f"Say which: lily dead {verb} ID…, or --all.", USAGE)
    client = connect(home, url, token)
    ids = letters or [str(i["id"]) for i in client.pages(ROUTE, 1_000_000, state="parked")]
    for letter in ids:
        client.post(f"{ROUTE}/{segment(letter)}/{verb}")
    past = {"replay": "Replayed", "drop": "Dropped"}[verb]
    show.answer({verb: ids}, as_json, f"{past} {len(ids)}.")
