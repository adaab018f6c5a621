"""Reading by id for many requests at once: what waits goes down as one query per tenant."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, LiteralString, TypeVar
from uuid import UUID

import msgspec
import psycopg
from psycopg.rows import TupleRow

from lily.assets.model import Asset
from lily.errors import Unavailable
from lily.store.assets import SELECT
from lily.store.copying import listed
from lily.store.database import BIND, HEAD, SIGHT
from lily.store.handed_down import Books, follow_containers
from lily.types import Lane

BY_GUID = SELECT + " WHERE tenant = %s AND guid = ANY(%s::uuid[])"
IN_BRIEF = (
    "SELECT guid, caller_id, version, cause, feed_position, edited FROM asset"
    " WHERE tenant = %s AND guid = ANY(%s::uuid[]) AND lane = %s"
)
BY_ALIAS = "SELECT alias, guid FROM asset_alias WHERE tenant = %s AND alias = ANY(%s)"
DEAD = "SELECT cause, stage, plugin, reason FROM dead_letter WHERE tenant = %s AND cause = ANY(%s)"


class Question(msgspec.Struct):
    """What one request wants to know."""

    guids: Sequence[UUID] = ()
    aliases: Sequence[str] = ()
    causes: Sequence[str] = ()
    brief: Sequence[tuple[Lane, UUID]] = ()  # assets of which only the version is of interest


class Brief(msgspec.Struct):
    """Of an asset what tells whether it is as somebody said."""

    guid: UUID
    caller_id: str | None
    version: int
    cause: str
    feed_position: int
    edited: dict[str, Any] | None

    @property
    def asset_id(self) -> str:
        return self.caller_id or str(self.guid)


class Refusal(msgspec.Struct, frozen=True):
    """Why an observation was not applied."""

    stage: str
    plugin: str
    reason: str


class Answer(msgspec.Struct):
    """What all requests of a round got to know; each picks its own."""

    assets: dict[UUID, Asset] = {}
    aliases: dict[str, UUID] = {}
    dead: dict[str, Refusal] = {}
    brief: dict[UUID, Brief] = {}


T = TypeVar("T")
Work = Callable[[psycopg.AsyncConnection], Awaitable[T]]
_Eyes = tuple[int, str]  # a tenant, and what may be seen of it
_Waiting = list[tuple[Question, asyncio.Future[Answer]]]


class Reads:
    """Coalesces questions per tenant. While a round is under way, the next one gathers."""

    def __init__(self, url: str, size: int = 4) -> None:
        self._url = url
        self._free: list[psycopg.AsyncConnection] = []
        self._slots = asyncio.Semaphore(size)
        self._waiting: dict[_Eyes, _Waiting] = {}
        self._busy: set[_Eyes] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._books: Books = {}

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for conn in self._free:
            await conn.close()

    async def ask(self, tenant: int, question: Question) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        eyes = tenant, SIGHT.get()
        self._waiting.setdefault(eyes, []).append((question, future))
        if eyes not in self._busy:
            self._busy.add(eyes)
            task = asyncio.create_task(self._rounds(eyes))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _rounds(self, eyes: _Eyes) -> None:
        try:
            while waiting := self._waiting.pop(eyes, None):
                await self._round(eyes, waiting)
        finally:
            self._busy.discard(eyes)

    async def _round(self, eyes: _Eyes, waiting: _Waiting) -> None:
        try:
            answer = await self._answer(eyes, [question for question, _ in waiting])
        except psycopg.Error as cause:
            for _, future in waiting:
                if not future.done():
                    error = Unavailable("The database cannot be reached.")
                    error.__cause__ = cause
                    future.set_exception(error)
            return
        for _, future in waiting:
            if not future.done():
                future.set_result(answer)

    async def run(self, tenant: int, work: Work[T]) -> T:
        """Other reads, through the same connections and with the same eyes."""
        eyes = tenant, SIGHT.get()

        async def bound(conn: psycopg.AsyncConnection) -> T:
            async with conn.pipeline():
                await conn.execute(BIND, [str(eyes[0]), eyes[1], eyes[0]], prepare=True)
                return await work(conn)

        try:
            return await self._connected(bound)
        except psycopg.Error as cause:
            raise Unavailable("The database cannot be reached.") from cause

    async def row(self, statement: LiteralString, given: Mapping[str, Any]) -> TupleRow:
        """The row of one statement that binds itself: no other must go before it."""
        values = {**given, "sight": SIGHT.get()}

        async def ask(conn: psycopg.AsyncConnection) -> TupleRow | None:
            return await (await conn.execute(statement, values, prepare=True)).fetchone()

        try:
            found = await self._connected(ask)
        except psycopg.Error as cause:
            raise Unavailable("The database cannot be reached.") from cause
        assert found is not None
        return found

    async def head(self, tenant: int) -> int:
        """How far the tenant's feed is here."""

        async def look(conn: psycopg.AsyncConnection) -> int:
            row = await (await conn.execute(HEAD, [tenant], prepare=True)).fetchone()
            return row[0] if row else 0

        return await self.run(tenant, look)

    async def _answer(self, eyes: _Eyes, questions: Sequence[Question]) -> Answer:
        return await self._connected(lambda conn: _read(conn, eyes, questions, self._books))

    async def _connected(self, work: Work[T]) -> T:
        """A connection that broke while it lay idle is replaced, once."""
        async with self._slots:
            for last in (False, True):
                conn = await self._connection()
                try:
                    answer = await work(conn)
                except psycopg.OperationalError:
                    await conn.close()
                    if last:
                        raise
                except BaseException:
                    await conn.close()
                    raise
                else:
                    self._free.append(conn)
                    return answer
        raise AssertionError("unreachable")

    async def _connection(self) -> psycopg.AsyncConnection:
        while self._free:
            conn = self._free.pop()
            if not conn.closed:
                return conn
        return await psycopg.AsyncConnection.connect(self._url, autocommit=True, connect_timeout=5)


async def _read(
    conn: psycopg.AsyncConnection, eyes: _Eyes, questions: Sequence[Question], books: Books
) -> Answer:
    """Two round trips. A pipeline is one transaction, so the tenant holds for all of it."""
    tenant, sight = eyes
    guids = {guid for q in questions for guid in q.guids}
    brief: dict[Lane, set[UUID]] = defaultdict(set)
    for lane, guid in (each for q in questions for each in q.brief):
        brief[lane].add(guid)
    aliases = list({alias for q in questions for alias in q.aliases})
    causes = list({cause for q in questions for cause in q.causes})
    answer = Answer()
    async with conn.pipeline():
        await conn.execute(BIND, [str(tenant), sight, tenant], prepare=True)
        assets, known, dead = [
            await conn.execute(statement, [tenant, values], prepare=True) if values else None
            for statement, values in (
                (BY_GUID, guids and listed(guids)), (BY_ALIAS, aliases), (DEAD, causes),
            )
        ]  # fmt: skip
        versions = [
            await conn.execute(IN_BRIEF, [tenant, listed(values), lane], prepare=True)
            for lane, values in brief.items()
        ]
        if assets is not None:
            for row in await assets.fetchall():
                asset = Asset(*row)
                answer.assets[asset.guid] = asset
        for found in versions:
            answer.brief.update((row[0], Brief(*row)) for row in await found.fetchall())
        if known is not None:
            answer.aliases = dict(await known.fetchall())
        if dead is not None:
            answer.dead = {cause: Refusal(*rest) for cause, *rest in await dead.fetchall()}
        await follow_containers(conn, tenant, answer.assets.values(), books)
    return answer
