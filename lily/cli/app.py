"""The command line, put together. Heavy imports wait inside the commands."""

import sys

import typer

from lily.cli import (
    asset,
    crawl,
    dead,
    deploy,
    kafka,
    lake,
    propagate,
    protections,
    tags,
    tenant,
    token,
    user,
)
from lily.cli.agent import agent
from lily.cli.backup import backup, restore
from lily.cli.bench import bench_app
from lily.cli.cost import cost
from lily.cli.demo import demo
from lily.cli.doctor import doctor
from lily.cli.failures import FAILED, Failure
from lily.cli.ingest import ingest
from lily.cli.lineage import lineage
from lily.cli.migrate import migrate
from lily.cli.pipeline import pipeline
from lily.cli.plugins import plugins
from lily.cli.scale import scale
from lily.cli.search import search
from lily.cli.serve import serve
from lily.cli.up import up
from lily.cli.watch import watch
from lily.cli.work import work

COMMANDS = (
    up, serve, pipeline, work, migrate, search, lineage, watch, ingest, plugins, agent, doctor,
    backup, restore, cost, scale, demo,
)  # fmt: skip
GROUPS = {
    "asset": asset.app,
    "crawl": crawl.app,
    "dead": dead.app,
    "deploy": deploy.app,
    "kafka": kafka.app,
    "lake": lake.app,
    "propagate": propagate.app,
    "protections": protections.app,
    "tags": tags.app,
    "token": token.app,
    "tenant": tenant.app,
    "user": user.app,
    "bench": bench_app,
}


def build() -> typer.Typer:
    app = typer.Typer(
        name="lily",
        help="Lily, a near-real-time metadata plane.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(version)
    for command in COMMANDS:
        app.command()(command)
    for name, group in GROUPS.items():
        app.add_typer(group, name=name)
    return app


def version(
    show: bool = typer.Option(False, "--version", is_eager=True, help="Show the version."),
) -> None:
    """Lily, a near-real-time metadata plane."""
    if show:
        from lily import __version__

        typer.echo(f"lily {__version__}")
        raise typer.Exit


def run(arguments: list[str] | None = None) -> None:
    """Run one command; a failure is one sentence on standard error and an exit code."""
    try:
        build()(args=arguments, prog_name="lily")
    except Failure as failure:
        _fail(failure.sentence, failure.code)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        sys.stderr.close()
        raise SystemExit(FAILED) from None
    except Exception as cause:
        from lily.errors import LilyError

        if not isinstance(cause, LilyError):
            raise
        _fail(str(cause), FAILED)


def _fail(sentence: str, code: int) -> None:
    typer.echo(f"{typer.style('lily:', fg='red')} {sentence}", err=True)
    raise SystemExit(code) from None
