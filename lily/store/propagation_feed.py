"""The facts that propagation has to look at, of all cells at once: a long poll by position."""

import select
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.lineage.stirred import KINDS, MANY_EDGES, Told
from lily.store.copying import listed
from lily.store.database import Database, bind_many
from lily.store.propagation import ALL_WAITS, CONSUMER, connect, standing, travels

POLL = 0.25  # a notification is a hint; this is the promise
AWAY = 1.0
NEW_TENANTS = 5.0
PAGE = 2_000  # facts a batch and tenant
FLOOD = 500  # positions at once: an estate is being loaded
WINDOW = 50_000  # positions that are looked through at once
HELD = 0.8  # seconds that new edges of a flood wait for more; less than CALM of tasks
FAR = 200_000  # positions that are skipped before the store is told
LATE = 30.0  # seconds after which it is told anyway

HEADS = "SELECT tenant, position FROM feed_head WHERE tenant = ANY(%s)"
PLACES = "SELECT tenant, position FROM consumer WHERE name = %s AND tenant = ANY(%s)"
# What can stir something. First creations matter with labels, or where rules carry other fields,
# or where edges have waited for them; what propagation itself has told is left out. `strpos` leaps
# through a payload, LIKE looks at each letter.
FACTS = """
WITH rule AS (SELECT EXISTS (
  SELECT FROM propagation_rule r WHERE r.tenant = %(tenant)s AND r.enabled) AS any)
SELECT f.position, f.kind, f.guid, f.cause,
       f.payload IS NOT NULL AND CASE f.kind
         WHEN 'AssetCreated' THEN rule.any OR strpos(f.payload, '"tags":[') > 0
           OR strpos(f.payload, '"business_terms":[') > 0
         WHEN 'FieldsCreated' THEN false
         WHEN 'AssetChanged' THEN rule.any OR strpos(f.payload, '_terms":') > 0
         WHEN 'TagsChanged' THEN strpos(f.payload, '"propagated":{') = 0
         ELSE true END,
       CASE WHEN NOT f.kind = ANY(%(nodes)s) THEN f.payload END
  FROM fact f, rule
 WHERE f.tenant = %(tenant)s AND f.position > %(after)s AND f.position <= %(upto)s
   AND f.kind = ANY(%(kinds)s)
   AND NOT (%(flood)s AND f.kind = 'EdgeCreated' AND f.payload NOT LIKE '%%"level":"column"%%'
     AND f.payload NOT LIKE '%%"transformation":%%' AND f.payload NOT LIKE '%%"masking":%%')
 ORDER BY f.position LIMIT %(limit)s
"""
# A task that looks at everything waits, and sees plain edges without being told of each.
FLOODED = f"""
{ALL_WAITS} AND NOT EXISTS (SELECT FROM block b WHERE b.tenant = %s AND b.origin = 'rule')
"""
LAST_EDGE = """
SELECT f.position, f.guid, f.cause FROM fact f
 WHERE f.tenant = %s AND f.position > %s AND f.position <= %s AND f.kind = 'EdgeCreated'
 ORDER BY f.position DESC LIMIT 1
"""
# What no edge touches can neither give nor get anything, whatever is said of it.
TOUCHED = """
SELECT upstream FROM edge WHERE tenant = %(tenant)s AND upstream = ANY(%(guids)s::uuid[])
UNION SELECT downstream FROM edge
 WHERE tenant = %(tenant)s AND downstream = ANY(%(guids)s::uuid[])
UNION SELECT up_top FROM edge
 WHERE tenant = %(tenant)s AND level = 'column' AND up_top = ANY(%(guids)s::uuid[])
UNION SELECT down_top FROM edge
 WHERE tenant = %(tenant)s AND level = 'column' AND down_top = ANY(%(guids)s::uuid[])
UNION SELECT guid FROM propagated WHERE tenant = %(tenant)s AND guid = ANY(%(guids)s::uuid[])
"""
# Of most nodes nobody has to know more than that.
PAYLOADS = "SELECT position, payload FROM fact WHERE tenant = %s AND position = ANY(%s)"
PURGED = "SELECT 1 FROM tombstone WHERE tenant = %s LIMIT 1"  # else no edge can have waited
BORN = ("AssetCreated", "FieldsCreated")
OF_NODES = (*BORN, "AssetChanged", "TagsChanged")

Places = dict[str, dict[int, int]]  # cell, tenant, position


class _Payload(msgspec.Struct):
    by: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    traceparent: str = ""


class Read(msgspec.Struct, frozen=True):
    """What stirs something among the facts of a tenant behind `start`, up to `end`."""

    cell: str
    tenant: int
    start: int
    end: int
    facts: list[Told]


_decode = msgspec.json.Decoder(_Payload).decode


