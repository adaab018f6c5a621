"""`lily agent`: the crawlers inside a customer's network; nothing but the API is needed outside."""

import time
import tomllib
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
import typer

from lily.cli.failures import FAILED, NOT_ALLOWED, USAGE, Failure
from lily.cli.online import Online, online_command

if TYPE_CHECKING:
    from lily.cli.agent_memory import Memory
    from lily.cli.agent_sender import Sender

AGAIN = timedelta(minutes=1)
PAUSE = 1.0


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One connection in the agent's configuration."""

    name: str
    plugin: str
    options: dict[str, Any] = {}
    schedule: str = "24h"

    @property
    def key(self) -> UUID:
        return uuid5(NAMESPACE_URL, self.name)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    connections: list[Entry]


@online_command
def agent(
    online: Online,
    config: Annotated[Path, typer.Option(help="Connections, as TOML or JSON.")],
    once: Annotated[bool, typer.Option(help="Crawl everything once, then end.")] = False,
    state: Annotated[
        Path | None, typer.Option(help="What was sent; else beside the configuration.")
    ] = None,
) -> None:
    """Run crawlers here, and send what differs to the API."""
    from lily.cli.agent_memory import Memory
    from lily.cli.agent_sender import Sender

    entries = read_config(config)
    memory = Memory(state or config.with_suffix(".state"))
    sender = Sender(lambda: online())
    try:
        failed = [entry.name for entry in entries if not crawl(entry, memory, sender)]
        if once and failed:
            raise typer.Exit(FAILED)
        if not once:
            follow(entries, memory, sender)
    except KeyboardInterrupt:
        return
    finally:
        memory.close()


def read_config(path: Path) -> list[Entry]:
    """Every mistake is named before anything is read."""
    from lily import plugins, schedule
    from lily.errors import LilyError

    try:
        raw = path.read_bytes()
        given = msgspec.json.decode(raw) if path.suffix == ".json" else tomllib.loads(raw.decode())
        entries = msgspec.convert(given, Config).connections
        for entry in entries:
            schedule.parse(entry.schedule)
            plugins.check("source", entry.plugin, entry.options)
    except (OSError, ValueError, LilyError) as cause:
        raise Failure(f"{path} cannot be used: {cause}.", USAGE) from None
    if len({entry.name for entry in entries}) != len(entries):
        raise Failure(f"{path} names a connection twice.", USAGE)
    return entries


def follow(entries: list[Entry], memory: "Memory", sender: "Sender") -> None:
    """Each connection when it is due, until Ctrl-C; one that failed is tried again sooner."""
    due = {entry.name: _next(entry) for entry in entries}
    while True:
        for entry in entries:
            at = due[entry.name]
            if at is not None and at <= _now():
                done = crawl(entry, memory, sender)
                due[entry.name] = _next(entry) if done else _now() + AGAIN
        time.sleep(PAUSE)


def crawl(entry: Entry, memory: "Memory", sender: "Sender") -> bool:
    """One crawl, told in a line; false if it did not come to its end."""
    from lily.cli.agent_sender import run

    try:
        counts = run(entry.name, entry.plugin, entry.options, memory, sender, _now())
    except Failure as failure:
        if failure.code == NOT_ALLOWED:
            raise
        typer.echo(f"{entry.name}: {failure.sentence}", err=True)
        return False
    except Exception as cause:  # noqa: BLE001  a source's bug must not stop the others
        typer.echo(f"{entry.name}: {reason(entry, cause)}", err=True)
        return False
    typer.echo(f"{entry.name}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return True


def reason(entry: Entry, cause: Exception) -> str:
    """What went wrong, without the connection's secrets."""
    from lily import plugins
    from lily.assets.hooks import reason_of

    _, secrets = plugins.split(plugins.check("source", entry.plugin, entry.options))
    return reason_of(cause, plugins.hidden(secrets))


def _next(entry: Entry) -> datetime | None:
    from lily.schedule import next_after

    return next_after(entry.schedule, _now(), entry.key)


def _now() -> datetime:
    from lily.clock import SystemClock

    return SystemClock().now()
