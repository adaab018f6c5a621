"""What lies in a container follows it: deleted with it, back with it.

Each fact of a container moves its direct children only. Their own facts are read in turn, so a
whole tree follows level by level, in chunks, and goes on where it was when a process died. What
is decided comes from the container as it is now, never from an old fact alone.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from lily.assets import edits as rules
from lily.assets.change import Known
from lily.assets.edits import Outcome, Who
from lily.assets.model import Asset
from lily.clock import Clock
from lily.events.chain import Link
from lily.store import assets, consumers, feed
from lily.store.database import Database, Unit
from lily.store.edits import patiently, remove
from lily.store.history import told
from lily.types import Tenant

NAME = "cascade"
CHUNK = 1_000
PAGE = 1_000
KINDS = ("AssetDeleted", "AssetRestored", "AssetPurged")
# Matters only for a container that was purged and came back.
BACK = "AssetCreated"

ANY_BURIED = "SELECT EXISTS (SELECT FROM tombstone WHERE tenant = %s)"
BURIED = "SELECT guid FROM tombstone WHERE tenant = %s AND guid = ANY(%s)"
CONTAINERS = """
SELECT container FROM unnest(%s::uuid[]) AS container
 WHERE EXISTS (SELECT FROM asset WHERE tenant = %s AND parent = container AND lane = 'core')
"""
STATE = "SELECT deleted_by IS NULL FROM asset WHERE tenant = %s AND guid = %s FOR SHARE"
LIVING = (
    f"{assets.SELECT} WHERE tenant = %s AND parent = %s AND lane = 'core' AND deleted_by IS NULL"
    " AND guid <> %s ORDER BY guid LIMIT %s FOR UPDATE"
)
MARKED = (
    f"{assets.SELECT} WHERE tenant = %s AND parent = %s AND lane = 'core' AND deleted_by = %s"
    " ORDER BY guid LIMIT %s FOR UPDATE"
)
FIELDS = (
    f"{assets.SELECT} WHERE tenant = %s AND parent = %s AND lane = 'fields'"
    " ORDER BY guid LIMIT %s FOR UPDATE"
)


class Cascade:
    """Follows the feed of each tenant in a cell."""

    def __init__(self, database: Database, clock: Clock, chunk: int = CHUNK) -> None:
        self._database = database
        self._clock = clock
        self._chunk = chunk

    def behind(self, cell: str, tenants: Sequence[Tenant]) -> list[Tenant]:
        """The tenants whose feed has grown since we last looked."""
        return consumers.behind(self._database, NAME, cell, tenants)

    def step(self, tenant: Tenant) -> bool:
        """One chunk of work; false when there is none, or when another process does it."""
        return patiently(lambda: self._step(tenant))

    def _step(self, tenant: Tenant) -> bool:
        with self._database.cell(tenant.cell, [tenant.number]) as conn:
            unit = Unit(conn, tenant)
            position = consumers.claim(conn, NAME, tenant)
            if position is None:
                return False
            head = feed.head(unit)
            links = feed.after(unit, position, PAGE, kinds=_kinds(unit))
            done = max(head, position) if len(links) < PAGE else links[-1].position
            moved = 0
            for link in _mattering(unit, links):
                count = self._follow(unit, link)
                moved += count
                if count >= self._chunk:
                    done = link.position - 1  # there may be more of it: the next step goes on here
                    break
                if moved >= self._chunk:
                    done = link.position
                    break
            if done > position:
                consumers.move(conn, NAME, tenant, done)
            return done < feed.head(unit)  # our own facts lead on to the next level

    def _follow(self, unit: Unit, link: Link) -> int:
        """Move a chunk of a container's children; how many there were."""
        assert link.guid is not None
        fact = told(link)
        who = Who("system", fact.cause, fact.traceparent)
        row = unit.conn.execute(STATE, [unit.tenant.number, link.guid]).fetchone()
        if row is None:
            marked = self._mark(unit, link.guid, who)
            return marked + self._purge_fields(unit, link.guid, who)
        return self._unmark(unit, link.guid, who) if row[0] else self._mark(unit, link.guid, who)

    def _mark(self, unit: Unit, guid: UUID, who: Who) -> int:
        number = unit.tenant.number
        rows = unit.conn.execute(LIVING, [number, guid, guid, self._chunk]).fetchall()
        mark, now = f"parent:{guid}", self._clock.now()
        found = [bare(Asset(*row)) for row in rows]
        return save(unit, found, lambda known: rules.mark(known, mark, who, now))

    def _unmark(self, unit: Unit, guid: UUID, who: Who) -> int:
        values = [unit.tenant.number, guid, f"parent:{guid}", self._chunk]
        rows = unit.conn.execute(MARKED, values).fetchall()
        now = self._clock.now()
        wanted = {
            (asset.tenant, asset.guid): (asset.lane, asset.qualified_name)
            for asset in (Asset(*row) for row in rows)
        }
        found = assets.load(unit.conn, wanted)
        return save(unit, list(found.values()), lambda known: rules.unmark(known, who, now))

    def _purge_fields(self, unit: Unit, guid: UUID, who: Who) -> int:
        """A purged table's columns go with it."""
        values = [unit.tenant.number, guid, self._chunk]
        rows = unit.conn.execute(FIELDS, values).fetchall()
        if rows:
            remove(unit, [Asset(*row) for row in rows], who, self._clock)
        return len(rows)


def bare(asset: Asset) -> Known:
    """An asset without what its sources say, for decisions that do not ask them."""
    return Known(asset.tenant, asset.guid, asset.qualified_name, asset)


def save(unit: Unit, found: Sequence[Known], decide: Callable[[Known], Outcome]) -> int:
    """Decide on rows that are locked, and write them with their facts; how many changed."""
    changed: list[Asset] = []
    facts = []
    for known in found:
        outcome = decide(known)
        if outcome.changed and known.asset is not None:
            changed.append(known.asset)
            facts += outcome.facts
    if facts:
        first = feed.record(unit, facts)
        places = {fact.guid: first + index for index, fact in enumerate(facts)}
        for index, asset in enumerate(changed):
            place = places.get(asset.guid, asset.feed_position)
            changed[index] = msgspec.structs.replace(asset, feed_position=place)
    if changed:
        assets.save(unit.conn, changed)
    return len(changed)


def _kinds(unit: Unit) -> tuple[str, ...]:
    """Where nothing was ever purged, the many facts of new assets need not be read."""
    row = unit.conn.execute(ANY_BURIED, [unit.tenant.number]).fetchone()
    return (*KINDS, BACK) if row and row[0] else KINDS


def _mattering(unit: Unit, links: Sequence[Link]) -> list[Link]:
    """The facts that something may follow from: most assets contain nothing."""
    number = unit.tenant.number
    guids = [link.guid for link in links]
    if not guids:
        return []
    created = [link.guid for link in links if link.kind == BACK]
    buried = {row[0] for row in unit.conn.execute(BURIED, [number, created]).fetchall()}
    full = {row[0] for row in unit.conn.execute(CONTAINERS, [guids, number]).fetchall()}
    return [
        link for link in links
        if link.kind == "AssetPurged"
        or (link.guid in full and (link.kind != BACK or link.guid in buried))
    ]  # fmt: skip
