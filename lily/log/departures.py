"""Who may not write to a cell any more, for those who write past its database."""

import asyncio
from time import monotonic

import psycopg

from lily.errors import Unavailable
from lily.log.postgres import CLOSED, CLOSED_SECONDS

FRESH = 1.0
ON_THE_WAY = "SELECT number FROM departure"
# A database that its tenant has left is no cell any more, and nobody reads its topics.
IS_CELL = "SELECT EXISTS (SELECT FROM cell WHERE name = %s)"


class Departures:
    """Looked up again every second while somebody writes. Whoever slips through loses nothing: the
    pipeline sends it after the tenant."""

    def __init__(self, url: str, cell: str) -> None:
        self._url = url
        self._cell = cell
        self._known: set[int] = set()
        self._given_up = False
        self._looked = float("-inf")
        self._conn: psycopg.AsyncConnection | None = None
        self._lock = asyncio.Lock()

    async def refuse(self, tenants: set[int]) -> None:
        """Raises Unavailable, with when to come back, if one of them is on its way, or all are."""
        if monotonic() - self._looked > FRESH:
            async with self._lock:
                if monotonic() - self._looked > FRESH:
                    await self._look()
        if self._given_up or self._known & tenants:
            raise Unavailable(CLOSED, after=CLOSED_SECONDS)

    async def close(self) -> None:
        if self._conn is not None:
            await self._conn.close()
            self._conn = None

    async def _look(self) -> None:
        try:
            if self._conn is None:
                self._conn = await psycopg.AsyncConnection.connect(
                    self._url, autocommit=True, connect_timeout=2
                )
            rows = await (await self._conn.execute(ON_THE_WAY)).fetchall()
            self._known = {number for (number,) in rows}
            row = await (await self._conn.execute(IS_CELL, [self._cell])).fetchone()
            self._given_up = row is not None and not row[0]
        except psycopg.Error:  # what is known holds on
            await self.close()
        self._looked = monotonic()
