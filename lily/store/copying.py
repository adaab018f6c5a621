"""Rows on their way into tables, part by part, and rows as COPY text.

A line of text is made at once: three times as quick as having each value dumped and escaped on its
own. Rows that are very many are packed instead, see `packing`.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from functools import lru_cache
from typing import Any, LiteralString, NamedTuple, TypeVar
from uuid import UUID

import msgspec
import psycopg

from lily.store import packing

NULL = "\\N"
PART = 1_000  # lines that are handed over at a time
FEW = 100  # are not worth a second thread
AHEAD = 4  # parts that may wait for the database
TURN = 0.0003  # seconds after which whoever makes rows ready lets the others on

T = TypeVar("T")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_encode = msgspec.json.encode


def by_key(conn: psycopg.Connection, local: bool = False) -> None:
    """From here on (`local`: in this transaction) rows are found by their keys.

    The planner knows nothing of temporary tables, nor how little of the log is not applied yet: it
    would rather read everything.
    """
    for way in ("seqscan", "hashjoin", "mergejoin"):
        conn.execute("SELECT set_config(%s, 'off', %s)", [f"enable_{way}", local])


class Stage(NamedTuple):
    """A temporary table: how it is made, filled, put to use, and emptied.

    For the few parts of a batch DELETE is quicker: TRUNCATE makes a new file each time, but leaves
    nothing behind to be passed over when there are hundreds of parts.
    """

    make: LiteralString
    fill: LiteralString
    use: LiteralString
    empty: LiteralString


class Pour:
    """Rows on their way: while the database takes parts in, the next are made ready.

    The connection belongs to it until it is settled.
    """

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn
        self._worker: ThreadPoolExecutor | None = None
        self._under_way: deque[Future[None]] = deque()
        self._filled: set[str] = set()

    def __enter__(self) -> "Pour":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.settle()
            else:
                wait(self._under_way)  # so that the transaction can be rolled back
        finally:
            if self._worker is not None:
                self._worker.shutdown()

    def put(self, stage: Stage, items: Sequence[T], row: Callable[[T], Sequence[Any]]) -> None:
        """Bring rows where they belong by way of a temporary table."""
        self.put_lines(stage, items, lambda item: text(row(item)))

    def put_lines(self, stage: Stage, items: Sequence[T], line: Callable[[T], str]) -> None:
        """The same, of rows that are so many that somebody has written out how they look."""
        self._put(stage, items, lambda some: "".join([line(item) for item in some]))

    def put_packed(self, stage: Stage, items: Sequence[T], pack: Callable[[T], bytes]) -> None:
        """The same, of rows that are packed, for a stage that is filled in binary."""
        self._put(stage, items, lambda some: packing.block([pack(item) for item in some]))

    def _put(
        self, stage: Stage, items: Sequence[T], block: Callable[[Sequence[T]], str | bytes]
    ) -> None:
        for start in range(0, max(len(items), 1), PART):
            part = block(items[start : start + PART])
            again = stage.fill in self._filled
            self._filled.add(stage.fill)
            if len(items) <= FEW and self._worker is None:
                _pass(self._conn, stage, part, again)
            else:
                self.settle(AHEAD - 1)
                self._worker = self._worker or _worker()
                self._under_way.append(self._worker.submit(_pass, self._conn, stage, part, again))

    def settle(self, but: int = 0) -> None:
        """Until all that was put in is in, `but` for the last parts."""
        while len(self._under_way) > but:
            self._under_way.popleft().result()


def _worker() -> ThreadPoolExecutor:
    """A thread that hands parts over. By default it would get its turn after 5 ms, several times a
    part, and the database would wait for longer than it works."""
    sys.setswitchinterval(TURN)
    return ThreadPoolExecutor(1, "copy")


def through(
    conn: psycopg.Connection, stage: Stage, items: Sequence[T], row: Callable[[T], Sequence[Any]]
) -> None:
    """Bring rows where they belong by way of a temporary table."""
    with Pour(conn) as pour:
        pour.put(stage, items, row)
    if len(items) > PART:
        conn.execute(stage.empty)


def _pass(conn: psycopg.Connection, stage: Stage, part: str | bytes, again: bool) -> None:
    conn.execute(stage.empty if again else stage.make)
    with conn.cursor().copy(stage.fill) as stream:
        stream.write(part)
    conn.execute(stage.use)


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


def listed(ids: Iterable[UUID]) -> str:
    """Ids as the text of an array, for `%s::uuid[]`: a fifth of what adapting each one takes."""
    return "{" + ",".join([f"{id.int:032x}" for id in ids]) + "}"


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
