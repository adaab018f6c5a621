"""`lily search`: find assets."""

from typing import Annotated

import typer

from lily.cli import options, show
from lily.cli.asset import COLUMNS, ROUTE
from lily.cli.failures import USAGE, Failure
from lily.cli.online import Online, online_command


@online_command
def search(
    online: Online,
    words: Annotated[list[str] | None, typer.Argument(help="Words and prefixes.")] = None,
    asset_type: Annotated[str | None, typer.Option("--type")] = None,
    tag: Annotated[list[str] | None, typer.Option()] = None,
    source: Annotated[str | None, typer.Option(help="Data source.")] = None,
    owner: Annotated[str | None, typer.Option()] = None,
    term: Annotated[str | None, typer.Option(help="Business term.")] = None,
    since: Annotated[str | None, typer.Option(help="Updated since, as ISO time.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted ones instead.")] = False,
    metadata: Annotated[list[str] | None, typer.Option(help="KEY=VALUE, may repeat.")] = None,
    limit: options.Limit = 20,
    as_json: options.AsJson = False,
) -> None:
    """Find assets by words and filters."""
    query: dict[str, object] = {
        "q": " ".join(words or []) or None,
        "asset_type": asset_type,
        "tag": tag or None,
        "data_source": source,
        "owner": owner,
        "business_term": term,
        "updated_since": since,
        "deleted": "true" if deleted else None,
        **_pairs(metadata or []),
    }
    client = online()
    show.rows(list(client.pages(f"{ROUTE}/search", limit, **query)), COLUMNS, as_json)


def _pairs(given: list[str]) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals:
            raise Failure(f"--metadata takes KEY=VALUE, not {pair}.", USAGE)
        pairs[f"metadata.{key}"] = value
    return pairs
