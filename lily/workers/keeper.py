"""Brings the tables of one engine to what is wanted, and keeps them there."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import msgspec

from lily import plugins
from lily.access.compile import Compiled, Nothing
from lily.access.holding import Held
from lily.assets.hooks import reason_of
from lily.errors import Reject, Retry
from lily.sdk.enforcers import Enforcer, Finding, Report, Wanted
from lily.store import connections, consumers, enforcers, feed, protections
from lily.store.connections import Connection
from lily.store.database import Unit
from lily.store.holds import Holding
from lily.store.protections import Protection, StoredLedger, Table
from lily.telemetry import ENFORCED, logger
from lily.types import Tenant
from lily.wiring import Core

AGAIN = timedelta(seconds=30)  # how often a verified table is looked at
SOON = timedelta(seconds=1)  # while lineage is still on its way
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
SWEEP = timedelta(minutes=5)

ABOUT_POLICIES = ("PolicyCreated", "PolicyChanged", "PolicyDeleted", "CircleChanged")


class Keeper:
    """One engine of one tenant. Every step may be killed, and the next one goes on."""

    def __init__(self, core: Core, tenant: Tenant, connection: Connection) -> None:
        self._core = core
        self._tenant = tenant
        self._connection = connection
        self._consumer = f"enforce:{connection.id}"
        self._mode = str(connection.options.get("mode", "observe"))
        secrets = connections.opened(core.seal.open, tenant.number, connection)
        self._hidden = plugins.hidden(secrets)
        options = plugins.join(connection.options, secrets)
        self._engine: Enforcer = plugins.build("enforcer", connection.plugin, options)
        plugins.reach(self._engine, core.settings.egress_allow)
        self._holding = Holding(connection)
        self._swept = core.clock.now()
        with self._cell() as conn:
            self.position = enforcers.position(conn, tenant, self._consumer)

    def close(self) -> None:
        closing = getattr(self._engine, "close", None)
        if closing is not None:
            closing()

    def step(self) -> int:
        """What the feed says since, and what is due; how many tables were looked at."""
        now = self._core.clock.now()
        touched, end = self._read()
        with self._cell() as conn:
            due = protections.due(conn, self._tenant.number, self._connection.id, now)
        self._holding.waiting.clear()
        done = self.reconcile([*touched, *due])
        if end > self.position:
            with self._cell() as conn:
                consumers.move(conn, self._consumer, self._tenant, end)
            self.position = end
        if now - self._swept > SWEEP:
            self.sweep()
        return done

    def sweep(self) -> int:
        """Every table that is protected, should be, or once was."""
        self._swept = self._core.clock.now()
        return self.reconcile(self._all())

    def reconcile(self, tables: Iterable[Table]) -> int:
        mine = {t.guid: t for t in tables if self._engine.owns(t.qualified_name)}
        for table in mine.values():
            self.settle(table)
        return len(mine)

    def settle(self, table: Table) -> None:
        """Bring one table to what is wanted now, and write down what the engine says."""
        ledger = StoredLedger(
            self._core.database, self._tenant, self._connection.id, table.qualified_name,
            self._core.clock.now(),
        )  # fmt: skip
        with self._cell() as conn:
            state = self._wanted(conn, table)
            kept = protections.get(conn, self._tenant.number, self._connection.id, table.guid)
            ledger.load(conn)
        protects = isinstance(state, Compiled) and state.protects
        concerned = protects or kept is not None or self._holds(table)
        if not concerned and not ledger.entries():
            return
        if kept is None:
            kept = self._pending(table)
        before = msgspec.structs.replace(kept)
        kept.columns = state.told() if isinstance(state, Compiled) else {}
        try:
            report = self._carry_out(table, ledger)
        except (Retry, Reject) as cause:
            self._failed(before, kept, reason_of(cause, self._hidden))
            return
        except Exception as cause:  # noqa: BLE001  whatever a plug-in does, others go on
            self._failed(before, kept, f"the plug-in failed: {reason_of(cause, self._hidden)}")
            return
        self._told(table, before, kept, report)

    @property
    def hurries(self) -> bool:
        """Whether tables are kept back that should be looked at again very soon."""
        return bool(self._holding.waiting)

    def _carry_out(self, table: Table, ledger: StoredLedger) -> Report:
        def wanted() -> Wanted:
            with self._cell() as conn:
                ledger.load(conn)
                state = self._wanted(conn, table)
                return enforcers.spelled(Unit(conn, self._tenant), self._connection, table, state)

        if self._mode == "observe":
            return self._engine.observe(table.qualified_name, wanted, ledger)
        return self._engine.enforce(table.qualified_name, wanted, ledger)

    def _wanted(self, conn: Any, table: Table) -> Compiled | Held | Nothing:
        if self._mode == "release":
            return Nothing()
        unit, now = Unit(conn, self._tenant), self._core.clock.now()
        found = protections.wanted(unit, table.guid, self._connection.plugin, now)
        if found is None:
            return Nothing()
        if self._holds(table) and self._holding.is_held(unit, table.guid):
            return self._holding.held(unit, table.guid, found)
        return found

    def _holds(self, table: Table) -> bool:
        asks = getattr(self._engine, "holds", None)
        return self._mode == "enforce" and asks is not None and bool(asks(table.qualified_name))

    def _told(self, table: Table, before: Protection, kept: Protection, report: Report) -> None:
        now = self._core.clock.now()
        protections.reported(kept, report)
        kept.attempts, kept.next_at = 0, now + AGAIN
        if failed := [f for f in report.findings if f.state == "failed"]:
            kept.applied_at = now
            self._failed(before, kept, _sentence(failed))
            return
        with self._cell() as conn:
            if getattr(self._engine, "plans_only", False):
                kept.state, kept.reason = "planned", "export the plan and carry it out"
                if report.plan:
                    self._save(conn, kept, before)
                else:
                    self._released(conn, kept)
            elif self._mode == "observe":
                kept.state, kept.reason = "pending", "only observed; switch the mode to enforce"
                if report.drifted:
                    kept.state, kept.reason = "drifted", "somebody changed it in the engine"
                self._save(conn, kept, before)
            else:
                self._applied(conn, table, before, kept, report)
        self._noted(kept, before)

    def _applied(
        self, conn: Any, table: Table, before: Protection, kept: Protection, report: Report
    ) -> None:
        """Verified only where what was applied is what is wanted now."""
        now = kept.applied_at = self._core.clock.now()
        current = self._wanted(conn, table)
        if current.fingerprint != report.fingerprint:
            kept.state, kept.reason = "applied", "what is wanted has changed meanwhile"
            kept.next_at = now
        elif isinstance(current, Held):
            kept.state, kept.reason = "pending", "kept back until it was verified once"
            kept.next_at = now
        elif not (isinstance(current, Compiled) and current.protects) and not self._holds(table):
            self._released(conn, kept)
            return
        else:
            kept.state, kept.reason, kept.verified_at = "verified", "", now
            if not protections.is_settled(Unit(conn, self._tenant)):
                kept.next_at = now + SOON
        self._save(conn, kept, before, drifted=report.drifted and kept.state == "verified")

    def _failed(self, before: Protection, kept: Protection, reason: str) -> None:
        kept.attempts += 1
        pause = min(FIRST_PAUSE * 2 ** (kept.attempts - 1), LONGEST_PAUSE)
        kept.state, kept.reason = "failed", reason
        kept.next_at = self._core.clock.now() + timedelta(seconds=pause)
        with self._cell() as conn:
            self._save(conn, kept, before)
        self._noted(kept, before)

    def _released(self, conn: Any, kept: Protection) -> None:
        unit, now = Unit(conn, self._tenant), self._core.clock.now()
        protections.forget(conn, self._tenant.number, self._connection.id, kept.guid)
        kept.state = "released"
        if kept.verified_at is not None:
            name = self._connection.name
            protections.tell(unit, "ProtectionReleased", kept, name, self._consumer, now)

    def _save(self, conn: Any, kept: Protection, before: Protection, drifted: bool = False) -> None:
        """With a fact when the state, or what is protected, became another."""
        now, unit, name = self._core.clock.now(), Unit(conn, self._tenant), self._connection.name
        changed = _changed(kept, before)
        if changed:
            kept.asked_at = before.asked_at if before.state == "pending" else now
        protections.save(conn, self._tenant.number, kept)
        if drifted:
            protections.tell(unit, "ProtectionDrifted", kept, name, self._consumer, now)
        elif changed and kept.state == "verified":
            protections.tell(unit, "ProtectionVerified", kept, name, self._consumer, now)
        elif changed and kept.state == "failed":
            protections.tell(unit, "ProtectionFailed", kept, name, self._consumer, now)

    def _noted(self, kept: Protection, before: Protection) -> None:
        """Told to whoever runs Lily, once it is in the store."""
        if not _changed(kept, before):
            return
        if kept.state == "verified":
            ENFORCED.observe((self._core.clock.now() - before.asked_at).total_seconds())
        logger(__name__).info(
            "protection", object=kept.object, state=kept.state, reason=kept.reason,
            connection=self._connection.name,
        )  # fmt: skip

    def _read(self) -> tuple[list[Table], int]:
        """The tables that the next facts may touch, and how far that goes."""
        with self._cell() as conn:
            unit = Unit(conn, self._tenant)
            head = feed.head(unit)
            facts = enforcers.facts(conn, self._tenant.number, self.position)
            end = facts[-1].position if len(facts) == enforcers.PAGE else max(head, self.position)
            guids = {fact.guid for fact in facts if fact.guid is not None}
            touched = enforcers.tables(unit, guids) if guids else []
            own = {fact.guid for fact in facts if fact.guid is not None and not fact.carried}
            if own and not protections.is_settled(unit):
                # What lies behind counts like its sources until the news has travelled there.
                behind = enforcers.behind(unit, own) - guids
                touched = [*touched, *(enforcers.tables(unit, behind) if behind else [])]
        if any(fact.kind in ABOUT_POLICIES for fact in facts):
            touched = [*touched, *self._all()]
        return touched, end

    def _all(self) -> list[Table]:
        with self._cell() as conn:
            return enforcers.concerned(Unit(conn, self._tenant), self._connection.id)

    def _pending(self, table: Table) -> Protection:
        now = self._core.clock.now()
        return Protection(
            self._connection.id, table.guid, table.qualified_name, "pending", "", {}, {}, [], [],
            "", 0, now, None, None, now,
        )  # fmt: skip

    def _cell(self) -> AbstractContextManager[Any]:
        return self._core.database.cell(self._tenant.cell, [self._tenant.number])


def _changed(kept: Protection, before: Protection) -> bool:
    return (kept.state, kept.columns) != (before.state, before.columns)


def _sentence(findings: list[Finding]) -> str:
    return "; ".join(f"{each.reason} ({each.column})" for each in findings[:5])
