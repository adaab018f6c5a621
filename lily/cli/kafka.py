"""`lily kafka`: topics, and the keys of programs that write to Kafka themselves."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from lily.cli import configured, options, show
from lily.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from lily.wiring import Core

app = typer.Typer(
    help="Kafka as the log: make topics, and keys for those who write to them directly.",
    no_args_is_help=True,
)
Tenant = Annotated[str, typer.Argument(help="Name of the tenant.")]
COLUMNS = ("id", "name", "created_at", "revoked_at")


@app.command()
def topics(
    home: options.Home = None, database: options.Database = None, as_json: options.AsJson = False
) -> None:
    """Make the topics that are missing, and list all with their partitions."""
    from lily import wiring
    from lily.errors import Unavailable
    from lily.log.kafka import ensure

    with _core(home, database) as core:
        kafka = wiring.kafka(core.settings)
        if kafka is None:
            raise Failure("The log is not Kafka; set LILY_LOG=kafka://host:port.", USAGE)
        try:
            found = ensure(kafka, core.database.cells())
        except Unavailable as cause:
            raise Failure(str(cause)) from cause
    rows = [{"topic": name, "partitions": count} for name, count in sorted(found.items())]
    show.rows(rows, ("topic", "partitions"), as_json)


@app.command()
def key(
    tenant: Tenant,
    name: Annotated[str, typer.Argument(help="Who signs with it; shown as the sender.")],
    home: options.Home = None,
    database: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a key for a tenant's own producer; its secret is shown this once."""
    from lily.store import producer_keys

    with _core(home, database) as core:
        of = core.database.tenant(tenant)
        made, secret = producer_keys.create(core.database, core.seal, core.clock, of, name)
    shown = {"id": made.id, "name": name, "secret": base64.b64encode(secret).decode()}
    show.record(shown, as_json)


@app.command()
def keys(
    tenant: Tenant,
    home: options.Home = None,
    database: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """List a tenant's keys."""
    import msgspec

    from lily.store import producer_keys

    with _core(home, database) as core:
        found = producer_keys.every(core.database, core.database.tenant(tenant))
    show.rows([msgspec.to_builtins(each) for each in found], COLUMNS, as_json)


@app.command()
def revoke(
    tenant: Tenant,
    id: Annotated[str, typer.Argument(help="Id of the key.")],
    home: options.Home = None,
    database: options.Database = None,
) -> None:
    """Take a key back; within seconds nothing that it signs is let in."""
    from lily.store import producer_keys

    with _core(home, database) as core:
        producer_keys.revoke(core.database, core.clock, core.database.tenant(tenant), id)
    typer.echo(f"{id} is revoked.")


@contextmanager
def _core(home: options.Home, database: options.Database) -> "Iterator[Core]":
    from lily.cli import role
    from lily.errors import NotFound

    settings = configured.settings(home=home, database=database)
    core = role.connect(settings, "lily_app", Event(), patience=5)
    try:
        yield core
    except NotFound as cause:
        raise Failure(str(cause), USAGE) from cause
    finally:
        core.close()
