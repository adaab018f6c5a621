"""Rows as COPY text. A row of the batch's inner loop has 33 columns: this is three times as quick
as having each value dumped and escaped on its own."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, LiteralString
from uuid import UUID

import msgspec
import psycopg

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_encode = msgspec.json.encode


def copy(conn: psycopg.Connection, statement: LiteralString, rows: Iterable[Sequence[Any]]) -> None:
    """Send rows to a `COPY … FROM STDIN` in text format."""
    with conn.cursor().copy(statement) as stream:
        stream.write("".join([text(row) for row in rows]))


def text(row: Sequence[Any]) -> str:
    return "\t".join([_DUMPERS[type(value)](value) for value in row]) + "\n"


def _string(value: str) -> str:
    if "\\" in value or "\n" in value or "\t" in value or "\r" in value:
        return value.translate(_ESCAPES)
    return value


def _json(value: Mapping[str, Any]) -> str:
    return _string(_encode(value).decode())


def _array(values: Sequence[str]) -> str:
    if not values:
        return "{}"
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return _string('{"' + '","'.join(quoted) + '"}')


@lru_cache(maxsize=4096)  # a batch has one now, and few other moments
def _moment(value: datetime) -> str:
    return value.isoformat()


_DUMPERS: dict[type, Any] = {
    str: _string,
    int: str,
    bool: lambda value: "t" if value else "f",
    type(None): lambda _: "\\N",
    UUID: lambda value: f"{value.int:032x}",
    datetime: _moment,
    dict: _json,
    list: _array,
    bytes: lambda value: "\\\\x" + value.hex(),
}
