"""`lily asset`: read and change single assets."""

from typing import Annotated, Any

import typer

from lily.cli import documents, options, show
from lily.cli.client import connect, segment

app = typer.Typer(help="Get, put, delete, restore and explore assets.", no_args_is_help=True)

ROUTE = "/api/v1/metadata"
COLUMNS = ("asset_name", "asset_type", "qualified_name", "asset_owner", "tags")
HISTORY = ("version", "at", "kind", "by", "changes")
Asset = Annotated[str, typer.Argument(help="Guid, your own id, or qualified name.")]


@app.command()
def get(
    asset: Asset,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Show an asset."""
    show.record(connect(home, url, token).get(f"{ROUTE}/{segment(asset)}"), as_json)


@app.command()
def put(
    document: Annotated[str, typer.Argument(help="JSON, @file, or - for standard input.")],
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Send an observation of an asset, and show the asset as it then is."""
    body = documents.read(document)
    show.record(connect(home, url, token).post(ROUTE, body), as_json)


@app.command()
def edit(
    asset: Asset,
    document: Annotated[str, typer.Argument(help="Fields to change, as JSON, @file or -.")],
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Change fields of an asset as a person; that wins over what sources say."""
    body = documents.read(document)
    show.record(connect(home, url, token).patch(f"{ROUTE}/{segment(asset)}", body), as_json)


@app.command()
def delete(
    asset: Asset,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Delete an asset; `restore` brings it back."""
    connect(home, url, token).delete(f"{ROUTE}/{segment(asset)}")
    show.answer({"deleted": asset}, as_json, f"Deleted {asset}.")


@app.command()
def restore(
    asset: Asset,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Bring a deleted asset back."""
    show.record(connect(home, url, token).post(f"{ROUTE}/{segment(asset)}/restore"), as_json)


@app.command()
def history(
    asset: Asset,
    limit: options.Limit = 50,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the versions of an asset, each with what changed."""
    pages = connect(home, url, token).pages(f"{ROUTE}/{segment(asset)}/history", limit)
    items = list(pages)
    show.rows(items if as_json else [_told(item) for item in items], HISTORY, as_json)


@app.command()
def children(
    asset: Asset,
    limit: options.Limit = 100,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """List what lies directly below an asset."""
    pages = connect(home, url, token).pages(f"{ROUTE}/{segment(asset)}/children", limit)
    show.rows(list(pages), COLUMNS, as_json)


def _told(version: dict[str, Any]) -> dict[str, Any]:
    """A version with its changes as a person reads them."""
    changes = [
        f"{change['field']}: {show.as_text(change.get('before')) or '∅'}"
        f" → {show.as_text(change.get('after')) or '∅'}"
        for change in version.get("changes", [])
    ]
    return {**version, "changes": "\n".join(changes)}
