"""How answers look: JSON for scripts, tables for people."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer


def as_text(value: object) -> str:
    """One cell of a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def document(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def answer(value: object, as_json: bool, text: str) -> None:
    """The same answer for a script or for a person."""
    if as_json:
        document(value)
    else:
        typer.echo(text)


def record(value: Mapping[str, Any], as_json: bool) -> None:
    """One thing: a field a line, empty fields left out."""
    if as_json:
        document(value)
        return
    width = max((len(name) for name in value), default=0)
    for name, content in value.items():
        if content not in (None, "", [], {}):
            label = typer.style(f"{name:<{width}}", dim=True)
            typer.echo(f"{label}  {as_text(content)}")


def rows(items: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Several things: a table with the columns that matter."""
    if as_json:
        document(list(items))
        return
    if not items:
        typer.echo("Nothing found.")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for item in items:
        table.add_row(*(_escaped(as_text(item.get(column))) for column in columns))
    Console().print(table)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