def read(
    conn: psycopg.Connection, tenant: int, after: int, upto: int, limit: int = PAGE
) -> tuple[list[Told], int]:
    """The next facts that may stir something, and how far that goes.

    Of a flood of plain edges one word remains, while a task for everything waits.
    """
    flood = upto - after >= FLOOD and bool(conn.execute(FLOODED, [tenant, tenant]).fetchone())
    values = {
        "tenant": tenant, "after": after, "upto": upto, "kinds": list(KINDS), "limit": limit,
        "flood": flood, "nodes": list(OF_NODES),
    }  # fmt: skip
    rows = conn.execute(FACTS, values).fetchall()
    waited = any(row[1] in BORN and not row[4] for row in rows) and bool(
        conn.execute(PURGED, [tenant], prepare=True).fetchone()
    )
    left = [row for row in rows if row[4] or (waited and row[1] in BORN)]
    guids = {row[2] for row in left if row[1] in OF_NODES}
    touched = (
        {guid for (guid,) in conn.execute(TOUCHED, {"tenant": tenant, "guids": listed(guids)})}
        if guids
        else set()
    )
    left = [row for row in left if row[1] not in OF_NODES or row[2] in touched]
    wanted = [row[0] for row in left if row[4] and row[5] is None]
    more: dict[int, str] = {}
    if wanted:
        more.update(conn.execute(PAYLOADS, [tenant, wanted]).fetchall())
    facts = [
        _told(at, kind, guid, cause, payload if payload is not None else more.get(at))
        for at, kind, guid, cause, _, payload in left
    ]
    end = rows[-1][0] if len(rows) == limit else upto
    if flood and (last := conn.execute(LAST_EDGE, [tenant, after, end]).fetchone()):
        at, guid, cause = last
        facts.append(Told(at, MANY_EDGES, guid, cause))
    return facts, end


def rests_at(conn: psycopg.Connection, tenant: int) -> int | None:
    """Where the feed stands, if nothing in it still has to be handled and no task waits."""
    row = conn.execute(HEADS, [[tenant]]).fetchone()
    head: int = row[1] if row else 0
    facts, end = read(conn, tenant, standing(conn, tenant), head)
    while not facts and end < head:
        facts, end = read(conn, tenant, end, head)
    return None if facts or travels(conn, [tenant]) else head


def _told(position: int, kind: str, guid: UUID | None, cause: str, payload: str | None) -> Told:
    said = _decode(payload) if payload is not None else _Payload()
    return Told(position, kind, guid, cause, said.by, said.before, said.after, said.traceparent)


