"""Reading on where one stopped, over every cell at once, core before fields."""

import select
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

import msgspec
import psycopg

from lily.log import postgres
from lily.types import LANES, Lane

Offsets = dict[str, dict[Lane, int]]  # cell, lane, offset
Urls = Callable[[], Mapping[str, str]]

POLL = 0.25  # a notification is a hint; this is the promise
NEW_CELLS = 5.0
AWAY = 1.0  # a cell that does not answer is not asked more often than that


class Shares(msgspec.Struct, frozen=True):
    """How many rows one read may take. Fields never crowd out core."""

    core: int = 5_000
    fields_beside_core: int = 500
    fields_alone: int = 2_000


class Stretch(msgspec.Struct, frozen=True):
    """Consecutive rows (offset, tenant, at, key, value) of one lane of one cell."""

    cell: str
    lane: Lane
    start: int
    end: int
    rows: list[tuple[Any, ...]]


class Tail:
    """Long-polls the logs of all cells. A cell that cannot be reached is tried again."""

    def __init__(self, urls: Urls, shares: Shares | None = None) -> None:
        self._urls = urls
        self._shares = shares or Shares()
        self._connections: dict[str, psycopg.Connection] = {}
        self._away: dict[str, float] = {}
        self._known: Mapping[str, str] = {}
        self._looked = float("-inf")

    def read(self, start: Offsets, seconds: float, most: int | None = None) -> list[Stretch]:
        """What is behind `start`, of core not more than `most`; waits up to `seconds` for something
        to appear."""
        end = monotonic() + seconds
        share = self._shares.core if most is None else min(most, self._shares.core)
        while True:
            found = self._sweep(start, share)
            if found or monotonic() >= end:
                return found
            self._sleep(min(POLL, max(0.0, end - monotonic())))

    def between(self, start: Offsets, end: Offsets) -> list[Stretch]:
        """Exactly the rows of an earlier read, for Spark to replay."""
        found = []
        for cell, lanes in end.items():
            for lane, upto in lanes.items():
                after = start.get(cell, {}).get(lane, 0)
                if upto > after and cell in self.cells():  # one that is gone was drained before
                    conn = self._open(cell, self.cells()[cell])
                    rows = postgres.read(conn, lane, after, upto, upto - after)
                    found.append(Stretch(cell, lane, after, upto, rows))
        return found

    def close(self) -> None:
        for conn in self._connections.values():
            conn.close()

    def _sweep(self, start: Offsets, share: int) -> list[Stretch]:
        """Of the cells that have a start; where others begin is not ours to guess."""
        found = []
        for cell, url in self.cells().items():
            if cell not in start or self._away.get(cell, 0.0) > monotonic():
                continue
            try:
                found += self._sweep_cell(self._open(cell, url), cell, start[cell], share)
            except psycopg.OperationalError:
                self._drop(cell)
        return found

    def _sweep_cell(
        self, conn: psycopg.Connection, cell: str, start: Mapping[Lane, int], share: int
    ) -> list[Stretch]:
        after: dict[Lane, int] = {lane: start.get(lane, 0) for lane in LANES}
        marks = postgres.high_water(conn, after)
        core = self._stretch(conn, cell, "core", after, marks, share)
        beside = self._shares.fields_beside_core if core else self._shares.fields_alone
        fields = self._stretch(conn, cell, "fields", after, marks, beside)
        return [stretch for stretch in (core, fields) if stretch is not None]

    def _stretch(
        self,
        conn: psycopg.Connection,
        cell: str,
        lane: Lane,
        after: Mapping[Lane, int],
        marks: Mapping[Lane, int],
        limit: int,
    ) -> Stretch | None:
        if marks[lane] <= after[lane]:
            return None
        rows = postgres.read(conn, lane, after[lane], marks[lane], limit)
        return Stretch(cell, lane, after[lane], rows[-1][0], rows) if rows else None

    def cells(self) -> Mapping[str, str]:
        """Name and address of every cell; new ones are noticed within seconds."""
        if monotonic() - self._looked > NEW_CELLS:
            with suppress(Exception):  # home is away for a moment: go on with what is known
                self._known = self._urls()
                self._looked = monotonic()
                for gone in self._connections.keys() - self._known.keys():
                    self._drop(gone)
        return self._known

    def _open(self, cell: str, url: str) -> psycopg.Connection:
        conn = self._connections.get(cell)
        if conn is None or conn.closed:
            conn = psycopg.connect(url, autocommit=True, connect_timeout=2)
            conn.execute("LISTEN lily_log")
            self._connections[cell] = conn
        return conn

    def _drop(self, cell: str) -> None:
        self._away[cell] = monotonic() + AWAY
        if (conn := self._connections.pop(cell, None)) is not None:
            conn.close()

    def _sleep(self, seconds: float) -> None:
        if not self._connections:
            select.select([], [], [], seconds)
            return
        ready, _, _ = select.select(list(self._connections.values()), [], [], seconds)
        for conn in ready:
            with suppress(psycopg.OperationalError):
                for _ in conn.notifies(timeout=0):
                    pass
