"""Rows as COPY text. A row of the batch's inner loop has 33 columns: this is three times as quick
as having each value dumped and escaped on its own."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import lru_cache
from typing import Any, LiteralString, NamedTuple, TypeVar
from uuid import UUID

import msgspec
import psycopg

NULL = "\\N"
PART = 600

T = TypeVar("T")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_encode = msgspec.json.encode


class Stage(NamedTuple):
    """A temporary table: how it is made, filled, put to use, and emptied."""

    make: LiteralString
    fill: LiteralString
    use: LiteralString
    empty: LiteralString


def through(
    conn: psycopg.Connection, stage: Stage, items: Sequence[T], row: Callable[[T], Sequence[Any]]
) -> None:
    """Bring rows where they belong by way of a temporary table.

    Many go in parts: while the database takes one in, the next is made ready.
    """
    conn.execute(stage.make)
    if len(items) <= PART:
        _pass(conn, stage, "".join([text(row(item)) for item in items]))
        return
    with ThreadPoolExecutor(1, "copy") as worker:
        under_way: Future[None] | None = None
        for start in range(0, len(items), PART):
            part = "".join([text(row(item)) for item in items[start : start + PART]])
            if under_way is not None:
                under_way.result()
            under_way = worker.submit(_pass, conn, stage, part, stage.empty)
        assert under_way is not None
        under_way.result()


def _pass(
    conn: psycopg.Connection, stage: Stage, part: str, empty: LiteralString | None = None
) -> None:
    with conn.cursor().copy(stage.fill) as stream:
        stream.write(part)
    conn.execute(stage.use)
    if empty is not None:
        conn.execute(empty)


def text(row: Sequence[Any]) -> str:
    return "\t".join([_DUMPERS[type(value)](value) for value in row]) + "\n"


def string(value: str) -> str:
    if "\\" in value or "\n" in value or "\t" in value or "\r" in value:
        return value.translate(_ESCAPES)
    return value


def dump(value: Mapping[str, Any]) -> str:
    return string(_encode(value).decode())


def array(values: Sequence[str]) -> str:
    if not values:
        return "{}"
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return string('{"' + '","'.join(quoted) + '"}')


@lru_cache(maxsize=4096)  # a batch has one now, and few other moments
def moment(value: datetime) -> str:
    return value.isoformat()


_DUMPERS: dict[type, Any] = {
    str: string,
    int: str,
    bool: lambda value: "t" if value else "f",
    type(None): lambda _: NULL,
    UUID: lambda value: f"{value.int:032x}",
    datetime: moment,
    dict: dump,
    list: array,
    bytes: lambda value: "\\\\x" + value.hex(),
}
