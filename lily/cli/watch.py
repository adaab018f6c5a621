"""`lily watch`: changes as they happen."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from lily.cli import options
from lily.cli.client import Client, connect
from lily.cli.failures import UNREACHABLE, Failure

ROUTE = "/api/v1/changes"
WAIT = 20
AGAIN = 2.0


def watch(
    after: Annotated[
        int | None, typer.Option(min=0, help="Begin behind this position; 0 is the beginning.")
    ] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only facts of this kind.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """Follow the changes of your tenant, live; Ctrl-C ends it."""
    tail = Tail(lambda: connect(home, url, token, timeout=WAIT + 30), kind or [])
    try:
        for number, fact in enumerate(tail.facts(after), start=1):
            typer.echo(json.dumps(fact, ensure_ascii=False) if as_json else line(fact))
            if number == count:
                return
    except KeyboardInterrupt:
        return


class Tail:
    """Follows the feed by long poll, through restarts of the API and the end of a token's life."""

    def __init__(self, login: Callable[[], Client], kinds: list[str]) -> None:
        self._login = login
        self._kinds = kinds
        self._client = login()

    def facts(self, after: int | None) -> Iterator[dict[str, Any]]:
        position: Any = "now" if after is None else after
        while True:
            page = self._page(position)
            yield from page["items"]
            if page.get("next") is not None:
                position = page["next"]

    def _page(self, position: object) -> Any:
        query = {"after": position, "wait": WAIT, "kind": self._kinds or None}
        renewed = False
        while True:
            try:
                return self._client.call("GET", ROUTE, query=query)
            except Failure as failure:
                if failure.status == 401 and not renewed:
                    self._client, renewed = self._login(), True
                elif failure.code == UNREACHABLE or failure.status == 503:
                    typer.echo(f"{failure.sentence} Trying again.", err=True)
                    time.sleep(AGAIN)
                else:
                    raise


def line(fact: dict[str, Any]) -> str:
    """Position, time, kind, and what it is about."""
    what = fact.get("qualified_name") or fact.get("asset_id") or fact.get("guid") or ""
    return " ".join(
        [
            typer.style(str(fact.get("position", "")).rjust(8), dim=True),
            typer.style(str(fact.get("at", ""))[11:23], dim=True),
            typer.style(f"{fact.get('kind', '')!s:<16}", fg="cyan"),
            str(what),
        ]
    )
