"""Waiting for the pipeline: one listener a cell knows how far it has come."""

import asyncio
import heapq
from contextlib import suppress

import psycopg

from lily.types import LANES, Lane

POLL = 0.25
POSITIONS = "SELECT lane, position FROM applied WHERE part = 0"


class Applied:
    """Follows the applied positions of a cell; a notification is a hint, the poll is the rule."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._positions: dict[Lane, int] = dict.fromkeys(LANES, 0)
        self._heaps: dict[Lane, list[tuple[int, int, asyncio.Future[None]]]] = {
            lane: [] for lane in LANES
        }
        self._count = 0
        self._conn: psycopg.AsyncConnection | None = None
        self._someone = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="applied")

    async def reached(self, lane: Lane, offset: int) -> None:
        """Until the store holds everything up to this offset."""
        if self._positions[lane] >= offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._heaps[lane], (offset, self._count, future))
        self._someone.set()
        await future

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._conn is not None:
            await self._conn.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except psycopg.Error:
                if self._conn is not None:
                    with suppress(psycopg.Error):
                        await self._conn.close()
                    self._conn = None
                await asyncio.sleep(POLL)

    async def _follow(self) -> None:
        conn = await self._open()
        while True:
            self._move(dict(await (await conn.execute(POSITIONS)).fetchall()))
            if not any(self._heaps.values()):
                self._someone.clear()
                await self._someone.wait()  # nobody waits: nothing to ask
                continue
            async for notice in conn.notifies(timeout=POLL, stop_after=1):
                self._move(_parse(notice.payload))

    async def _open(self) -> psycopg.AsyncConnection:
        if self._conn is None:
            self._conn = await psycopg.AsyncConnection.connect(
                self._url, autocommit=True, connect_timeout=5
            )
            await self._conn.execute("LISTEN lily_applied")
        return self._conn

    def _move(self, positions: dict[Lane, int]) -> None:
        for lane, position in positions.items():
            self._positions[lane] = max(self._positions[lane], position)
            heap = self._heaps[lane]
            while heap and heap[0][0] <= self._positions[lane]:
                _, _, future = heapq.heappop(heap)
                if not future.done():
                    future.set_result(None)


def _parse(payload: str) -> dict[Lane, int]:
    found: dict[Lane, int] = {}
    for part in payload.split(","):
        lane, _, position = part.partition(":")
        if lane in LANES and position.isdigit():
            found[lane] = int(position)
    return found
