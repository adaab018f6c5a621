"""`lily backup` and `lily restore`: store, log, keys and lake, to a folder and back."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

from lily.cli import configured, options, postgres
from lily.cli import home as folder
from lily.cli.failures import USAGE, Failure
from lily.cli.show import answer

if TYPE_CHECKING:
    from lily.settings import Settings
    from lily.store.backup import Copy

MANIFEST = "manifest.json"
FORMAT = 1
KEY = "secret.key"
DATABASE = "lily"


def backup(
    to: Annotated[Path, typer.Argument(help="A folder that is not there yet.")],
    home: options.Home = None,
    database: options.Database = None,
    credentials: Annotated[
        bool, typer.Option("--credentials", help="Copy the admin's credentials too.")
    ] = False,
    lake: Annotated[bool, typer.Option(help="Copy the lake's files, where they are local.")] = True,
    as_json: options.AsJson = False,
) -> None:
    """Copy store, log, keys and lake to a folder, while Lily runs or when it does not."""
    from lily import wiring
    from lily.clock import SystemClock
    from lily.store import backup as copies
    from lily.store import seal as seals

    settings = configured.settings(home=home, database=database)
    try:
        to.mkdir(parents=True, mode=0o700)
    except FileExistsError as cause:
        raise Failure(f"{to} is there already; name a new folder.", USAGE) from cause
    _spool(settings, to)  # twice: a job may end meanwhile, and another begin
    with running(settings):
        url = wiring.home_url(settings)
        made = [copies.dump(url, "home", to)]
        seal = seals.load(wiring.secret_key_file(settings))
        for cell, sealed in copies.cells(url):
            made.append(copies.dump(seal.open(sealed).decode(), cell, to, sealed))
    _spool(settings, to)
    _private(wiring.secret_key_file(settings), to / KEY)
    if credentials:
        _private(settings.home / "credentials", to / "credentials")
    places = {copy.cell: wiring.warehouse(settings, copy.cell) for copy in made}
    copied = [cell for cell, place in places.items() if lake and _lake_out(cell, place, to)]
    about = {
        "format": FORMAT,
        "at": SystemClock().now().isoformat(),
        "cells": [_plain(copy) for copy in made],
        "warehouses": places,
        "lake_files": copied,
    }
    folder.write_private(to / MANIFEST, json.dumps(about, indent=2) + "\n")
    states = {copy.cell: copy.state for copy in made}
    answer({"folder": str(to), "states": states}, as_json, _sentence("Copied", to, states))


def restore(
    source: Annotated[Path, typer.Argument(help="A folder of `lily backup`.", exists=True)],
    home: options.Home = None,
    database: options.Database = None,
    cell: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL: the empty database of a dedicated tenant; else where it was."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fill an empty home from a backup, and check every table and every tenant's feed."""
    from lily import wiring
    from lily.store import backup as copies
    from lily.store import seal as seals

    settings = configured.settings(home=home, database=database)
    about, made = _read(source)
    key = wiring.secret_key_file(settings)
    same = key.exists() and key.read_text() == (source / KEY).read_text()
    if (key.exists() and not same) or (settings.home / "postgres").exists():
        raise Failure(f"{settings.home} is in use; restore into an empty home.", USAGE)
    _private(source / KEY, key)
    with running(settings):
        seal = seals.load(key)
        url = wiring.home_url(settings)
        targets = _targets(made, cell or [], url, seal)
        for place in targets.values():
            copies.check_empty(place)
        for copy in made:
            copies.load(targets[copy.cell], copy, source)
            if copy.cell != "home":
                copies.move_cell(url, copy.cell, seal.seal(targets[copy.cell].encode()))
        fresh = [copy.cell for copy in made if not _lake_in(settings, copy.cell, source, about)]
        for name in fresh:
            copies.forget_lake(targets[name])
        broken = _broken_feeds(settings)
    for name in ("credentials", "spool"):
        _bring(source / name, settings.home / name)
    if broken:
        raise Failure(f"The data is there, but these feeds do not verify: {', '.join(broken)}.")
    states = {copy.cell: copy.state for copy in made}
    text = _sentence("Restored", settings.home, states) + "\nEvery feed verifies."
    if fresh:
        text += f"\nThe lake begins anew in {', '.join(fresh)}: it lay at another address."
    answer({"home": str(settings.home), "states": states, "fresh_lakes": fresh}, as_json, text)


