"""`lily scale`: how many processes the backlog asks for."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lily.cli import options
from lily.cli.online import Online, online_command

if TYPE_CHECKING:
    from lily.sizing.replicas import Waiting

COLUMNS = ("role", "cell", "lane", "replicas", "cores", "why")


@online_command
def scale(
    online: Online,
    drain: Annotated[float, typer.Option(help="Seconds until a backlog is gone.", min=1)] = 300.0,
    requests: Annotated[float, typer.Option(help="Requests a second to plan for.", min=0)] = 0.0,
    deliveries: Annotated[
        float, typer.Option(help="Deliveries a second to plan for.", min=0)
    ] = 0.0,
    spare: Annotated[bool, typer.Option(help="Two of each role, so that one may die.")] = True,
    as_json: options.AsJson = False,
) -> None:
    """Read how far each lane is behind and recommend processes and cores for each role."""
    import msgspec

    from lily.cli import show
    from lily.sizing import replicas, tables

    client = online()
    status, text = client.exchange("GET", "/metrics")
    lanes = replicas.from_metrics(text) if status == 200 and isinstance(text, str) else []
    if not lanes:  # nobody here measures all cells: the caller's own is what there is
        lanes = _own(client.get("/api/v1/lag"))
    rates = tables.rates()
    goals = replicas.Goals(
        pipeline_per_second=1 / rates.pipeline_seconds,
        api_per_second=1 / (rates.api_seconds + rates.read_seconds),
        drain_seconds=drain,
        least=2 if spare else 1,
    )
    advice = replicas.recommend(replicas.Load(lanes, requests, deliveries), goals)
    show.rows([msgspec.to_builtins(each) for each in advice], COLUMNS, as_json)


def _own(answer: dict[str, Any]) -> "list[Waiting]":
    """The lanes of the caller's cell, from GET /api/v1/lag."""
    from lily.sizing.replicas import Waiting

    found = []
    for lane in answer["lanes"]:
        every = lane["all"]
        seconds = every["oldest_waiting_seconds"] or 0.0
        found.append(Waiting("own", lane["lane"], every["waiting"], seconds))
    return found
