"""`lily bench`: measures what the design promises, each with a raw limit beside it."""

import typer

bench_app = typer.Typer(help="Measure speed and robustness.", no_args_is_help=True)
