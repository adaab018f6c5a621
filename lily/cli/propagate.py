"""`lily propagate`: compute a tenant's propagation from nothing, to compare or to repair."""

from collections import Counter
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lily.cli import configured, options, show
from lily.cli.failures import FAILED, USAGE, Failure

if TYPE_CHECKING:
    from lily.types import Tenant
    from lily.wiring import Core

app = typer.Typer(help="Check and recompute what travels along lineage.", no_args_is_help=True)

Who = Annotated[str, typer.Option(help="The tenant's name.")]
Most = Annotated[int, typer.Option(min=0, help="Show at most so many differences.")]
COLUMNS = ("guid", "field", "name", "value", "change", "root", "depth")


@app.command()
def check(
    tenant: Who = "default",
    limit: Most = 20,
    home: options.Home = None,
    database: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare what is stored with a computation of everything on Spark; exit code 1 if it differs.

    What changes meanwhile is not waited for: on a busy tenant, check again.
    """
    with _opened(home, database, tenant) as (core, found):
        from lily.pipeline.nightly import compared

        plan = compared(core, found)
    shown = [{name: getattr(each, name) for name in COLUMNS} for each in plan[:limit]]
    if as_json:
        show.document({"differences": len(plan), "by": Counter(d.change for d in plan),
                       "items": shown})  # fmt: skip
    else:
        show.rows(shown, COLUMNS, False)
        typer.echo(f"{len(plan)} differences.", err=True)
    if plan:
        raise typer.Exit(FAILED)


@app.command()
def recompute(
    tenant: Who = "default",
    home: options.Home = None,
    database: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Compute everything on Spark and apply what differs, chunk by chunk, beside a running Lily."""
    with _opened(home, database, tenant) as (core, found):
        from lily.pipeline.nightly import repaired

        changed = repaired(core, found, Event())
    answer: dict[str, Any] = {"changed": changed}
    if as_json:
        show.document(answer)
    else:
        typer.echo(f"{changed} assets show something new.")


class _opened:
    """The databases as the pipeline sees them, and the tenant."""

    def __init__(self, home: Any, database: Any, tenant: str) -> None:
        self._settings = configured.settings(home=home, database=database)
        self._tenant = tenant
        self._core: Core | None = None

    def __enter__(self) -> "tuple[Core, Tenant]":
        from lily import wiring
        from lily.errors import NotFound

        self._core = wiring.core(self._settings, "lily_system")
        try:
            return self._core, self._core.database.tenant(self._tenant)
        except NotFound:
            raise Failure(f"There is no tenant {self._tenant!r}.", USAGE) from None

    def __exit__(self, *_: object) -> None:
        if self._core is not None:
            self._core.close()
