"""`lily lineage`: the graph around an asset."""

from typing import Annotated, Any

import typer

from lily.cli import options, show
from lily.cli.asset import ROUTE, Asset
from lily.cli.client import Client, segment
from lily.cli.online import Online, online_command

COLUMNS = ("depth", "direction", "asset_name", "asset_type", "qualified_name", "tags")
EDGES = ("from", "relationship_type", "to", "process", "transformation", "source")


@online_command
def lineage(
    online: Online,
    asset: Asset,
    direction: Annotated[str, typer.Option(help="upstream, downstream or both.")] = "both",
    depth: Annotated[int, typer.Option(min=1, max=20, help="How many steps.")] = 5,
    edges: Annotated[bool, typer.Option("--edges", help="The edges instead of nodes.")] = False,
    impact: Annotated[bool, typer.Option("--impact", help="Only count what depends.")] = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted ones too.")] = False,
    limit: options.Limit = 1000,
    as_json: options.AsJson = False,
) -> None:
    """Show what an asset is made of, and what is made of it."""
    client, route = online(), f"{ROUTE}/lineage/{segment(asset)}"
    if impact:
        show.record(client.get(f"{route}/impact", depth=depth), as_json)
        return
    query = {"direction": direction, "depth": depth, "include_deleted": str(deleted).lower()}
    found = _graph(client, route, query, limit)
    if as_json:
        show.document(found)
    elif edges:
        names = {node["guid"]: node["qualified_name"] for node in found["nodes"]}
        rows = [_named(edge, names) for edge in found["edges"]]
        show.rows(rows, EDGES, False)
    else:
        show.rows(found["nodes"], COLUMNS, False)
    if found["truncated"] and not as_json:
        typer.echo("There is more; ask with a greater --limit.", err=True)


def _graph(client: Client, route: str, query: dict[str, Any], limit: int) -> dict[str, Any]:
    """Page after page, until there is no more or enough."""
    whole: dict[str, Any] = {"nodes": [], "edges": [], "truncated": False}
    after: str | None = ""
    while after is not None and len(whole["nodes"]) < limit:
        left = min(1000, limit - len(whole["nodes"]))
        page = client.get(route, **query, limit=left, after=after)
        whole["nodes"] += page["nodes"]
        whole["edges"] += page["edges"]
        whole["truncated"], after = page["truncated"], page["next"]
    return whole


def _named(edge: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    ends = {end: names.get(edge[end], edge[end]) for end in ("from", "to")}
    return {**edge, **ends}
