"""`lily crawl`: read sources now, and see how it went."""

import time
from typing import Annotated, Any
from uuid import UUID

import typer

from lily.cli import options, show
from lily.cli.client import Client, segment
from lily.cli.failures import FAILED, NOT_FOUND, Failure
from lily.cli.online import Online, online_command

app = typer.Typer(help="Crawl sources: run, list, show, cancel.", no_args_is_help=True)

ROUTE = "/api/v1/connections"
COLUMNS = ("id", "state", "cause", "scope", "started_at", "finished_at", "counts", "error")
OVER = ("succeeded", "partial", "failed", "cancelled")
Connection = Annotated[str, typer.Argument(help="Name or id of a connection.")]
Crawl = Annotated[str, typer.Argument(metavar="ID")]


@app.command()
@online_command
def run(
    online: Online,
    connection: Connection,
    scope: Annotated[
        str | None, typer.Option(help="Only the asset of this qualified name, and below.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Until it is over.")] = True,
    as_json: options.AsJson = False,
) -> None:
    """Crawl a source now; fails if the crawl fails."""
    client = online()
    body = {"scope": scope} if scope else None
    found = client.post(f"{ROUTE}/{found_by(client, connection)}/run", body)
    while wait and found["state"] not in OVER:
        time.sleep(0.3)
        found = client.get(f"/api/v1/crawls/{found['id']}")
    show.record(found, as_json)
    if found["state"] in ("failed", "cancelled"):
        raise typer.Exit(FAILED)


@app.command("list")
@online_command
def list_(
    online: Online,
    connection: Connection,
    limit: options.Limit = 20,
    as_json: options.AsJson = False,
) -> None:
    """List the crawls of a source, newest first."""
    client = online()
    pages = client.pages(f"{ROUTE}/{found_by(client, connection)}/runs", limit)
    show.rows(list(pages), COLUMNS, as_json)


@app.command("show")
@online_command
def show_(
    online: Online,
    crawl: Crawl,
    as_json: options.AsJson = False,
) -> None:
    """Show one crawl with its counts, or why it failed."""
    show.record(online().get(f"/api/v1/crawls/{segment(crawl)}"), as_json)


@app.command()
@online_command
def cancel(
    online: Online,
    crawl: Crawl,
    as_json: options.AsJson = False,
) -> None:
    """End a crawl; nothing is deleted by it."""
    show.record(online().post(f"/api/v1/crawls/{segment(crawl)}/cancel"), as_json)


def found_by(client: Client, connection: str) -> str:
    """The id of a connection, which people know by its name."""
    try:
        return str(UUID(connection))
    except ValueError:
        pass
    items: list[dict[str, Any]] = list(client.pages(ROUTE, 1000))
    for item in items:
        if item["name"] == connection:
            return str(item["id"])
    raise Failure(f"There is no connection {connection}.", NOT_FOUND)
