"""`lily cost`: what an estate costs a month."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lily.cli import options
from lily.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from lily.sizing.cost import Bill

Count = Annotated[float, typer.Option(help="How many assets; 1e9 is a billion.", min=1)]


def cost(
    assets: Count = 1e6,
    changes_per_day: Annotated[
        float | None, typer.Option(help="Changes a day; a hundredth of the assets if not given.")
    ] = None,
    reads: Annotated[float, typer.Option(help="GET a second, on average.", min=0)] = 10.0,
    subscribers: Annotated[
        float, typer.Option(help="How often a fact leaves for the internet.", min=0)
    ] = 1.0,
    log: Annotated[
        Literal["postgres", "kafka"], typer.Option(help="Where observations are queued.")
    ] = "postgres",
    standby: Annotated[bool, typer.Option(help="A second copy of everything.")] = True,
    prices: Annotated[
        Path | None,
        typer.Option(help="Price table; else Lily's own.", exists=True, dir_okay=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Work out a month's cost from measured rates and a price table, and rank cheaper choices."""
    import msgspec

    from lily.cli import show
    from lily.sizing import tables
    from lily.sizing.cost import Estate, bill

    changes = assets / 100 if changes_per_day is None else changes_per_day
    if changes < 0:
        raise Failure("--changes-per-day cannot be less than nothing.", USAGE)
    estate = Estate(assets, changes, reads, subscribers, log, standby=standby, zones=standby)
    table = tables.prices(prices)
    made = bill(estate, tables.rates(), table)
    if as_json:
        figures = {"estate": estate, "prices": table, "rates": tables.sources(), "bill": made}
        show.document(msgspec.to_builtins(figures))
        return
    _tell(made, f"{table.currency} a month, prices of {table.as_of}")


def _tell(made: "Bill", unit: str) -> None:
    from lily.cli import show

    lines = [
        {
            "part": line.part,
            "what": line.what,
            "amount": f"{line.amount:,.0f} {line.unit}",
            "price": f"{line.price:g}",
            "cost": f"{line.cost:,.2f}",
        }
        for line in made.lines
    ]
    show.rows(lines, ("part", "what", "amount", "price", "cost"), False)
    typer.echo(f"Total {made.total:,.2f} ({unit}); {made.per_million_assets:,.2f} for a million")
    typer.echo(
        f"First load, once: {made.first_load_core_hours:,.1f} core-hours, {made.first_load:,.2f}"
    )
    cheaper = [
        {"cheaper": each.name, "saves": f"{each.saves:,.2f}", "for": each.given_up}
        for each in made.choices
    ]
    show.rows(cheaper, ("cheaper", "saves", "for"), False)
