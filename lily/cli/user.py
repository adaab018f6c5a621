"""`lily user`: people of your tenant."""

from typing import Annotated

import typer

from lily.cli import options, show
from lily.cli.client import segment
from lily.cli.online import Online, online_command

app = typer.Typer(help="Create, list, change and deactivate users.", no_args_is_help=True)

COLUMNS = ("username", "id", "name", "role", "active", "created_at")
Role = Annotated[str, typer.Option(help="admin, steward, editor, viewer or ingester.")]


@app.command()
@online_command
def create(
    online: Online,
    username: str,
    role: Role = "viewer",
    name: Annotated[str | None, typer.Option(help="Full name.")] = None,
    password: Annotated[str | None, typer.Option(help="Asked for when absent.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Create a user."""
    secret = password or typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    body = {"username": username, "role": role, "name": name, "password": secret}
    show.record(online().post("/api/v1/users", body), as_json)


@app.command("list")
@online_command
def list_(
    online: Online,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List the users."""
    show.rows(list(online().pages("/api/v1/users", limit)), COLUMNS, as_json)


@app.command()
@online_command
def change(
    online: Online,
    user: Annotated[str, typer.Argument(help="Id of the user.")],
    role: Annotated[str | None, typer.Option(help="The new role.")] = None,
    active: Annotated[bool | None, typer.Option(help="Let in, or refuse.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Change the role of a user, or deactivate them (--no-active)."""
    wanted = {"role": role, "active": active}
    body = {key: value for key, value in wanted.items() if value is not None}
    show.record(online().patch(f"/api/v1/users/{segment(user)}", body), as_json)


@app.command()
@online_command
def password(
    online: Online,
    as_json: options.AsJson = False,
) -> None:
    """Change your own password."""
    client = online()
    old = typer.prompt("Old password", hide_input=True)
    new = typer.prompt("New password", hide_input=True, confirmation_prompt=True)
    client.post("/api/v1/users/me/password", {"old_password": old, "new_password": new})
    show.answer({"changed": True}, as_json, "Changed.")
