"""`lily asset`: read and change single assets."""

from typing import Annotated, Any

import typer

from lily.cli import documents, options, show
from lily.cli.client import segment
from lily.cli.online import Online, online_command

app = typer.Typer(help="Get, put, delete, restore and explore assets.", no_args_is_help=True)

ROUTE = "/api/v1/metadata"
COLUMNS = ("asset_name", "asset_type", "qualified_name", "asset_owner", "tags")
HISTORY = ("version", "at", "kind", "by", "changes")
Asset = Annotated[str, typer.Argument(help="Guid, your own id, or qualified name.")]


@app.command()
@online_command
def get(
    online: Online,
    asset: Asset,
    as_json: options.AsJson = False,
) -> None:
    """Show an asset."""
    show.record(online().get(f"{ROUTE}/{segment(asset)}"), as_json)


@app.command()
@online_command
def put(
    online: Online,
    document: Annotated[str, typer.Argument(help="JSON, @file, or - for standard input.")],
    as_json: options.AsJson = False,
) -> None:
    """Send an observation of an asset, and show the asset as it then is."""
    body = documents.read(document)
    show.record(online().post(ROUTE, body), as_json)


@app.command()
@online_command
def edit(
    online: Online,
    asset: Asset,
    document: Annotated[str, typer.Argument(help="Fields to change, as JSON, @file or -.")],
    as_json: options.AsJson = False,
) -> None:
    """Change fields of an asset as a person; that wins over what sources say."""
    body = documents.read(document)
    show.record(online().patch(f"{ROUTE}/{segment(asset)}", body), as_json)


@app.command()
@online_command
def delete(
    online: Online,
    asset: Asset,
    as_json: options.AsJson = False,
) -> None:
    """Delete an asset; `restore` brings it back."""
    online().delete(f"{ROUTE}/{segment(asset)}")
    show.answer({"deleted": asset}, as_json, f"Deleted {asset}.")


@app.command()
@online_command
def restore(
    online: Online,
    asset: Asset,
    as_json: options.AsJson = False,
) -> None:
    """Bring a deleted asset back."""
    show.record(online().post(f"{ROUTE}/{segment(asset)}/restore"), as_json)


@app.command()
@online_command
def history(
    online: Online,
    asset: Asset,
    limit: options.Limit = 50,
    as_json: options.AsJson = False,
) -> None:
    """Show the versions of an asset, each with what changed."""
    pages = online().pages(f"{ROUTE}/{segment(asset)}/history", limit)
    items = list(pages)
    show.rows(items if as_json else [_told(item) for item in items], HISTORY, as_json)


@app.command()
@online_command
def children(
    online: Online,
    asset: Asset,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List what lies directly below an asset."""
    pages = online().pages(f"{ROUTE}/{segment(asset)}/children", limit)
    show.rows(list(pages), COLUMNS, as_json)


def _told(version: dict[str, Any]) -> dict[str, Any]:
    """A version with its changes as a person reads them."""
    changes = [
        f"{change['field']}: {show.as_text(change.get('before')) or '∅'}"
        f" → {show.as_text(change.get('after')) or '∅'}"
        for change in version.get("changes", [])
    ]
    return {**version, "changes": "\n".join(changes)}
