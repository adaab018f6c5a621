"""Reading by id for many requests at once: what waits goes down as one query per tenant."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec
import psycopg
from psycopg_pool import AsyncConnectionPool

from lily.assets.model import Asset
from lily.errors import Unavailable
from lily.store.assets import SELECT

BY_GUID = SELECT + " WHERE tenant = %s AND guid = ANY(%s)"
BY_ALIAS = "SELECT alias, guid FROM asset_alias WHERE tenant = %s AND alias = ANY(%s)"
DEAD = "SELECT cause, stage, plugin, reason FROM dead_letter WHERE tenant = %s AND cause = ANY(%s)"
DELETED_PARENTS = (
    "SELECT guid FROM asset WHERE tenant = %s AND lane = 'core' AND guid = ANY(%s)"
    " AND deleted_by IS NOT NULL"
)
BIND = "SELECT set_config('lily.tenant', %s, true)"


class Question(msgspec.Struct):
    """What one request wants to know."""

    guids: Sequence[UUID] = ()
    aliases: Sequence[str] = ()
    causes: Sequence[str] = ()


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


_Waiting = list[tuple[Question, asyncio.Future[Answer]]]


class Reads:
    """Coalesces questions per tenant. While a round is under way, the next one gathers."""

    def __init__(self, url: str, size: int = 4) -> None:
        self._pool = AsyncConnectionPool(
            url, min_size=1, max_size=size, open=False, kwargs={"autocommit": True},
            check=AsyncConnectionPool.check_connection, name="reads", max_idle=60,
        )  # fmt: skip
        self._waiting: dict[int, _Waiting] = {}
        self._busy: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        await self._pool.open(wait=False)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self._pool.close()

    async def ask(self, tenant: int, question: Question) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, []).append((question, future))
        if tenant not in self._busy:
            self._busy.add(tenant)
            task = asyncio.create_task(self._rounds(tenant))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _rounds(self, tenant: int) -> None:
        try:
            while waiting := self._waiting.pop(tenant, None):
                await self._round(tenant, waiting)
        finally:
            self._busy.discard(tenant)

    async def _round(self, tenant: int, waiting: _Waiting) -> None:
        try:
            answer = await self._answer(tenant, [question for question, _ in waiting])
        except (psycopg.Error, TimeoutError) as cause:
            for _, future in waiting:
                if not future.done():
                    error = Unavailable("The database cannot be reached.")
                    error.__cause__ = cause
                    future.set_exception(error)
            return
        for _, future in waiting:
            if not future.done():
                future.set_result(answer)

    async def _answer(self, tenant: int, questions: Sequence[Question]) -> Answer:
        guids = list({guid for q in questions for guid in q.guids})
        aliases = list({alias for q in questions for alias in q.aliases})
        causes = list({cause for q in questions for cause in q.causes})
        async with self._pool.connection(timeout=5) as conn, conn.pipeline(), conn.transaction():
            await conn.execute(BIND, [str(tenant)])
            found = [
                await conn.execute(statement, [tenant, values], prepare=True) if values else None
                for statement, values in ((BY_GUID, guids), (BY_ALIAS, aliases), (DEAD, causes))
            ]
            answer = Answer()
            if found[0] is not None:
                async for row in found[0]:
                    asset = Asset(*row)
                    answer.assets[asset.guid] = asset
            if found[1] is not None:
                answer.aliases = dict(await found[1].fetchall())
            if found[2] is not None:
                rows = await found[2].fetchall()
                answer.dead = {cause: Refusal(*rest) for cause, *rest in rows}
            await self._follow_parents(conn, tenant, answer)
        return answer

    async def _follow_parents(
        self, conn: psycopg.AsyncConnection, tenant: int, answer: Answer
    ) -> None:
        """A field is deleted with its direct parent, without being touched itself."""
        fields = [
            a
            for a in answer.assets.values()
            if a.lane == "fields" and a.parent and not a.deleted_by
        ]
        if not fields:
            return
        parents = list({asset.parent for asset in fields})
        found = await conn.execute(DELETED_PARENTS, [tenant, parents], prepare=True)
        gone = {guid for (guid,) in await found.fetchall()}
        for asset in fields:
            if asset.parent in gone:
                asset.deleted_by = f"parent:{asset.parent}"
