"""`lily bench`: measures what the design promises, each with a raw limit beside it.

Commands are here; what they do is imported when they run, so that other commands start quickly.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lily.cli.online import with_options

if TYPE_CHECKING:
    from lily.cli.bench.place import Place
    from lily.cli.bench.report import Report

bench_app = typer.Typer(help="Measure speed and robustness.", no_args_is_help=True)

Seconds = Annotated[float, typer.Option(min=1, help="How long to measure.")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for scripts.")]
Measure = Callable[["Place"], "Report"]


class Log(StrEnum):
    postgres = "postgres"
    kafka = "kafka"


def _run(
    measure: Measure,
    home: Annotated[Path | None, typer.Option(help="Folder of the Lily to measure.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Where its API is; else from the credentials.")
    ] = None,
    start: Annotated[
        bool, typer.Option("--start", help="Start an empty Lily for the bench, and stop it after.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    from lily.cli.bench.logs import Logs
    from lily.cli.bench.place import place
    from lily.cli.bench.report import tell

    if isinstance(measure, Logs):
        report = measure.beside_each_other()
    else:
        with place(home, url, start) as where:
            report = measure(where)
    tell(report, as_json)


def measured(choose: Callable[..., Measure]) -> Callable[..., None]:
    """A command with its own options, and those that say which Lily is measured."""
    own = signature(choose).parameters
    where = {name: each for name, each in signature(_run).parameters.items() if name != "measure"}

    @wraps(choose)
    def command(**options: Any) -> None:
        chosen = choose(**{name: options[name] for name in own})
        _run(chosen, **{name: options[name] for name in where})

    return with_options(command, {**own, **where})


@bench_app.command()
@measured
def post(
    rate: Annotated[float, typer.Option(min=0.1, help="POSTs a second.")] = 50.0,
    seconds: Seconds = 60.0,
    also_url: Annotated[str | None, typer.Option(help="A second API, to read from.")] = None,
) -> Measure:
    """Single POSTs at a steady rate: latency until readable, and that each one is."""
    from lily.cli.bench.post import measure

    return lambda where: measure(where, rate, seconds, also_url)


@bench_app.command()
@measured
def stream(
    size: Annotated[int, typer.Option(min=1, max=1000, help="Assets in a request.")] = 100,
    lanes: Annotated[int, typer.Option(min=0, help="Requests at a time; 0 chooses.")] = 0,
    seconds: Seconds = 60.0,
    hooks: Annotated[int, typer.Option(min=0, max=100, help="Hooks to run on each.")] = 0,
    whole: Annotated[
        bool, typer.Option(help="Have whole assets answered, not only outcomes and versions.")
    ] = False,
    log: Annotated[
        list[Log] | None,
        typer.Option(help="On an empty Lily with this log; several, one after another."),
    ] = None,
) -> Measure:
    """Waiting POSTs as fast as they are answered, half new, half changed: rate, latency, CPU."""
    from lily.cli.bench.logs import Logs
    from lily.cli.bench.stream import measure

    def one(where: "Place") -> "Report":
        return measure(where, size, lanes, seconds, hooks, whole)

    return Logs(log, one) if log else one


@bench_app.command()
@measured
def read(
    connections: Annotated[int, typer.Option(min=1, help="Connections, each one at a time.")] = 64,
    assets: Annotated[int, typer.Option(min=1000, help="How many assets to read from.")] = 10_000,
    seconds: Seconds = 60.0,
) -> Measure:
    """GET by id in a closed loop."""
    from lily.cli.bench.read import measure

    return lambda where: measure(where, connections, assets, seconds)


@bench_app.command()
@measured
def search(
    assets: Annotated[int, typer.Option(min=0, help="Estate to fill in first.")] = 1_000_000,
    connections: Annotated[int, typer.Option(min=1, help="Searches at a time.")] = 1,
    seconds: Seconds = 60.0,
) -> Measure:
    """A mix of searches over a large estate: words, prefixes, tags, metadata keys, as a viewer."""
    from lily.cli.bench.search import measure

    return lambda where: measure(where, assets, connections, seconds)


@bench_app.command()
@measured
def lineage(
    edges: Annotated[int, typer.Option(min=100, help="How many edges to load.")] = 1_000_000,
    connections: Annotated[int, typer.Option(min=1, help="Requests at a time.")] = 8,
    seconds: Seconds = 60.0,
    check: Annotated[
        bool, typer.Option("--check", help="Compute all propagation anew on Spark, and compare.")
    ] = False,
) -> Measure:
    """Edges loaded, and what lies five steps downstream: in the store, and over HTTP."""
    from lily.cli.bench.lineage import measure

    return lambda where: measure(where, edges, connections, seconds, check)


@bench_app.command()
@measured
def propagate(
    wide: Annotated[int, typer.Option(min=10, help="Assets behind the tagged one.")] = 1_000,
    large: Annotated[int, typer.Option(min=0, help="And behind a large one; 0 is none.")] = 100_000,
    hops: Annotated[int, typer.Option(min=1, max=100, help="Length of a chain.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Times to tag and untag.")] = 20,
    kills: Annotated[
        int, typer.Option(min=0, help="Instead: kill -9 of the pipeline, so often.")
    ] = 0,
) -> Measure:
    """A tag, until everything behind it in lineage has it, and until it is gone again."""
    from lily.cli.bench.propagate import measure

    return lambda where: measure(where, wide, large, hops, rounds, kills)


@bench_app.command()
@measured
def access(
    grants: Annotated[int, typer.Option(min=0, help="Grants to make first.")] = 100_000,
    tagged: Annotated[int, typer.Option(min=10, help="Tagged assets.")] = 10_000,
    revokes: Annotated[int, typer.Option(min=1, help="Rights to take back.")] = 50,
    connections: Annotated[int, typer.Option(min=1, help="Requests at a time.")] = 4,
    seconds: Seconds = 60.0,
    opa: Annotated[bool, typer.Option("--opa", help="Ask an OPA the same, beside it.")] = False,
    cerbos: Annotated[
        bool, typer.Option("--cerbos", help="Ask a Cerbos the same, beside it.")
    ] = False,
) -> Measure:
    """Decisions in process and over HTTP, and how soon a right that was taken is denied."""
    from lily.cli.bench.access import measure

    return lambda where: measure(where, grants, tagged, revokes, connections, seconds, opa, cerbos)


@bench_app.command()
@measured
def enforce(
    tags: Annotated[int, typer.Option(min=1, help="Tags to set and to take off.")] = 50,
    race: Annotated[
        int, typer.Option(min=0, help="Instead: flips of a tag while others read, so many.")
    ] = 0,
    kills: Annotated[
        int, typer.Option(min=0, help="Instead: kill -9 of the worker, so often.")
    ] = 0,
    trino: Annotated[
        bool, typer.Option("--trino", help="Instead: until Trino is told to mask, when it asks.")
    ] = False,
) -> Measure:
    """A tag, until a real PostgreSQL refuses the column, and until all is as it was."""
    from lily.cli.bench.enforce import measure

    return lambda where: measure(where, tags, race, kills, trino)


@bench_app.command()
@measured
def faults(
    rounds: Annotated[int, typer.Option(min=0, help="Kills of each process.")] = 10,
    writers: Annotated[int, typer.Option(min=1, max=64, help="Writers at a time.")] = 8,
) -> Measure:
    """kill -9 of pipeline, API and PostgreSQL under load: nothing acknowledged may be missing."""
    from lily.cli.bench.faults import measure

    return lambda where: measure(where, rounds, writers)


@bench_app.command()
@measured
def failover(
    rounds: Annotated[int, typer.Option(min=0, help="Kills while another is warm.")] = 10,
    cold: Annotated[int, typer.Option(min=0, help="Kills while none is.")] = 3,
    paused: Annotated[int, typer.Option(min=0, help="Times to pause it instead.")] = 2,
    writers: Annotated[int, typer.Option(min=1, max=64, help="Writers at a time.")] = 8,
) -> Measure:
    """The pipeline that leads dies under load: how soon another one does, and that none is lost."""
    from lily.cli.bench.failover import measure

    return lambda where: measure(where, rounds, cold, paused, writers)


@bench_app.command()
def deliver(
    notices: Annotated[int, typer.Option(min=20, help="To healthy endpoints.")] = 60_000,
    workers: Annotated[int, typer.Option(min=1, max=16, help="`lily work` side by side.")] = 1,
    kills: Annotated[int, typer.Option(min=0, help="kill -9 of a worker, so often.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Webhooks out, to healthy endpoints beside ones that fail, hang and trickle."""
    from lily.cli.bench.deliver import measure
    from lily.cli.bench.report import tell

    tell(measure(notices, workers, kills), as_json)


