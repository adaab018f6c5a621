"""A tenant with connections and subscriptions, and an engine that a test turns by hand."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import msgspec

from lily import plugins
from lily.clock import FrozenClock, SystemClock
from lily.events.facts import Fact
from lily.identity.actor import Actor
from lily.notify import egress
from lily.notify.match import Match
from lily.store import connections, deliveries, feed, subscriptions
from lily.store.connections import Connection
from lily.store.deliveries import Attempt, Delivery
from lily.store.subscriptions import Subscription
from lily.types import Tenant
from lily.wiring import Core
from lily.workers import match
from lily.workers.deliver import Engine
from lily.workers.wire import Wire


@contextmanager
def staged(core: Core, system: Core, tenant: Tenant) -> "Iterator[Stage]":
    """A stage; what is left to be sent at its end is nobody else's to send."""
    try:
        yield Stage(core, system, tenant)
    finally:
        with core.database.home() as conn:
            conn.execute("UPDATE tenant SET state = 'suspended' WHERE id = %s", [tenant.id])


TESTER = Actor("tester", "test")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LOOPBACK = ["127.0.0.0/8"]
# Whose subscriptions these are.
ROOT = """
INSERT INTO person (tenant, id, username, name, password, role)
VALUES (%s, %s, 'root', 'root', '!', 'admin') ON CONFLICT DO NOTHING
"""
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Stage:
    """One tenant, a clock that the test moves, and both worker loops."""

    def __init__(self, core: Core, system: Core, tenant: Tenant, at: datetime = NOON) -> None:
        self.clock = FrozenClock(at)
        self.core = replace(core, clock=self.clock)
        self.system = replace(system, clock=self.clock)
        self.tenant = tenant
        self.allowed = LOOPBACK
        self.chance: Callable[[], float] = lambda: 0.0
        with core.database.home_unit(tenant) as unit:
            unit.conn.execute(ROOT, [tenant.number, uuid4()])

    def connect(self, plugin: str, use: str = "target", name: str = "", **options: Any) -> UUID:
        id, now = uuid4(), self.clock.now()
        kind: Any = use
        public, secrets = plugins.split(plugins.check(kind, plugin, options))
        about = connections.about(self.tenant.number, id)
        sealed = self.core.seal.seal(secrets, about) if secrets else None
        made = Connection(
            id, name or f"{plugin} {id}", plugin, [use], public, sealed, None, 0, True, 1, now, now
        )
        with self.core.database.unit(self.tenant) as unit:
            connections.create(unit, made, TESTER)
        return id

    def webhook(self, url: str, **options: Any) -> UUID:
        return self.connect("webhook", url=f"{url}/hook", secret=SECRET, **options)

    def subscribe(
        self,
        connection: UUID | None,
        facts: list[str] | None = None,
        template: dict[str, str] | None = None,
        owner_name: str = "root",
        **more: Any,
    ) -> UUID:
        now = self.clock.now()
        wanted = Match(facts=facts or ["AssetChanged"], **more)
        made = Subscription(
            uuid4(), f"s {uuid4()}", wanted, connection, template, owner_name, True, None, 0, 1,
            now, now,
        )  # fmt: skip
        with self.core.database.unit(self.tenant) as unit:
            return subscriptions.create(unit, made, TESTER).id

    def happen(self, kind: str = "AssetChanged", count: int = 1, **more: Any) -> None:
        facts = [self.fact(kind, **more) for _ in range(count)]
        with self.core.database.unit(self.tenant) as unit:
            feed.record(unit, facts)

    def fact(self, kind: str = "AssetChanged", **more: Any) -> Fact:
        given = {"by": "ann", "cause": str(uuid4()), "after": {"description": "new"}, **more}
        if kind.startswith("Asset"):
            given.setdefault("guid", uuid4())
            given.setdefault("qualified_name", f"shop/{given['guid']}")
        return msgspec.convert({"kind": kind, "at": self.clock.now(), **given}, Fact, strict=False)

    def match(self) -> int:
        return match.work(self.system, Event())

    def deliver(self, rounds: int = 1, engine: Engine | None = None) -> int:
        """So many rounds of one process."""

        async def play() -> int:
            wire = Wire(egress.networks(self.allowed), patience=2.0)
            own = engine or Engine(self.system, wire, self.chance)
            try:
                return sum([await own.round() for _ in range(rounds)])
            finally:
                await own.finish(10)
                await wire.close()

        return asyncio.run(play())

    def tell(self) -> None:
        """Until nothing is due any more."""
        self.match()
        while self.deliver():
            pass

    def after(self, **time: float) -> None:
        self.clock.advance(timedelta(**time))

    def catch_up(self) -> None:
        """To a moment after everything that the API did by its own clock."""
        self.clock.at = SystemClock().now() + timedelta(seconds=1)

    def deliveries(self, **wanted: Any) -> list[Delivery]:
        """Oldest first."""
        with self.core.database.unit(self.tenant) as unit:
            return deliveries.page(unit, deliveries.Wanted(**wanted), None, 1000)[::-1]

    def attempts(self, id: UUID) -> list[Attempt]:
        with self.core.database.unit(self.tenant) as unit:
            return deliveries.attempts(unit, id)

    def facts(self, *kinds: str) -> list[Fact]:
        with self.core.database.unit(self.tenant) as unit:
            links = feed.after(unit, 0, 1000, kinds=kinds)
        return [msgspec.json.decode(link.payload or "", type=Fact) for link in links]
