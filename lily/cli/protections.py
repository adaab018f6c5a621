"""`lily protections`: what engines keep from whom, and plans for those that Lily does not touch."""

from typing import Annotated, Any

import typer

from lily.cli import options, show
from lily.cli.online import Online, online_command

app = typer.Typer(help="List what engines keep from whom; export plans.", no_args_is_help=True)

PROTECTIONS = "/api/v1/protections"
MOST = 1_000_000
COLUMNS = ("object", "state", "reason", "verified_at")

Engine = Annotated[str, typer.Option("--connection", help="Id of the engine's connection.")]
OneEngine = Annotated[str | None, typer.Option("--connection", help="Only of this connection.")]


@app.command("list")
@online_command
def list_(
    online: Online,
    connection: OneEngine = None,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List protected tables and how far each is."""
    found = online().pages(PROTECTIONS, limit, connection=connection)
    show.rows(list(found), COLUMNS, as_json)


@app.command()
@online_command
def export(
    online: Online,
    connection: Engine,
    as_json: options.AsJson = False,
) -> None:
    """Print the plan for an engine: each statement or call once, in the order to run them."""
    found = list(online().pages(PROTECTIONS, MOST, connection=connection))
    if as_json:
        show.document([{"object": each["object"], "plan": each["plan"]} for each in found])
        return
    for line in lines(found):
        typer.echo(line)


def lines(found: list[dict[str, Any]]) -> list[str]:
    """What several tables need is said once, where it is needed first."""
    told: dict[str, None] = {}
    for each in found:
        told |= dict.fromkeys(each["plan"])
    return [f"{line};" if _is_sql(line) else line for line in told]


def _is_sql(line: str) -> bool:
    """Calls are a method, an address and a body."""
    return line.partition(" ")[0] not in ("PUT", "POST", "PATCH", "DELETE")
