"""`lily migrate`: bring the database up to date."""

from typing import Annotated

import typer

from lily.cli import configured, options
from lily.cli.failures import Failure


def migrate(
    home: options.Home = None,
    database: options.Database = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; fail if something is missing.")
    ] = False,
    first: Annotated[
        bool,
        typer.Option(
            "--first", help="Also make tenant `default` and its admin, where there is no tenant."
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Apply what is missing to the database. Safe to run side by side; `lily up` does it itself."""
    from lily import wiring
    from lily.cli import show
    from lily.cli.role import database_cure
    from lily.errors import Unavailable
    from lily.store.migrate import migrate as apply
    from lily.store.migrate import pending

    settings = configured.settings(home=home, database=database)
    try:
        names = (pending if check else apply)(wiring.home_url(settings))
    except Unavailable as cause:
        raise Failure(f"{cause} {database_cure(settings)}") from cause
    if first and not check:
        from lily.cli.first_start import first_start

        settings.home.mkdir(parents=True, exist_ok=True)
        first_start(settings)
    show.answer(
        {"pending" if check else "applied": names},
        as_json,
        "\n".join(names) if names else "The database is up to date.",
    )
    if check and names:
        raise Failure(f"{len(names)} migrations are missing; run `lily migrate`.")
