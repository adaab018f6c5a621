"""Appending from many requests at once: whatever waits goes down in one transaction."""

import asyncio
from collections.abc import Sequence

import psycopg

from lily.errors import Unavailable
from lily.log.postgres import CLOSED, CLOSED_SECONDS, COPY, OFFSETS, SHARED, WAKE, Record, block
from lily.types import LANES, Place

MOST = 2_000  # records in one transaction: short, because the reader waits for it


Group = list[tuple[Sequence[Record], asyncio.Future[list[Place]]]]


class _Closed(Exception):
    """Some of the records are of tenants that are moving away."""

    def __init__(self, tenants: set[int]) -> None:
        self.tenants = tenants


class Appender:
    """One writer a cell. `append` returns when the records are durable, with their places."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._waiting: Group = []
        self._wake = asyncio.Event()
        self._conn: psycopg.AsyncConnection | None = None
        self._task = asyncio.create_task(self._run(), name="append")

    async def append(self, records: Sequence[Record]) -> list[Place]:
        future: asyncio.Future[list[Place]] = asyncio.get_running_loop().create_future()
        self._waiting.append((records, future))
        self._wake.set()
        return await future

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._conn is not None:
            await self._conn.close()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._flush(self._take())

    def _take(self) -> Group:
        count = taken = 0
        for records, _ in self._waiting:
            if taken and count + len(records) > MOST:
                break
            count += len(records)
            taken += 1
        group, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return group

    async def _flush(self, group: Group) -> None:
        try:
            offsets = iter(await self._write([r for records, _ in group for r in records]))
        except _Closed as closed:
            if left := _without(group, closed.tenants):
                await self._flush(left)
            return
        except psycopg.Error as cause:
            await self._drop()
            for _, future in group:
                if not future.done():
                    # Whether it is in cannot be known; the caller may repeat it without harm.
                    error = Unavailable("The log cannot be written right now.")
                    error.__cause__ = cause
                    future.set_exception(error)
            return
        for records, future in group:
            own = [Place(record.lane, next(offsets)) for record in records]
            if not future.done():
                future.set_result(own)

    async def _write(self, records: Sequence[Record]) -> list[int]:
        conn = await self._open()
        async with conn.transaction():
            cursor = await conn.execute(SHARED)
            cursor.nextset()
            closed = {number for (number,) in await cursor.fetchall()}
            if closed and closed & {record.tenant for record in records}:
                raise _Closed(closed)
            offsets = await self._offsets(conn, records)
            async with conn.cursor().copy(COPY) as copy:
                await copy.write(block(records, offsets))
            await conn.execute(WAKE)
        return offsets

    async def _offsets(self, conn: psycopg.AsyncConnection, records: Sequence[Record]) -> list[int]:
        pools = {}
        for lane in LANES:
            if count := sum(record.lane == lane for record in records):
                found = await conn.execute(OFFSETS[lane], [count])
                pools[lane] = iter(await found.fetchall())
        return [next(pools[record.lane])[0] for record in records]

    async def _open(self) -> psycopg.AsyncConnection:
        if self._conn is None or self._conn.closed:
            self._conn = await psycopg.AsyncConnection.connect(
                self._url, autocommit=True, connect_timeout=5
            )
        return self._conn

    async def _drop(self) -> None:
        if self._conn is not None:
            await self._conn.close()
            self._conn = None


def _without(group: Group, tenants: set[int]) -> Group:
    """Those who may write; the others are told to come back."""
    left: Group = []
    for records, future in group:
        if not any(record.tenant in tenants for record in records):
            left.append((records, future))
        elif not future.done():
            future.set_exception(Unavailable(CLOSED, after=CLOSED_SECONDS))
    return left
