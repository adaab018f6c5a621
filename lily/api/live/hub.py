"""One reader of the feed for all who follow a tenant with the same eyes, in this process.

A follower first reads on its own from where it stopped, at its own pace. Once it has come to where
the reader is, it joins: both happen in one step of the event loop, so nothing lies between. Who
does not keep up after that is told, and cut: it may come back to where it was.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool

from lily.api.live.wanted import Item, Wanted, item_of
from lily.errors import LilyError, Unauthenticated, Unavailable
from lily.events.chain import Link
from lily.store import feed
from lily.store.database import SIGHT
from lily.store.wakeups import Waiter
from lily.telemetry import LIVE_FOLLOWERS, logger
from lily.types import Caller, Tenant
from lily.wiring import Services

PAGE = 500
BEHIND = 2_000  # messages that may wait for one follower
LOOK = 1.0  # seconds between two looks at who may still hear what

Eyes = tuple[int, str, str]  # a tenant, its cell, and what may be seen


class Cut(Exception):
    """The follower ends. `code` is that of a WebSocket."""

    def __init__(self, kind: str, code: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.code = code


SLOW = ("slow", 1013)
OVER = ("restart", 1012)
UNKNOWN = ("unauthenticated", 4401)


class Follower:
    """Somebody who listens. `position` is up to where everything was handed over."""

    def __init__(self, live: "Live", header: str, caller: Caller, wanted: Wanted) -> None:
        self.live = live
        self.header = header
        self.caller = caller
        self.wanted = wanted
        self.position = 0
        self.stream: Stream | None = None
        self.cut: tuple[str, int] | None = None
        self._queue: deque[Item] = deque()
        self._news = asyncio.Event()

    async def take(self, seconds: float) -> list[Item]:
        """What comes next; nothing after so many seconds. Raises Cut."""
        self._check()
        end = asyncio.get_running_loop().time() + seconds
        while self.stream is None:
            try:
                items = await self.live.older(self)
            except LilyError:
                self.end(OVER)
                items = []
            self._check()
            if items or asyncio.get_running_loop().time() > end:
                return items
        if not self._queue:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), seconds)
            except TimeoutError:
                self._pass()
                return []
        self._check()
        items = list(self._queue)
        self._queue.clear()
        self._pass()
        return items

    def offer(self, items: Sequence[Item]) -> None:
        """From the reader: keep what is wanted, unless there is too much already."""
        fresh = [i for i in items if i.position > self.position and self.wanted.wants(i)]
        if not fresh:
            return
        if len(self._queue) + len(fresh) > BEHIND:
            self.end(SLOW)
            return
        self._queue.extend(fresh)
        self._news.set()

    def end(self, how: tuple[str, int]) -> None:
        if self.cut is None:
            self.cut = how
        self.leave()
        self._news.set()

    def leave(self) -> None:
        """Read on its own again, from the last that was handed over."""
        if self.stream is not None:
            self.stream.followers.discard(self)
            self.stream = None
        self._queue.clear()
        self._news.set()

    def _pass(self) -> None:
        if self.stream is not None:
            self.position = max(self.position, self.stream.position)

    def _check(self) -> None:
        if self.cut is not None:
            raise Cut(*self.cut)


class Stream:
    """The one reader for a tenant and a sight."""

    def __init__(self, live: "Live", tenant: Tenant, sight: str, position: int) -> None:
        self.live = live
        self.tenant = tenant
        self.sight = sight
        self.position = position
        self.followers: set[Follower] = set()
        self.task = asyncio.create_task(self._run(), name=f"live@{tenant.name}")

    async def _run(self) -> None:
        loop, grown = asyncio.get_running_loop(), asyncio.Event()
        wakeups = self.live.services.wakeups
        waiter = Waiter(self.tenant, self.position, lambda: _set(loop, grown))
        wakeups.add(waiter)
        SIGHT.set(self.sight)
        try:
            while not wakeups.ended:
                if await self._advance():
                    waiter.after = self.position
                    continue
                await _woken(grown)
                grown.clear()
                if not self.followers and self.live.forget(self):
                    return
        finally:
            wakeups.remove(waiter)
            self.live.forget(self, always=True)
            for follower in list(self.followers):
                follower.end(OVER)

    async def _advance(self) -> bool:
        """Hand over the next page; False when there is none."""
        try:
            links, end = await run_in_threadpool(self.live.page, self.tenant, self.position, None)
        except Unavailable as cause:
            logger(__name__).warning("the feed cannot be read", reason=str(cause))
            await asyncio.sleep(LOOK)
            return False
        if end <= self.position:
            return False
        items = [item_of(link) for link in links]
        self.position = end
        for follower in list(self.followers):
            follower.offer(items)
        return True


class Live:
    """All followers of this process."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._streams: dict[Eyes, Stream] = {}
        self._followers: set[Follower] = set()
        self._watch: asyncio.Task[None] | None = None

    async def follow(
        self, header: str, caller: Caller, wanted: Wanted, after: int | None
    ) -> Follower:
        """Begin behind a position; None is now."""
        made = Follower(self, header, caller, wanted)
        head = await run_in_threadpool(self._head, caller.tenant)
        made.position = head if after is None else min(after, head)
        self._followers.add(made)
        LIVE_FOLLOWERS.set(len(self._followers))
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look(), name="live-look")
        return made

    def unfollow(self, follower: Follower) -> None:
        follower.leave()
        self._followers.discard(follower)
        LIVE_FOLLOWERS.set(len(self._followers))

    async def older(self, follower: Follower) -> list[Item]:
        """A page of what the follower has missed; when there is no more, it joins the reader."""
        sight = await self._sight(follower.caller)
        stream = await self._stream(follower.caller.tenant, sight)
        if follower.position >= stream.position:
            stream.followers.add(follower)
            follower.stream = stream
            return []
        SIGHT.set(sight)
        upto = stream.position
        links, end = await run_in_threadpool(
            self.page, follower.caller.tenant, follower.position, upto
        )
        follower.position = end
        return [i for i in map(item_of, links) if follower.wanted.wants(i)]

    def page(self, tenant: Tenant, after: int, upto: int | None) -> tuple[list[Link], int]:
        """The next facts behind a position, and how far was read for them. In a thread."""
        with self.services.core.database.unit(tenant) as unit:
            # The head first: what is behind it and not in the page cannot be seen.
            head = upto if upto is not None else feed.head(unit)
            if head <= after:
                return [], after
            links = [link for link in feed.after(unit, after, PAGE) if link.position <= head]
        full = len(links) == PAGE
        return links, links[-1].position if full else head

    def forget(self, stream: Stream, always: bool = False) -> bool:
        """Whether a reader without followers may end."""
        if stream.followers and not always:
            return False
        eyes = (stream.tenant.number, stream.tenant.cell, stream.sight)
        if self._streams.get(eyes) is stream:
            del self._streams[eyes]
        return True

    async def _stream(self, tenant: Tenant, sight: str) -> Stream:
        """The reader; a new one begins at the end, so that nobody gets old facts from it."""
        eyes = (tenant.number, tenant.cell, sight)
        if eyes not in self._streams:
            head = await run_in_threadpool(self._head, tenant)
            if eyes not in self._streams:
                self._streams[eyes] = Stream(self, tenant, sight, head)
        return self._streams[eyes]

    def _head(self, tenant: Tenant) -> int:
        with self.services.core.database.unit(tenant) as unit:
            return feed.head(unit)

    async def _sight(self, caller: Caller) -> str:
        guard = self.services.guard
        if not guard.is_fresh(caller.tenant):
            await run_in_threadpool(guard.confirmed, caller.tenant)
        now = self.services.core.clock.now()
        return guard.sight(caller.tenant, caller.name, [caller.role], now)

    async def _look(self) -> None:
        """While somebody follows: whoever may no longer hear is cut, or looks with other eyes."""
        while self._followers:
            await asyncio.sleep(LOOK)
            for follower in list(self._followers):
                if follower.cut is None:
                    await self._recheck(follower)

    async def _recheck(self, follower: Follower) -> None:
        verifier = self.services.identity.verifier
        try:
            caller = verifier.cached(follower.header)
            if caller is None:
                caller = await run_in_threadpool(verifier.authenticate, follower.header)
            if caller.tenant.cell != follower.caller.tenant.cell:
                # The tenant has moved: the same position goes on there.
                follower.end(OVER)
                return
            sight = await self._sight(follower.caller)
        except Unauthenticated:
            follower.end(UNKNOWN)
        except LilyError:
            # It cannot be known whether they may still hear: they may come back when it can.
            follower.end(OVER)
        else:
            if follower.stream is not None and follower.stream.sight != sight:
                follower.leave()


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(event.set)


async def _woken(event: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(event.wait(), LOOK)
    except TimeoutError:
        return
