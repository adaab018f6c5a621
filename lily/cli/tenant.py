"""`lily tenant`: tenants, for the platform admin."""

from typing import Annotated

import typer

from lily.cli import options, show
from lily.cli.client import segment
from lily.cli.online import Online, online_command

app = typer.Typer(help="Create, list, suspend and resume tenants.", no_args_is_help=True)

COLUMNS = ("name", "id", "number", "isolation", "state")


@app.command()
@online_command
def create(
    online: Online,
    name: str,
    database: Annotated[
        str | None, typer.Option(help="URL of its own database; makes the tenant dedicated.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Create a tenant and its admin, whose password is shown this once."""
    wanted: dict[str, object] = {"name": name}
    if database:
        wanted |= {"isolation": "dedicated", "database_url": database}
    show.record(online().post("/api/v1/tenants", wanted), as_json)


@app.command("list")
@online_command
def list_(
    online: Online,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List the tenants."""
    show.rows(list(online().pages("/api/v1/tenants", limit)), COLUMNS, as_json)


@app.command()
@online_command
def usage(
    online: Online,
    name: Annotated[str, typer.Argument(help="Name or id.")],
    as_json: options.AsJson = False,
) -> None:
    """Count what a tenant has stored."""
    show.record(online().get(f"/api/v1/tenants/{segment(name)}/usage"), as_json)


@app.command()
@online_command
def suspend(
    online: Online,
    name: Annotated[str, typer.Argument(help="Name or id.")],
    as_json: options.AsJson = False,
) -> None:
    """Refuse everybody of a tenant; its data stays."""
    client = online()
    show.record(client.post(f"/api/v1/tenants/{segment(name)}/suspend"), as_json)


@app.command()
@online_command
def resume(
    online: Online,
    name: Annotated[str, typer.Argument(help="Name or id.")],
    as_json: options.AsJson = False,
) -> None:
    """Let a suspended tenant in again."""
    client = online()
    show.record(client.post(f"/api/v1/tenants/{segment(name)}/resume"), as_json)