@bench_app.command()
@measured
def incident(
    rate: Annotated[float, typer.Option(min=0.1, help="Signed webhooks a second.")] = 20.0,
    seconds: Seconds = 60.0,
) -> Measure:
    """Webhooks in at a steady rate: until the incident is on its asset, and told outside."""
    from lily.cli.bench.incident import measure

    return lambda where: measure(where, rate, seconds)


@bench_app.command("estate")
@measured
def whole_estate(
    assets: Annotated[int, typer.Option(min=1000, help="How many assets.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The same seed is the same estate.")] = 1,
    compare: Annotated[bool, typer.Option(help="Measure the raw limit too.")] = True,
    kills: Annotated[
        int, typer.Option(min=0, help="Instead: kill the job and the pipeline so often each.")
    ] = 0,
) -> Measure:
    """A whole estate from one file: rate, raw limit, and single POSTs meanwhile."""
    from lily.cli.bench import bulk
    from lily.cli.bench import kills as killing

    def measure(where: "Place") -> "Report":
        if kills:
            return killing.measure(where, assets, seed, kills)
        return bulk.measure(where, assets, seed, compare)

    return measure


@bench_app.command()
def executors(
    assets: Annotated[int, typer.Option(min=1000, help="How many assets.")] = 400_000,
    seed: Annotated[int, typer.Option(help="The same seed is the same estate.")] = 1,
    count: Annotated[
        list[int] | None, typer.Option(min=1, max=16, help="Executors; several, one after another.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A file on a Spark cluster of its own: by one executor, by two, and who did the work."""
    from lily.cli.bench.executors import measure
    from lily.cli.bench.report import tell

    tell(measure(assets, seed, count or [1, 2]), as_json)


@bench_app.command()
@measured
def memory(
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the file.")] = 2_000,
    load: Annotated[bool, typer.Option(help="Load it too, not only take it in.")] = True,
) -> Measure:
    """A large NDJSON file streams in: memory of API and bulk job at their peaks, and before."""
    from lily.cli.bench.memory import measure

    return lambda where: measure(where, megabytes, load)
