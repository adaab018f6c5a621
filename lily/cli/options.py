"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[
    Path | None,
    typer.Option(help="Folder for data, logs and credentials.", show_default="LILY_HOME or .lily"),
]
Host = Annotated[str | None, typer.Option(help="Address the API listens on.")]
Port = Annotated[int | None, typer.Option(help="Port the API listens on; 0 takes a free one.")]
Database = Annotated[
    str | None, typer.Option(help="`embedded`, or the URL of a PostgreSQL that Lily may own.")
]
Parent = Annotated[int | None, typer.Option(hidden=True)]
Listener = Annotated[int | None, typer.Option(hidden=True)]

Url = Annotated[str | None, typer.Option(help="Where the API is; else from the credentials.")]
Token = Annotated[str | None, typer.Option(help="Token to send; else LILY_TOKEN, else a login.")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for scripts.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")]
