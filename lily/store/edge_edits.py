"""A person deletes edges: rows and facts in one small transaction."""

from collections.abc import Sequence
from uuid import UUID

from lily.assets.edits import Who
from lily.clock import Clock, micros
from lily.errors import NotFound
from lily.lineage.edges import PERSON, Edge, Known, Word, take
from lily.lineage.labels import turned
from lily.store import edges, feed, rights, views
from lily.store.database import Database, Unit
from lily.store.edits import patiently
from lily.types import Tenant

# A table edge goes with the column edges that would imply it.
BY_ID = "SELECT id FROM edge WHERE tenant = %(tenant)s AND (id = %(id)s OR implies = %(id)s)"
BETWEEN = """
SELECT id FROM edge
 WHERE tenant = %(tenant)s AND (%(type)s::text IS NULL OR type = %(type)s)
   AND ((upstream = %(one)s AND downstream = %(other)s)
     OR (upstream = %(other)s AND downstream = %(one)s)
     OR (level = 'column' AND up_top = %(one)s AND down_top = %(other)s)
     OR (level = 'column' AND up_top = %(other)s AND down_top = %(one)s))
"""
NOW = "SELECT clock_timestamp()"
LAST = 2**62  # behind every offset of the log


class EdgeEdits:
    """What people may do with the edges of a tenant beside stating them."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def delete(self, tenant: Tenant, id: UUID, who: Who) -> list[Edge]:
        """By its id; it stays deleted, whatever sources say, until a person states it again."""

        def attempt() -> list[Edge]:
            with self._database.unit(tenant) as unit:
                rows = unit.conn.execute(BY_ID, {"tenant": tenant.number, "id": id}).fetchall()
                return self._delete(unit, [row[0] for row in rows], str(id), who)

        return patiently(attempt)

    def delete_between(
        self, tenant: Tenant, start: str, end: str, label: str | None, who: Who
    ) -> list[Edge]:
        """All edges from one asset to the other, or those of a label."""

        def attempt() -> list[Edge]:
            with self._database.unit(tenant) as unit:
                one, other = views.find(unit, start).guid, views.find(unit, end).guid
                given = {"tenant": tenant.number, "one": one, "other": other, "type": label}
                rows = unit.conn.execute(BETWEEN, given).fetchall()
                ids = [row[0] for row in rows]
                return self._delete(unit, ids, f"{start} to {end}", who, (one, other))

        return patiently(attempt)

    def _delete(
        self,
        unit: Unit,
        ids: Sequence[UUID],
        given: str,
        who: Who,
        ends: tuple[UUID, UUID] | None = None,
    ) -> list[Edge]:
        number = unit.tenant.number
        known = edges.load(unit.conn, {(number, id): None for id in ids}) if ids else {}
        chosen = [each for each in known.values() if ends is None or _runs(each, *ends)]
        if ends is None and not _visible(unit, chosen):
            raise NotFound("edge", given)
        rights.require("WRITE", *sorted({str(each.ends.downstream) for each in chosen}))
        if all(each.edge is None or each.edge.deleted_by == PERSON for each in chosen):
            raise NotFound("edge", given)
        return self._veto(unit, chosen, who)

    def _veto(self, unit: Unit, chosen: Sequence[Known], who: Who) -> list[Edge]:
        row = unit.conn.execute(NOW).fetchone()
        assert row is not None
        when = (micros(row[0]), LAST)
        word = Word(PERSON, who.name, who.cause, when, None, who.traceparent)
        told = {each.ends.id: take(each, word, self._clock.now()) for each in chosen}
        facts = [fact for each in told.values() for fact in each]
        if facts:
            position = feed.record(unit, facts)
            for at, fact in enumerate(facts, start=position):
                assert fact.after is not None
                edge = next(e.edge for e in chosen if e.ends.id == fact.after["edge_id"])
                assert edge is not None
                edge.feed_position = at
        for each in chosen:
            edges.save_one(unit.conn, each)
        return [each.edge for each in chosen if each.edge is not None]


def _runs(known: Known, start: UUID, end: UUID) -> bool:
    """Whether it goes from the one to the other, as its label reads."""
    ends = known.ends
    return (start, end) in (
        turned(ends.type, ends.upstream, ends.downstream),
        turned(ends.type, ends.up_top, ends.down_top),
    )


def _visible(unit: Unit, chosen: Sequence[Known]) -> bool:
    """An edge is there for those who see both its ends."""
    guids = {guid for each in chosen for guid in (each.ends.upstream, each.ends.downstream)}
    rows = unit.conn.execute(
        "SELECT count(*) FROM asset WHERE tenant = %s AND guid = ANY(%s)",
        [unit.tenant.number, list(guids)],
    ).fetchone()
    return bool(guids) and rows is not None and rows[0] == len(guids)
