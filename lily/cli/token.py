"""`lily token`: personal tokens."""

from typing import Annotated

import typer

from lily.cli import options, show
from lily.cli.client import segment
from lily.cli.online import Online, online_command

app = typer.Typer(help="Create, list and revoke tokens.", no_args_is_help=True)

COLUMNS = ("id", "name", "role", "created_at", "expires_at")


@app.command()
@online_command
def create(
    online: Online,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    days: Annotated[int | None, typer.Option(min=1, help="Days it lives, else 90.")] = None,
    role: Annotated[str | None, typer.Option(help="Weaker than your own, if given.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Create a token; it is shown this once."""
    wanted = {"name": name, "role": role, "expires_in_days": days}
    given = {key: value for key, value in wanted.items() if value is not None}
    made = online().post("/api/v1/tokens", given)
    show.answer(made, as_json, str(made.get("token", made)))


@app.command("list")
@online_command
def list_(
    online: Online,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List your tokens."""
    items = list(online().pages("/api/v1/tokens", limit))
    show.rows(items, COLUMNS, as_json)


@app.command()
@online_command
def revoke(
    online: Online,
    token_id: Annotated[str, typer.Argument(metavar="ID")],
    as_json: options.AsJson = False,
) -> None:
    """Revoke a token; every process refuses it within seconds."""
    online().delete(f"/api/v1/tokens/{segment(token_id)}")
    show.answer({"revoked": token_id}, as_json, f"Revoked {token_id}.")
