"""Changes to logins, and the facts about them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from lily.clock import Clock
from lily.events.facts import Fact, FactKind
from lily.identity.actor import Actor
from lily.store import feed
from lily.store.database import HOME, Database, Unit
from lily.types import Tenant


class Desk:
    """A transaction over a tenant's logins that collects what it did."""

    def __init__(self, unit: Unit, actor: Actor, clock: Clock) -> None:
        self.unit = unit
        self.actor = actor
        self.facts: list[Fact] = []
        self._clock = clock

    @property
    def conn(self) -> Connection:
        return self.unit.conn

    @property
    def tenant(self) -> Tenant:
        return self.unit.tenant

    def note(
        self,
        kind: FactKind,
        after: dict[str, Any] | None = None,
        before: dict[str, Any] | None = None,
    ) -> None:
        """Remember a fact; it is written when the transaction ends well."""
        self.facts.append(
            Fact(
                kind=kind,
                at=self._clock.now(),
                by=self.actor.name,
                cause=self.actor.cause,
                traceparent=self.actor.traceparent,
                before=before,
                after=after,
            )
        )


@contextmanager
def desk(database: Database, clock: Clock, tenant: Tenant, actor: Actor) -> Iterator[Desk]:
    """Rows in the home database, facts in the tenant's cell.

    Where the cell is the home database that is one transaction. A dedicated cell commits the
    facts just before the rows: a crash between tells of a change that did not happen, rather
    than hiding one that did.
    """
    with database.home_unit(tenant) as unit:
        opened = Desk(unit, actor, clock)
        yield opened
        write_facts(database, opened)


def write_facts(database: Database, opened: Desk) -> None:
    if not opened.facts:
        return
    if opened.tenant.cell == HOME:
        feed.record(opened.unit, opened.facts)
        return
    with database.unit(opened.tenant) as cell:
        feed.record(cell, opened.facts)


def record(
    database: Database, clock: Clock, tenant: Tenant, actor: Actor, kind: FactKind, **after: Any
) -> None:
    """Write one fact that no row goes with."""
    with database.unit(tenant) as unit:
        alone = Desk(unit, actor, clock)
        alone.note(kind, after or None)
        feed.record(unit, alone.facts)
