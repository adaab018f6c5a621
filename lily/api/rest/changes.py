"""The feed of facts: pages, and a long poll that waits for the next one."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from lily.api.deps import Limit, ServicesDep, look_again, requires
from lily.api.rest.assets import json, words
from lily.api.rest.audit import fact_of
from lily.api.rest.shapes import FactPage, Verdict
from lily.errors import Invalid
from lily.events.chain import Link
from lily.events.facts import FactKind
from lily.store import feed, history
from lily.store.database import SIGHT
from lily.store.wakeups import Waiter, Wakeups
from lily.types import Caller
from lily.wiring import Services

router = APIRouter(prefix="/api/v1/changes", tags=["changes"])

Follower = Annotated[Caller, requires("feed:read")]
Auditor = Annotated[Caller, requires("audit:read")]
Kinds = Annotated[Sequence[str], Query(description="Kinds of facts, repeated or with commas.")]

LONGEST = 30.0
KINDS: frozenset[str] = frozenset(get_args(FactKind))
# What everybody with the right to read the feed may see; logins and admin changes are audit.
OPEN = tuple(sorted(k for k in KINDS if k.startswith(("Asset", "Fields", "Tags", "Incident"))))


@router.get(
    "",
    response_model=FactPage,
    summary="Facts behind a position, as they come",
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def changes(
    caller: Follower,
    services: ServicesDep,
    kinds: Kinds = (),
    kind: Kinds = (),
    after: Annotated[
        str, Query(pattern=r"^(\d{1,18}|now)$", description="A position, 0, or `now`.")
    ] = "0",
    limit: Limit = 100,
    wait: Annotated[float, Query(ge=0, le=LONGEST, description="Seconds to wait for one.")] = 0,
    asset_id: Annotated[str | None, Query(pattern="^[^\\x00]+$", max_length=4000)] = None,
) -> Response:
    """In order and without gaps. `next` goes into `after`, also when there was nothing.

    With `Accept: text/event-stream` they come as server-sent events instead, from `now` or behind
    `after` or `Last-Event-ID`, with the filters of `/ws/notifications`."""
    wanted = _Wanted(services, caller, _visible(caller, words([*kinds, *kind])), limit)
    start = await run_in_threadpool(wanted.start, after, asset_id)
    links, end = await _poll(services.wakeups, wanted, start, wait)
    return json({"items": [fact_of(link) for link in links], "next": str(end)})


@router.get("/verify", response_model=Verdict, summary="Verify the hash chain of the feed")
def verify(caller: Auditor, services: ServicesDep) -> Verdict:
    """Recomputes every link; names the first row that was changed, removed or moved."""
    SIGHT.set("")  # a chain with holes proves nothing; what it says names no asset
    with services.core.database.unit(caller.tenant) as unit:
        position = feed.head(unit)
        broken = feed.check(unit)
    if broken is None:
        return Verdict(verified=True, position=position)
    return Verdict(
        verified=False, position=position, broken_at=broken.position, reason=broken.reason
    )


class _Wanted:
    """Which facts a follower wants; reads a page of them, in a thread."""

    def __init__(self, services: Services, caller: Caller, kinds: list[str], limit: int) -> None:
        self.tenant = caller.tenant
        self._services = services
        self._caller = caller
        self._database = services.core.database
        self._kinds = kinds
        self._limit = limit
        self._guid: Any = None

    def start(self, after: str, asset_id: str | None) -> int:
        with self._database.unit(self.tenant) as unit:
            if asset_id is not None:
                self._guid = history.audited(unit, asset_id)
            return feed.head(unit) if after == "now" else int(after)

    def page(self, after: int) -> tuple[list[Link], int]:
        """The next facts, and how far the feed was read for them."""
        look_again(self._services, self._caller)
        with self._database.unit(self.tenant) as unit:
            # The head first: what is behind it and not in the page was not wanted.
            head = feed.head(unit)
            links = feed.after(unit, after, self._limit, self._guid, self._kinds)
        if len(links) == self._limit:
            return links, links[-1].position
        return links, max([after, head, *(link.position for link in links[-1:])])


async def _poll(
    wakeups: Wakeups, wanted: _Wanted, after: int, seconds: float
) -> tuple[list[Link], int]:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    grown = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(grown.set)

    waiter = Waiter(wanted.tenant, after, wake)
    links, after = await run_in_threadpool(wanted.page, after)
    if links or not seconds:
        return links, after
    waiter.after = after
    wakeups.add(waiter)
    try:
        while not links and (left := end - loop.time()) > 0 and not wakeups.ended:
            if not await _woken(grown, left):
                break
            grown.clear()
            links, after = await run_in_threadpool(wanted.page, after)
            waiter.after = after
    finally:
        wakeups.remove(waiter)
    return links, after


async def _woken(grown: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(grown.wait(), seconds)
    except TimeoutError:
        return False
    return True


def kinds_of(caller: Caller) -> frozenset[str]:
    """Everything that the caller may hear of."""
    return KINDS if caller.may("audit:read") else frozenset(OPEN)


def _visible(caller: Caller, asked: list[str]) -> list[str]:
    """The kinds to read; empty is all of them."""
    if unknown := sorted(set(asked) - KINDS):
        raise Invalid(f"{', '.join(unknown)}: no such kind of fact", "kinds")
    if caller.may("audit:read"):
        return asked
    return [kind for kind in asked if kind in OPEN] or ([] if asked else list(OPEN)) or ["-"]
