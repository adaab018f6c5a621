"""`lily tenant`: tenants, for the platform admin."""

import time
from typing import Annotated, Any, Literal

import typer

from lily.cli import options, show
from lily.cli.client import Client, segment
from lily.cli.failures import USAGE, Failure
from lily.cli.online import Online, online_command

app = typer.Typer(help="Create, list, suspend, resume and move tenants.", no_args_is_help=True)

PAUSE = 0.5
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


@app.command()
@online_command
def move(
    online: Online,
    name: Annotated[str, typer.Argument(help="Name or id.")],
    to: Annotated[
        Literal["pooled", "dedicated"] | None,
        typer.Option(help="`dedicated`: a database of its own; `pooled`: the shared one."),
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="URL of an empty database, with --to dedicated.")
    ] = None,
    abort: Annotated[bool, typer.Option("--abort", help="Take back a move under way.")] = False,
    wait: Annotated[bool, typer.Option(help="Stay until it is done.")] = True,
    as_json: options.AsJson = False,
) -> None:
    """Move a tenant to a database of its own, or back; asked again, wait for the one under way.

    Everything goes along, others are not disturbed, reads are served throughout; writes of this
    tenant are refused with Retry-After while its rows are copied. The workers (`lily work`, or
    `lily up`) do it, and go on by themselves after a crash.
    """
    client, path = online(), f"/api/v1/tenants/{segment(name)}"
    if abort == (to is not None):
        raise Failure("Give either --to or --abort.", USAGE)
    if abort:
        client.delete(f"{path}/move")
    else:
        body = {"to": to, **({"database_url": database} if database else {})}
        client.post(f"{path}/move", body)
    if not wait:
        show.record(client.get(f"{path}/move"), as_json)
        return
    reason = _followed(client, path, as_json)
    if reason is not None and not abort:
        raise Failure(f"{name} did not move, and is as it was: {reason}")
    show.record(client.get(path), as_json)


def _followed(client: Client, path: str, quiet: bool) -> str | None:
    """Until it is done (None) or was taken back, for a reason; each step is said."""
    said = ""
    while True:
        status, answer = client.exchange("GET", f"{path}/move")
        if status == 404:
            return None
        if status != 200:
            raise Failure(f"The API answered {status}; the move goes on without us.")
        step: dict[str, Any] = answer
        if step["step"] == "failed":
            return str(step["reason"])
        if step["step"] != said and not quiet:
            typer.echo(step["step"], err=True)
        said = step["step"]
        time.sleep(PAUSE)
