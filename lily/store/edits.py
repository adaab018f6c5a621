"""Edits by people: rows and facts in one small transaction each."""

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

import psycopg

from lily.access.model import Action
from lily.assets import edits as rules
from lily.assets import wanted
from lily.assets.change import Context, Known
from lily.assets.edits import Edit, Outcome, Who
from lily.assets.model import Asset, public
from lily.assets.names import as_guid, guid_of
from lily.assets.view import FoldTags
from lily.clock import Clock
from lily.errors import Invalid, NotFound, Stale, Unavailable
from lily.store import assets, definitions, feed, inheritance, priority, rights, views
from lily.store.database import Database, Unit
from lily.tags.effective import own
from lily.types import Json, Tenant

T = TypeVar("T")

WITHDRAW = (
    "DELETE FROM tag_assignment"
    " WHERE tenant = %s AND guid = %s AND kind = %s AND tag = %s AND origin = %s AND by = %s"
)
BURY = (
    "INSERT INTO tombstone (tenant, guid, observed_at, at, by)"
    " SELECT %s, guid, %s, %s, %s FROM unnest(%s::uuid[]) AS guid"
    " ON CONFLICT (tenant, guid) DO UPDATE"
    " SET observed_at = excluded.observed_at, at = excluded.at, by = excluded.by"
)
REMOVE = (
    "DELETE FROM asset_source WHERE tenant = %s AND guid = ANY(%s)",
    "DELETE FROM asset_alias WHERE tenant = %s AND guid = ANY(%s)",
    "DELETE FROM tag_assignment WHERE tenant = %s AND guid = ANY(%s)",
    "DELETE FROM propagated WHERE tenant = %s AND guid = ANY(%s)",
    "DELETE FROM asset WHERE tenant = %s AND guid = ANY(%s)",
)
TRIES = 6

Decide = Callable[[Unit, Known, Context], Outcome]


class Edits:
    """What people may do with the assets of a tenant. `versions` are those of If-Match."""

    def __init__(self, database: Database, clock: Clock, fold_tags: FoldTags) -> None:
        self._database = database
        self._clock = clock
        self._fold_tags = fold_tags

    def edit(
        self, tenant: Tenant, given: str, body: Json, whole: bool, who: Who,
        versions: frozenset[int] | None = None,
    ) -> Asset:  # fmt: skip
        """Replace (`whole`) or merge what people say of an asset."""
        asked = wanted.read(body, whole)

        def decide(unit: Unit, known: Known, context: Context) -> Outcome:
            assert known.asset is not None
            now = views.find(unit, str(known.guid))
            wanted.refuse_fixed(body, public(now, tenant.id))
            placed = wanted.placed(asked, known.asset, lambda name: _guid(unit, name))
            if whole:
                above = inheritance.read(unit, [known.asset])
                placed = inheritance.marked(placed, known.asset, above)
            return rules.edit(known, placed, who, context)

        return self.change(tenant, given, decide, versions)

    def apply(self, tenant: Tenant, given: str, asked: Edit, who: Who) -> Asset:
        """Merge an edit that was read already; not of what is deleted."""

        def decide(_: Unit, known: Known, context: Context) -> Outcome:
            _living(known, given)
            return rules.edit(known, asked, who, context)

        return self.change(tenant, given, decide)

    def delete(
        self, tenant: Tenant, given: str, who: Who,
        versions: frozenset[int] | None = None, living: bool = False,
    ) -> Asset:  # fmt: skip
        """Softly. With `living`, what is deleted already cannot be found."""

        def decide(_: Unit, known: Known, context: Context) -> Outcome:
            if living:
                _living(known, given)
            return rules.delete(known, who, context.now)

        return self.change(tenant, given, decide, versions, "DELETE")

    def restore(self, tenant: Tenant, given: str, who: Who) -> Asset:
        def decide(_: Unit, known: Known, context: Context) -> Outcome:
            return rules.restore(known, who, context.now)

        return self.change(tenant, given, decide, action="DELETE")

    def purge(
        self, tenant: Tenant, given: str, who: Who, versions: frozenset[int] | None = None
    ) -> None:
        """For good: a tombstone and the facts are all that stays."""

        def attempt() -> None:
            with self._database.unit(tenant) as unit:
                known = _locked(unit, given, versions)
                assert known.asset is not None
                remove(unit, [known.asset], who, self._clock)

        rights.require("DELETE", given)
        patiently(attempt)

    def change(
        self, tenant: Tenant, given: str, decide: Decide, versions: frozenset[int] | None = None,
        action: Action = "WRITE",
    ) -> Asset:  # fmt: skip
        """Decide on an asset that is locked, and write what was decided; the asset as it shows."""

        def attempt() -> Asset:
            with self._database.unit(tenant) as unit:
                known = _locked(unit, given, versions)
                self.settle(unit, known, self.context(unit), decide)
                assert known.asset is not None
                asset = views.find(unit, str(known.asset.guid))
                return inheritance.shown(unit, asset, self._database)

        rights.require(action, given)
        return patiently(attempt)

    def settle(self, unit: Unit, known: Known, context: Context, decide: Decide) -> Outcome:
        """One decision and its rows and facts, in the caller's transaction."""
        before = known.asset
        outcome = decide(unit, known, context)
        if outcome.changed or outcome.facts:
            assert before is not None
            assert known.asset is not None
            labels = _labels(before, known.asset, outcome)
            book = definitions.of(self._database).book(unit.tenant.number)
            if (reason := book.refused(*labels)) is not None:
                field, _, message = reason.partition(": ")
                raise Invalid(message, field)
            _write(unit, known, outcome)
            if outcome.facts and any(labels):
                definitions.of(self._database).define(
                    unit.conn, unit.tenant.number, labels, outcome.facts[0].by, context.now
                )
        return outcome

    def context(self, unit: Unit) -> Context:
        tenant = unit.tenant
        return Context(
            self._clock.now(),
            self._fold_tags,
            lambda name: as_guid(name) or guid_of(tenant.id, name),
            priority.ranks(self._database, tenant),
            definitions.book(self._database, unit).groups,
            own,
        )


