"""Tells notices: claims what is due, sends it, and writes down what came of it.

Every target has its own few places, so one that hangs holds up nobody but itself.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from threading import Event
from time import monotonic
from uuid import UUID, uuid4

import msgspec
import uvloop

from lily.errors import Reject, Unavailable
from lily.notify import acknowledge, egress, verdicts
from lily.sdk.targets import Notice
from lily.store import outbox, settling
from lily.store.outbox import Alive, Claimed, Fared, OutletState, Settled, Spending
from lily.store.owners import Ears
from lily.telemetry import DELIVERIES, DELIVERY_SECONDS, logger
from lily.types import Tenant
from lily.wiring import Core
from lily.workers.grants import Grants
from lily.workers.outlets import Key, Outlet, Outlets
from lily.workers.sends import Caller, Tried, attempt
from lily.workers.wire import Wire

POLL = 0.25
BUSY = 0.1  # seconds between claims while there is work: each takes what was sent meanwhile
WRITE = 0.01  # seconds between groups of outcomes: what is not written is sent again by others
AT_ONCE = 4_000  # claims of one process; they mostly wait for others
AHEAD = 2  # times its places are claimed for a target that answers well
GROUP = 1_000
KNOWN = 1.0  # seconds for which the list of tenants is good
TIDY = 5.0  # seconds between looks for what dead processes left
GRACE = 5.0  # seconds to finish what is being sent when Lily stops

_notice = msgspec.json.Decoder(Notice).decode


def run(core: Core, stop: Event) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(core, stop))


async def _run(core: Core, stop: Event) -> None:
    wire = Wire(egress.networks(core.settings.egress_allow))
    engine = Engine(core, wire)
    writing = asyncio.create_task(engine.write())
    try:
        while not stop.is_set() and not writing.done():
            claimed = await engine.claim()
            engine.start(claimed)
            await asyncio.sleep(BUSY if claimed else POLL)
    finally:
        writing.cancel()
        outcome = await asyncio.gather(writing, return_exceptions=True)
        await engine.finish(GRACE)
        await wire.close()
    if isinstance(outcome[0], Exception):
        raise outcome[0]


class Engine:
    """The sends of one process. Several processes share the work through the claims."""

    def __init__(self, core: Core, wire: Wire, chance: Callable[[], float] = random.random) -> None:
        self._core = core
        self._wire = wire
        self._chance = chance
        self._worker = uuid4()
        self._alive: dict[str, Alive] = {}
        self._outlets = Outlets(core.seal.open)
        self._ears = Ears(core.database)
        self._grants = Grants(core, wire)
        self._states: dict[Key, OutletState] = {}
        self._cells: dict[int, str] = {}
        self._flying: Counter[Key] = Counter()
        self._started: dict[UUID, asyncio.Task[None]] = {}
        self._queued: set[UUID] = set()  # of those, the ones that wait for their target's turn
        self._done: list[Settled] = []
        self._unwritten = asyncio.Event()  # while outcomes wait to be written down
        self._places: dict[Key, asyncio.Semaphore] = {}
        self._good: set[Key] = set()
        self._writing = asyncio.Lock()
        self._known: tuple[float, list[Tenant]] = (float("-inf"), [])
        self._tidied = float("-inf")

    async def claim(self) -> list[Claimed]:
        """What is due and has a place to be sent from."""
        room = AT_ONCE - len(self._started)
        return await asyncio.to_thread(self._claim, room) if room > 0 else []

    def start(self, claimed: Sequence[Claimed]) -> None:
        for each in claimed:
            self._flying[each.tenant, each.connection] += 1
            self._queued.add(each.id)
            task = asyncio.create_task(self._send(each))
            self._started[each.id] = task
            task.add_done_callback(partial(self._ended, each.id))

    async def write(self) -> None:
        """Write down what has ended, soon after it has; until cancelled."""
        while True:
            await self._unwritten.wait()
            await asyncio.sleep(WRITE)
            await asyncio.shield(self.settle())

    async def settle(self) -> None:
        """Write down what has ended, in groups."""
        async with self._writing:
            self._unwritten.clear()
            while self._done:
                group, self._done = self._done[:GROUP], self._done[GROUP:]
                try:
                    await asyncio.to_thread(self._settle, group)
                except Unavailable:
                    self._done[:0] = group  # the store is away for a moment; it is written then
                    self._unwritten.set()
                    return

    async def round(self) -> int:
        """Everything that is due now, to its end; returns how many were sent."""
        claimed = await self.claim()
        self.start(claimed)
        await self.finish(60.0, last=False)
        return len(claimed)

    async def finish(self, patience: float, last: bool = True) -> None:
        """Let what is under way end; what does not is taken over by others later."""
        begun = {task for id, task in self._started.items() if not last or id not in self._queued}
        if begun:
            await asyncio.wait(begun, timeout=patience)
        await self.settle()
        if last:
            for task in self._started.values():
                task.cancel()
            self._grants.close()
            await asyncio.to_thread(self._release)

    def _release(self) -> None:
        """Leave nothing claimed behind; where that fails, others see that we are gone."""
        now, unbegun = self._core.clock.now(), list(self._queued)
        for cell, lock in self._alive.items():
            tenants = [number for number, place in self._cells.items() if place == cell]
            with suppress(Unavailable), self._core.database.cell(cell, tenants) as conn:
                outbox.release(conn, self._worker, unbegun, now)
            lock.close()

    # Claiming, in a thread ---------------------------------------------------------------------

    def _claim(self, room: int) -> list[Claimed]:
        claimed: list[Claimed] = []
        tenants = self._tenants()
        tidy = self._due_to_tidy()

        def look(cell: str) -> None:
            own = [tenant for tenant in tenants if tenant.cell == cell]
            if own:
                claimed.extend(self._claim_in(cell, own, room - len(claimed), tidy))

        self._core.database.each_cell(look)
        return claimed

    def _claim_in(self, cell: str, tenants: list[Tenant], room: int, tidy: bool) -> list[Claimed]:
        self._live_in(cell)
        numbers, now = [tenant.number for tenant in tenants], self._core.clock.now()
        self._cells.update(dict.fromkeys(numbers, cell))
        with self._core.database.cell(cell, numbers) as conn:
            if tidy:
                outbox.reclaim(conn, self._worker, now)
                outbox.orphans(conn, numbers, now)
            states = outbox.outlets(conn, numbers)
            if not states:
                return []
            self._outlets.refresh(conn, states, numbers)
            self._states.update({(s.tenant, s.connection): s for s in states})
            caps = self._caps(states, room, now)
            if not caps:
                return []
            claimed = outbox.claim(conn, self._worker, caps, self._rates(caps), now)
            known = {tenant.number: tenant for tenant in tenants}
            withheld = self._ears.withheld(conn, known, claimed, now)
            if not withheld:
                return claimed
            outbox.withhold(conn, self._worker, withheld, now)
        return self._heard(claimed, withheld)

    def _heard(self, claimed: Sequence[Claimed], withheld: dict[UUID, str]) -> list[Claimed]:
        """What may be sent; the rest is counted."""
        for each in claimed:
            if each.id in withheld:
                plugin = self._outlets[each.tenant, each.connection].plugin
                DELIVERIES.labels(plugin, "withheld").inc()
        return [each for each in claimed if each.id not in withheld]

    def _caps(self, states: Sequence[OutletState], room: int, now: datetime) -> dict[Key, int]:
        caps: dict[Key, int] = {}
        for state in states:
            key = state.tenant, state.connection
            if not state.enabled or state.gone or (state.paused_until or now) > now:
                continue
            most = self._outlets[key].concurrency
            if (state.failures or 0) >= verdicts.FAILURES:
                most = 1  # one to see whether it is back
            elif key in self._good:
                most *= AHEAD
            free = min(most - self._flying[key], room)
            if free > 0:
                caps[key] = free
        return caps

    def _rates(self, caps: dict[Key, int]) -> dict[Key, Spending]:
        rates = {}
        for key in caps:
            if (rate := self._outlets[key].rate) is not None:
                interval = timedelta(seconds=1 / rate.per_second)
                rates[key] = Spending(*key, interval, rate.burst)
        return rates

    def _live_in(self, cell: str) -> None:
        """Hold the lock that says so; when it was lost, this worker's claims may be too."""
        if cell in self._alive and not self._alive[cell].held():
            self._alive.pop(cell).close()
        if cell not in self._alive:
            self._alive[cell] = Alive(self._core.database, cell, self._worker)

    def _tenants(self) -> list[Tenant]:
        at, known = self._known
        if monotonic() - at > KNOWN:
            known = [t for t in self._core.database.tenants() if t.state == "active"]
            self._known = monotonic(), known
        return known

    def _due_to_tidy(self) -> bool:
        now = self._core.clock.now().timestamp()
        if now - self._tidied < TIDY:
            return False
        self._tidied = now
        return True

    # Sending, in the loop ----------------------------------------------------------------------

    async def _send(self, claimed: Claimed) -> None:
        key = claimed.tenant, claimed.connection
        outlet = self._outlets[key]
        places = self._places.setdefault(key, asyncio.Semaphore(outlet.concurrency))
        try:
            async with places:
                self._queued.discard(claimed.id)
                tried = await self._try(claimed, outlet, self._core.clock.now())
        finally:
            self._flying[key] -= 1
        if tried.verdict.outcome == "ok":
            self._good.add(key)
        else:
            self._good.discard(key)
        self._done.append(self._settled(claimed, tried))
        self._unwritten.set()

    async def _try(self, claimed: Claimed, outlet: Outlet, now: datetime) -> Tried:
        if outlet.target is None:
            verdict = verdicts.Verdict("transient", outlet.problem)
            return Tried(verdict, None, [], 0.0)
        try:
            notice = self._dressed(claimed, now)
            kept = self._outlets.sifted(claimed.tenant, notice, outlet.name)
        except (Reject, msgspec.MsgspecError) as refusal:
            return Tried(verdicts.Verdict("permanent", str(refusal)), None, [], 0.0)
        if kept is None:
            return Tried(verdicts.Verdict("ok", "a filter keeps it in"), None, [], 0.0)
        call = self._caller(claimed, outlet)
        return await attempt(outlet.target, kept, call, now, outlet.hidden)

    def _caller(self, claimed: Claimed, outlet: Outlet) -> Caller:
        """What makes the calls of a target: with tokens, where it has a grant."""
        if (grant := outlet.grant) is None:
            return self._wire.call
        key, cell = (claimed.tenant, claimed.connection), self._cells[claimed.tenant]
        return partial(self._grants.call, key, cell, grant)

    def _dressed(self, claimed: Claimed, now: datetime) -> Notice:
        """The notice with what only this try knows."""
        notice = _notice(claimed.content)
        link = ""
        if notice.incident and notice.event in ("opened", "changed"):
            ticket = acknowledge.Ticket(
                claimed.tenant, UUID(notice.incident), claimed.connection, claimed.id,
                now + acknowledge.LIFE,
            )  # fmt: skip
            link = acknowledge.link(self._core.settings.url, ticket, self._core.seal.seal)
        return msgspec.structs.replace(
            notice,
            handle=claimed.handle,
            unsure=claimed.unsure,
            sent_at=now,
            acknowledge_url=link,
        )

    def _settled(self, claimed: Claimed, tried: Tried) -> Settled:
        now, verdict = self._core.clock.now(), tried.verdict
        step = verdicts.following(
            verdict, claimed.attempts, claimed.created_at, now, self._chance()
        )
        DELIVERIES.labels(self._outlets[claimed.tenant, claimed.connection].plugin,
                          verdict.outcome).inc()  # fmt: skip
        DELIVERY_SECONDS.observe(tried.seconds)
        return Settled(
            claimed=claimed,
            at=now,
            state=step.state,
            due_at=step.due_at,
            counted=step.counted,
            unsure=(claimed.unsure or verdict.unsure) and step.state == "waiting",
            outcome=verdict.outcome,
            status=verdict.status,
            millis=tried.seconds * 1e3,
            reason=verdict.reason,
            calls=tried.calls,
            handle=tried.handle,
        )

    def _ended(self, id: UUID, task: asyncio.Task[None]) -> None:
        self._started.pop(id, None)
        if not task.cancelled() and (cause := task.exception()) is not None:
            logger(__name__).error("a send broke", reason=str(cause), exc_info=cause)

    # Settling, in a thread ---------------------------------------------------------------------

    def _settle(self, group: Sequence[Settled]) -> None:
        cells: dict[str, list[Settled]] = defaultdict(list)
        for each in group:
            cells[self._cells[each.claimed.tenant]].append(each)
        now = self._core.clock.now()
        for cell, own in cells.items():
            tenants = sorted({each.claimed.tenant for each in own})
            with self._core.database.cell(cell, tenants) as conn:
                outbox.settle(conn, self._worker, own, self._fared(own, now))
                if bad := self._bad(own):
                    settling.tell(conn, self._core.database.tenants(), bad, now)

    def _fared(self, settled: Sequence[Settled], now: datetime) -> list[Fared]:
        """How each target did; nothing to say of those that do well as before."""
        groups: dict[Key, list[Settled]] = defaultdict(list)
        for each in settled:
            groups[each.claimed.tenant, each.claimed.connection].append(each)
        return [f for key, own in groups.items() if (f := self._fares(key, own, now)) is not None]

    def _fares(self, key: Key, own: Sequence[Settled], now: datetime) -> Fared | None:
        state = self._states[key]
        outcomes = [each.outcome for each in own]
        good = [n for n, each in enumerate(outcomes) if each == "ok"]
        failures = outcomes[good[-1] + 1 if good else 0 :].count("transient")
        until = max((e.due_at for e in own if e.outcome == "throttled"), default=None)
        whole = failures + (0 if good else state.failures or 0)
        if failures and (wait := verdicts.pause(whole)) is not None:
            until = max(until or now, now + wait)
        if not failures and until is None and (not good or not state.failures):
            return None
        reason = next((each.reason for each in reversed(own) if each.reason), "")
        return Fared(*key, not good, failures, until, reason)

    def _bad(self, settled: Sequence[Settled]) -> list[settling.Bad]:
        """What people should hear: deliveries that were given up, and endpoints that are gone."""
        found: dict[tuple[Key, bool], settling.Bad] = {}
        for each in settled:
            if each.state != "dead":
                continue
            key = each.claimed.tenant, each.claimed.connection
            gone = each.outcome == "gone"
            known = found.get((key, gone))
            count = 1 + (known.count if known else 0)
            outlet = self._outlets[key]
            found[key, gone] = settling.Bad(
                *key, outlet.name, outlet.revision, each.claimed.id, gone, each.reason,
                each.claimed.attempts + each.counted, count,
            )  # fmt: skip
        return list(found.values())