class FactTail:
    """Long-polls the feeds of all cells. A cell that cannot be reached is tried again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connections: dict[str, psycopg.Connection] = {}
        self._away: dict[str, float] = {}
        self._tenants: Mapping[str, list[int]] = {}
        self._looked = float("-inf")
        self._scanned: dict[int, int] = {}  # nothing between the start and here
        self._held: dict[int, tuple[float, Told]] = {}  # since when, and of what, none was told
        self._left: set[tuple[str, int]] = set()  # cells that a tenant was in, and is not
        self._begun: dict[tuple[str, int], int] = {}  # where the store says that one begins
        self._told_at = monotonic()

    def places(self) -> Places:
        """How far every tenant has come, by the store."""
        found: Places = {}
        for cell, tenants in self._by_cell().items():
            with suppress(psycopg.OperationalError):
                found[cell] = self._places(cell, tenants)
        return found

    def read(self, start: Places, seconds: float) -> list[Read]:
        """What is behind `start`; waits up to `seconds` for something to appear."""
        end = monotonic() + seconds
        while True:
            found = self._sweep(start)
            if found or monotonic() >= end:
                return found
            self._sleep(min(POLL, max(0.0, end - monotonic())))

    def between(self, start: Places, end: Places) -> list[Read]:
        """Exactly the facts of an earlier read, for Spark to replay."""
        found = []
        for cell, tenants in end.items():
            conn = self._open(cell)
            for tenant, upto in tenants.items():
                after = start.get(cell, {}).get(tenant, 0)
                if upto > after:
                    with conn.transaction():
                        bind_many(conn, [tenant])
                        facts, _ = read(conn, tenant, after, upto, upto - after)
                    found.append(Read(cell, tenant, after, upto, facts))
        return found

    def close(self) -> None:
        for conn in self._connections.values():
            conn.close()

    def _sweep(self, start: Places) -> list[Read]:
        found: list[Read] = []
        for cell, tenants in self._by_cell().items():
            if self._away.get(cell, 0.0) > monotonic():
                continue
            try:
                found += self._sweep_cell(cell, tenants, start)
            except psycopg.OperationalError:
                self._drop(cell)
        if found or monotonic() - self._told_at > LATE:
            found += self._skipped(start, {each.tenant for each in found})
            self._told_at = monotonic()
        return found

    def _sweep_cell(self, cell: str, tenants: list[int], start: Places) -> list[Read]:
        conn = self._open(cell)
        found = []
        with conn.transaction():
            bind_many(conn, tenants)
            for tenant, head in conn.execute(HEADS, [tenants], prepare=True).fetchall():
                begin = self._begin(conn, cell, tenant, start)
                end = max(begin, self._scanned.get(tenant, 0))
                facts: list[Told] = []
                while not facts and end < head:
                    facts, end = read(conn, tenant, end, min(head, end + WINDOW))
                    facts = self._hold_back(tenant, facts)
                    self._scanned[tenant] = end
                if facts or end - begin > FAR or self._has_waited(tenant):
                    facts += self._release(tenant)
                    found.append(self._noted(Read(cell, tenant, begin, end, facts)))
        return found

    def _hold_back(self, tenant: int, facts: list[Told]) -> list[Told]:
        """A flood is told now and then: each time costs as much as a change that matters."""
        if len(facts) != 1 or facts[0].kind != MANY_EDGES:
            return facts
        since, _ = self._held.get(tenant, (monotonic(), None))
        self._held[tenant] = (since, facts[0])
        return []

    def _has_waited(self, tenant: int) -> bool:
        return tenant in self._held and monotonic() - self._held[tenant][0] >= HELD

    def _release(self, tenant: int) -> list[Told]:
        """Whoever moves the position behind what was held back tells it."""
        held = self._held.pop(tenant, None)
        return [held[1]] if held else []

    def _begin(self, conn: psycopg.Connection, cell: str, tenant: int, start: Places) -> int:
        """Who is new in a cell may have come from another: it begins where the store says."""
        place, known = (cell, tenant), start.get(cell, {})
        if tenant in known and place not in self._left:
            return known[tenant]
        if place not in self._begun:
            row = conn.execute(PLACES, [CONSUMER, [tenant]]).fetchone()
            self._begun[place] = row[1] if row else 0
        return self._begun[place]

    def _noted(self, read: Read) -> Read:
        """From here on whoever asks knows how far it is."""
        self._left.discard((read.cell, read.tenant))
        self._begun.pop((read.cell, read.tenant), None)
        return read

    def _skipped(self, start: Places, told: set[int]) -> list[Read]:
        """Where facts have gone by that stir nothing, the store hears of it sooner or later."""
        found = []
        for cell, tenants in self._by_cell().items():
            for tenant in tenants:
                known = None if (cell, tenant) in self._left else start.get(cell, {}).get(tenant)
                begin = self._begun.get((cell, tenant)) if known is None else known
                scanned = self._scanned.get(tenant, 0)
                if tenant not in told and begin is not None and scanned > begin:
                    facts = self._release(tenant)
                    found.append(self._noted(Read(cell, tenant, begin, scanned, facts)))
        return found

    def _places(self, cell: str, tenants: Sequence[int]) -> dict[int, int]:
        conn = self._open(cell)
        with conn.transaction():
            bind_many(conn, tenants)
            return dict(conn.execute(PLACES, [CONSUMER, list(tenants)]).fetchall())

    def _by_cell(self) -> Mapping[str, list[int]]:
        if monotonic() - self._looked > NEW_TENANTS:
            with suppress(Exception):  # home is away for a moment: go on with what is known
                found: dict[str, list[int]] = {}
                for tenant in self._database.tenants():
                    found.setdefault(tenant.cell, []).append(tenant.number)
                self._leave(found)
                self._tenants = found
                self._looked = monotonic()
        return self._tenants

    def _leave(self, now: Mapping[str, list[int]]) -> None:
        """Remember who has gone elsewhere: what was read there before says nothing any more."""
        for cell, tenants in self._tenants.items():
            for tenant in set(tenants) - set(now.get(cell, ())):
                self._left.add((cell, tenant))
                self._scanned.pop(tenant, None)
                self._held.pop(tenant, None)

    def _open(self, cell: str) -> psycopg.Connection:
        conn = self._connections.get(cell)
        if conn is None or conn.closed:
            conn = self._connections[cell] = connect(self._database, cell)
            conn.execute("LISTEN lily_facts")
        return conn

    def _drop(self, cell: str) -> None:
        self._away[cell] = monotonic() + AWAY
        if (conn := self._connections.pop(cell, None)) is not None:
            conn.close()

    def _sleep(self, seconds: float) -> None:
        if not self._connections:
            select.select([], [], [], seconds)
            return
        ready, _, _ = select.select(list(self._connections.values()), [], [], seconds)
        for conn in ready:
            with suppress(psycopg.OperationalError):
                for told in conn.notifies(timeout=0):
                    self._hear(told.payload)

    def _hear(self, payload: str) -> None:
        """A tenant that nobody has heard of is looked for at once."""
        number = payload.partition(":")[0]
        if number.isdigit() and not any(int(number) in each for each in self._tenants.values()):
            self._looked = float("-inf")