def patiently(attempt: Callable[[], T]) -> T:
    """Do it again when the database chose us to end a deadlock."""
    for turn in range(TRIES):
        try:
            return attempt()
        except psycopg.errors.DeadlockDetected:
            time.sleep(random.uniform(0, 0.02 * 2**turn))
    raise Unavailable("Too many writers want this asset at the same time.")


def remove(unit: Unit, gone: Sequence[Asset], who: Who, clock: Clock) -> None:
    """Take assets out for good, in this transaction; their rows are locked."""
    now = clock.now()
    number = unit.tenant.number
    guids = [asset.guid for asset in gone]
    for step in REMOVE:
        unit.conn.execute(step, [number, guids])
    unit.conn.execute(BURY, [number, now, now, who.name, guids])
    feed.record(unit, [rules.purged(asset, who, now) for asset in gone])


def _locked(unit: Unit, given: str, versions: frozenset[int] | None) -> Known:
    place = views.locate(unit, given)
    key = (unit.tenant.number, place.guid)
    known = assets.load(unit.conn, {key: (place.lane, place.qualified_name)})[key]
    if known.asset is None:
        raise NotFound("asset", given)  # purged while we waited for its lock
    if versions is not None and known.asset.version not in versions:
        raise Stale(
            f"The asset is at version {known.asset.version}; read it again, then repeat the edit."
        )
    return known


def _write(unit: Unit, known: Known, outcome: Outcome) -> None:
    asset = known.asset
    assert asset is not None
    if outcome.facts:
        asset.feed_position = feed.record(unit, outcome.facts) + len(outcome.facts) - 1
    assets.save_one(unit.conn, asset)
    for gone in outcome.withdrawn:
        unit.conn.execute(
            WITHDRAW, [known.tenant, known.guid, gone.kind, gone.tag, gone.origin, gone.by]
        )
    if outcome.assigned:
        assets.save_assignments(unit.conn, known, outcome.assigned, asset.updated_at)


def _labels(before: Asset, after: Asset, outcome: Outcome) -> tuple[set[str], set[str]]:
    """The tags and terms that somebody uses here for the first time, by an edit."""
    tags = {
        a.tag for a in outcome.assigned if a.kind == "tag" and a.state in ("active", "scheduled")
    }
    terms = {a.tag for a in outcome.assigned if a.kind == "term"}
    return tags, terms.union(after.business_terms).difference(before.business_terms)


def _living(known: Known, given: str) -> None:
    if known.asset is None or known.asset.deleted_by:
        raise NotFound("asset", given)


def _guid(unit: Unit, name: str) -> str:
    """What a person calls a parent: any of its names, even before it was seen."""
    found = views.seek(unit, name)
    guid: UUID = found.guid if found else as_guid(name) or guid_of(unit.tenant.id, name)
    return str(guid)
