"""Waiting for the pipeline: one listener a cell knows how far it has come."""

import asyncio
import heapq
from collections import defaultdict
from contextlib import suppress

import psycopg

from lily.types import LANES, Lane, Place

Part = tuple[Lane, int]

POLL = 0.25
DRAIN = 2.0
POSITIONS = "SELECT lane, part, position FROM applied"


class Applied:
    """Follows the applied positions of a cell; a notification is a hint, the poll is the rule."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._positions: dict[Part, int] = defaultdict(int)
        self._heaps: dict[Part, list[tuple[int, int, asyncio.Future[None]]]] = defaultdict(list)
        self._count = 0
        self._conn: psycopg.AsyncConnection | None = None
        self._someone = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="applied")

    async def reached(self, place: Place) -> None:
        """Until the store holds everything up to this place."""
        part = (place.lane, place.part)
        if self._positions[part] >= place.position:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._heaps[part], (place.position, self._count, future))
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
            rows = await (await conn.execute(POSITIONS)).fetchall()
            self._move({(lane, part): position for lane, part, position in rows})
            if not any(self._heaps.values()):
                self._someone.clear()
                await self._rest(conn)
                continue
            async for notice in conn.notifies(timeout=POLL, stop_after=1):
                self._move(_parse(notice.payload))

    async def _rest(self, conn: psycopg.AsyncConnection) -> None:
        """Until somebody waits. What is told meanwhile is taken in: a listener who does not read
        would hold up the database's whole queue."""
        while not self._someone.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._someone.wait(), DRAIN)
            async for _ in conn.notifies(timeout=0):
                pass

    async def _open(self) -> psycopg.AsyncConnection:
        if self._conn is None:
            self._conn = await psycopg.AsyncConnection.connect(
                self._url, autocommit=True, connect_timeout=5
            )
            await self._conn.execute("LISTEN lily_applied")
        return self._conn

    def _move(self, positions: dict[Part, int]) -> None:
        for part, position in positions.items():
            self._positions[part] = max(self._positions[part], position)
            heap = self._heaps[part]
            while heap and heap[0][0] <= self._positions[part]:
                _, _, future = heapq.heappop(heap)
                if not future.done():
                    future.set_result(None)


def _parse(payload: str) -> dict[Part, int]:
    """`core:17` is the log in PostgreSQL, `core/3:17` a part of the log in Kafka."""
    found: dict[Part, int] = {}
    for each in payload.split(","):
        name, _, position = each.partition(":")
        lane, _, part = name.partition("/")
        if lane in LANES and position.isdigit() and (part or "0").isdigit():
            found[lane, int(part or 0)] = int(position)
    return found