@contextmanager
def running(settings: "Settings") -> Iterator[None]:
    """The database, started for the moment when it is embedded and nobody runs it."""
    from lily import wiring
    from lily.store import embedded

    server = wiring.server(settings)
    if server is None or server.ready():
        yield
        return
    with folder.locked(settings.home):
        postgres.clear_the_way(server.data)
        server.prepare()
        process = server.run()
        try:
            server.wait(process)
            server.create_database(DATABASE)
            yield
        finally:
            embedded.stop(process)


def _targets(made: "list[Copy]", given: list[str], home: str, seal: Any) -> dict[str, str]:
    """Which database each cell goes into."""
    from lily.store import backup as copies

    named = dict(pair.partition("=")[::2] for pair in given)
    unknown = sorted(named.keys() - {copy.cell for copy in made})
    if unknown:
        raise Failure(f"The backup has no cell {', '.join(unknown)}.", USAGE)
    return {
        copy.cell: home
        if copy.cell == "home"
        else named.get(copy.cell) or copies.address(copy, seal)
        for copy in made
    }


def _broken_feeds(settings: "Settings") -> list[str]:
    """Tenants whose chain of facts does not verify."""
    from lily import wiring
    from lily.store import feed

    core = wiring.core(settings, "lily_app", pool=2)
    try:
        broken = []
        for tenant in core.database.tenants():
            with core.database.unit(tenant) as unit:
                if feed.check(unit) is not None:
                    broken.append(tenant.name)
        return broken
    finally:
        core.close()


def _read(source: Path) -> "tuple[dict[str, Any], list[Copy]]":
    import msgspec

    from lily.store.backup import Copy

    try:
        about = json.loads((source / MANIFEST).read_text())
        if about["format"] != FORMAT:
            raise Failure(f"{source} is of another format ({about['format']}).", USAGE)
        return about, msgspec.convert(about["cells"], list[Copy])
    except (OSError, ValueError, KeyError, msgspec.ValidationError) as cause:
        raise Failure(f"{source} is no whole backup: {cause}.", USAGE) from cause


def _plain(copy: "Copy") -> Any:
    import msgspec

    return {**msgspec.to_builtins(copy), "state": copy.state}


def _lake_out(cell: str, warehouse: str, to: Path) -> bool:
    """Copy a cell's files if they are local. They never change: after the dump is early enough."""
    place = _local(warehouse)
    if place is None or not place.exists():
        return False
    shutil.copytree(place, to / "lake" / cell)
    return True


def _lake_in(settings: "Settings", cell: str, source: Path, about: dict[str, Any]) -> bool:
    """Put files back; False when they lay elsewhere: Iceberg's files name each other in full."""
    from lily import wiring

    warehouse = wiring.warehouse(settings, cell)
    if warehouse != about["warehouses"][cell]:
        return False
    place = _local(warehouse)
    if place is not None and cell in about["lake_files"]:
        shutil.copytree(source / "lake" / cell, place, dirs_exist_ok=True)
    return True


def _local(warehouse: str) -> Path | None:
    parts = urlsplit(warehouse)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _spool(settings: "Settings", to: Path) -> None:
    """Files of jobs that are not done. One that vanishes while it is copied is done."""
    for path in (settings.home / "spool").glob("*"):
        with suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(path, to / "spool" / path.name, dirs_exist_ok=True)


def _bring(source: Path, to: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, to, dirs_exist_ok=True)
    elif source.exists():
        _private(source, to)


def _private(source: Path, to: Path) -> None:
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        folder.write_private(to, source.read_text())
    except FileNotFoundError as cause:
        raise Failure(f"There is no {source}; is this the right home?") from cause


def _sentence(done: str, where: Path, states: dict[str, str]) -> str:
    lines = [f"{done}: {where}"]
    return "\n".join(lines + [f"{cell:<12} state {state[:16]}" for cell, state in states.items()])
