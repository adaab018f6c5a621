"""`lily lake`: look into the metadata lake, from where its database and files are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lily.cli import configured, options, show
from lily.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from lily.lake.cell import CellLake
    from lily.store.database import Role
    from lily.wiring import Core

app = typer.Typer(help="List, query and maintain the metadata lake.", no_args_is_help=True)

TABLES = ("table", "snapshot_id", "committed_at", "rows", "files", "bytes", "snapshots")
DONE = ("table", "files_joined", "snapshots_expired", "rows_retired", "files_removed")
Tenant = Annotated[str | None, typer.Option(help="Only rows of this tenant, in its own cell.")]


@app.command()
def tables(
    tenant: Tenant = None,
    home: options.Home = None,
    database: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """List the tables with their snapshot and size."""
    from lily.lake.read import state
    from lily.lake.tables import LAYOUTS

    with _lake(home, database, tenant) as (_, lake, number):
        found = [state(lake, name, number) for name in LAYOUTS]
    items = [{name: getattr(each, name) for name in TABLES} for each in found if each is not None]
    show.rows(items, TABLES, as_json)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="One SELECT over the lake's tables.")],
    tenant: Tenant = None,
    at: Annotated[
        list[str] | None,
        typer.Option("--at", help="TABLE=SNAPSHOT: read that table as it was; repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows.")] = 1000,
    home: options.Home = None,
    database: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Query the lake with SQL, by DuckDB; nothing can be changed this way."""
    from lily.lake import read

    with _lake(home, database, tenant) as (_, lake, number):
        answer = read.query(lake, sql, number, _snapshots(at or []), limit)
    items = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    show.rows(items, answer.columns, as_json)


@app.command()
def maintain(
    tenant: Tenant = None,
    home: options.Home = None,
    database: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Join small files, expire snapshots, retire old observations, remove what is left over."""
    import msgspec

    from lily.lake.upkeep import Rules, upkeep

    with _lake(home, database, tenant, "lily_system") as (core, lake, _):
        settings = core.settings
        rules = Rules(settings.lake_snapshot_days, settings.lake_observation_days)
        done = [msgspec.structs.asdict(each) for each in upkeep(lake, core.clock.now(), rules)]
    show.rows(done, DONE, as_json)


@contextmanager
def _lake(
    home: object, database: str | None, tenant: str | None, role: "Role" = "lily_app"
) -> "Iterator[tuple[Core, CellLake, int | None]]":
    """The lake of the shared cell, or of the cell that a tenant lives in, and its number."""
    from threading import Event

    from lily import wiring
    from lily.cli.role import connect

    settings = configured.settings(home=home, database=database)
    core = connect(settings, role, Event(), patience=0)
    try:
        who = core.database.tenant(tenant) if tenant else None
        lake = wiring.lake(core, who.cell if who else "home")
        try:
            yield core, lake, who.number if who else None
        finally:
            lake.close()
    finally:
        core.close()


def _snapshots(given: list[str]) -> dict[str, int]:
    found = {}
    for each in given:
        table, mark, snapshot = each.partition("=")
        if not mark or not snapshot.isdigit():
            raise Failure(f"{each} is not TABLE=SNAPSHOT, such as facts=44712190460.", USAGE)
        found[table] = int(snapshot)
    return found
