"""`lily tenant`: tenants, for the platform admin."""

from typing import Annotated

import typer

from lily.cli import options, show
from lily.cli.client import connect, segment

app = typer.Typer(help="Create, list, suspend and resume tenants.", no_args_is_help=True)

COLUMNS = ("name", "id", "number", "isolation", "state")


@app.command()
def create(
    name: str,
    database: Annotated[
        str | None, typer.Option(help="URL of its own database; makes the tenant dedicated.")
    ] = None,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Create a tenant and its admin, whose password is shown this once."""
    wanted: dict[str, object] = {"name": name}
    if database:
        wanted |= {"isolation": "dedicated", "database_url": database}
    show.record(connect(home, url, token).post("/api/v1/tenants", wanted), as_json)


@app.command("list")
def list_(
    limit: options.Limit = 100,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """List the tenants."""
    show.rows(list(connect(home, url, token).pages("/api/v1/tenants", limit)), COLUMNS, as_json)


@app.command()
def usage(
    name: Annotated[str, typer.Argument(help="Name or id.")],
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Count what a tenant has stored."""
    show.record(connect(home, url, token).get(f"/api/v1/tenants/{segment(name)}/usage"), as_json)


@app.command()
def suspend(
    name: Annotated[str, typer.Argument(help="Name or id.")],
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Refuse everybody of a tenant; its data stays."""
    client = connect(home, url, token)
    show.record(client.post(f"/api/v1/tenants/{segment(name)}/suspend"), as_json)


@app.command()
def resume(
    name: Annotated[str, typer.Argument(help="Name or id.")],
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a suspended tenant in again."""
    client = connect(home, url, token)
    show.record(client.post(f"/api/v1/tenants/{segment(name)}/resume"), as_json)
