"""The propagator of a cell: facts come in, what they stir is made so, one tenant at a time.

A small reach is planned and applied in the transaction that also moves the consumer's position. A
large one becomes a task (see propagation_tasks). Whoever writes holds the tenant's consumer row, so
there is one writer per tenant, and a second process is fenced by the position.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Event, Lock
from time import monotonic
from typing import Any, TypeVar
from uuid import UUID, uuid4

import msgspec
import psycopg

from lily.assets.change import Context, Known, view_of
from lily.assets.names import as_guid, guid_of
from lily.clock import Clock
from lily.errors import Fenced, Unavailable
from lily.events.facts import Fact
from lily.events.observations import AssetSeen
from lily.lineage import enrich
from lily.lineage.enrich import Enrichments
from lily.lineage.stirred import BY, Stirred, Told, stirred
from lily.lineage.travel import Carrier
from lily.store import (
    assets,
    definitions,
    priority,
    propagation_blocks,
    propagation_rules,
    takeover,
)
from lily.store.database import HOME, Database, bind_many
from lily.store.presence import is_loading
from lily.store.propagation_apply import Cause, apply
from lily.store.propagation_plan import Difference, Plan, Scope, TooLarge, plan
from lily.tags.effective import effective, own
from lily.telemetry import PROPAGATION_LIMITED, PROPAGATION_SECONDS, logger
from lily.types import Tenant

CONSUMER = "propagate"
SMALL = 5_000  # assets that one transaction may look at

JOIN = "INSERT INTO consumer (name, tenant, position) VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
MOVE = """
UPDATE consumer SET position = %(end)s, at = now()
 WHERE name = %(name)s AND tenant = %(tenant)s AND position = %(start)s
"""
STANDS = "SELECT position FROM consumer WHERE name = %s AND tenant = %s"
WHERE = f"{STANDS} FOR UPDATE"
# Column edges at what came or went, or at its columns: they end with it, and the table edges which
# they imply. And what a purged root left behind.
AROUND = """
SELECT upstream, downstream, up_top, down_top FROM edge
 WHERE tenant = %(tenant)s AND level = 'column' AND deleted_by IS NULL
   AND (upstream = ANY(%(lives)s) OR downstream = ANY(%(lives)s)
     OR up_top = ANY(%(lives)s) OR down_top = ANY(%(lives)s))
"""
ORPHANS = "SELECT DISTINCT guid FROM propagated WHERE tenant = %s AND root = ANY(%s)"
ASK = """
INSERT INTO propagation_task
  (tenant, id, starts, up_starts, whole, names, cause, traceparent, position, size, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
# One that waits for the same names takes it in; behind very many starts lies everything.
EXTEND = """
UPDATE propagation_task t
   SET whole = t.whole OR %(whole)s
         OR cardinality(t.starts) + cardinality(%(starts)s::uuid[]) > %(most)s,
       starts = CASE WHEN t.whole OR %(whole)s THEN '{}' ELSE t.starts || %(starts)s::uuid[] END,
       up_starts = CASE WHEN t.whole OR %(whole)s THEN '{}'
                        ELSE t.up_starts || %(up_starts)s::uuid[] END
 WHERE t.tenant = %(tenant)s AND t.id = (
   SELECT o.id FROM propagation_task o
    WHERE o.tenant = %(tenant)s AND o.state = 'waiting'
      AND o.names IS NOT DISTINCT FROM %(names)s::text[] ORDER BY o.created_at LIMIT 1)
"""
ALL_WAITS = """
SELECT 1 FROM propagation_task
 WHERE tenant = %s AND state = 'waiting' AND whole AND names IS NULL
"""
ANY_WAITS = "SELECT 1 FROM propagation_task WHERE tenant = ANY(%s) AND state = 'waiting' LIMIT 1"
MANY_STARTS = 20_000
FLOOD = 500  # facts at once: an estate is being loaded
URGENT = 50  # assets whose own labels changed meanwhile; more are part of the load
STOCK_EVERY = 2.0
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
PATIENCE = 120.0
PATIENCE_ELSEWHERE = 10.0

T = TypeVar("T")


class Stretch(msgspec.Struct, frozen=True):
    """Facts of one tenant behind `start`, up to and with `end`; those that stir nothing are out."""

    tenant: Tenant
    start: int
    end: int
    facts: Sequence[Told]


class Propagator:
    """Applies stretches of facts to the cells, and tells whoever works on tasks what moved."""

    def __init__(
        self, database: Database, clock: Clock, stop: Event, small: int = SMALL,
        enrichments: Enrichments = enrich.NONE,
    ) -> None:  # fmt: skip
        self.database = database
        self.clock = clock
        self.stop = stop
        self.small = small
        self._enrichments = enrichments
        self._told_problems: set[tuple[UUID, str]] = set()
        self.changed = 0
        self.positions: dict[int, int] = {}  # that this process has set
        self._connections: dict[str, psycopg.Connection] = {}
        self._watchers: list[Callable[[Tenant, frozenset[UUID] | None], None]] = []
        self._busy = Lock()
        self._stock: dict[str, float] = {}  # by cell, when its tables were counted

    def watch(self, watcher: Callable[[Tenant, frozenset[UUID] | None], None]) -> None:
        """Be told, before it is committed, which assets were looked at; null: too many to say."""
        self._watchers.append(watcher)

    def handle(self, stretch: Stretch) -> bool:
        """Make so what the facts stir. False if that was committed before. Raises Fenced."""
        with self._busy:
            return self.patiently(stretch.tenant.cell, lambda conn: self._handle(conn, stretch))

    def close(self) -> None:
        for conn in self._connections.values():
            conn.close()

    def _handle(self, conn: psycopg.Connection, stretch: Stretch) -> bool:
        began, tenant = monotonic(), stretch.tenant
        if stretch.facts and began - self._stock.get(tenant.cell, float("-inf")) > STOCK_EVERY:
            self._stock[tenant.cell] = began
            conn.execute("SELECT take_stock()")
        with conn.transaction():
            if not bind_many(conn, [tenant.number]):
                return False  # it goes elsewhere, where its facts are read again
            if not _advance(conn, stretch):
                return False
            computed = propagation_rules.computed(conn, tenant.number) if stretch.facts else ()
            found = stirred(stretch.facts, computed)
            if not found.is_calm:
                self._settle(conn, stretch, found)
            self.positions[tenant.number] = stretch.end
        PROPAGATION_SECONDS.observe(monotonic() - began)
        return True

    def _settle(self, conn: psycopg.Connection, stretch: Stretch, found: Stirred) -> None:
        tenant, now = stretch.tenant, self.clock.now()
        edges = {edge: fact.cause for edge, fact in found.edges.items()}
        looked = propagation_blocks.automatic(conn, tenant.number, edges, now)
        scope = _scope(conn, tenant, found, looked.ends)
        context = self.context(conn, tenant)
        newest = found.whole or stretch.facts[-1]
        made = self._small(conn, stretch, found, scope, context)
        if made is None:
            _ask(conn, tenant, scope, newest, self.small + 1, now)
        self._tell(tenant, made.guids if made else None)
        made = made or self._urgent(conn, tenant, found, context)
        facts = [*looked.facts, *limited(made, newest.cause, now), *self._failed(newest.cause)]
        if made.differences or facts:
            causes = _causes(found, newest)
            self.changed += apply(
                conn, tenant.number, made.differences, causes, context, lambda: facts
            )

    def _failed(self, cause: str) -> list[Fact]:
        """A plug-in of a rule that cannot do its work is told, once by each process."""
        fresh = set(self._enrichments.problems().items()) - self._told_problems
        self._told_problems |= fresh
        for _ in fresh:
            PROPAGATION_LIMITED.labels("enrichment").inc()
        return [
            Fact(
                kind="PropagationLimited", at=self.clock.now(), by=BY, cause=cause,
                after={"limit": "enrichment", "rule": rule, "reason": reason},
            )
            for rule, reason in sorted(fresh)
        ]  # fmt: skip

    def _small(
        self, conn: psycopg.Connection, stretch: Stretch, found: Stirred, scope: Scope,
        context: Context,
    ) -> Plan | None:  # fmt: skip
        """None if it is too much for this transaction, or part of a flood: a task awaits its end,
        because plans that are made meanwhile are stale before they are."""
        number = stretch.tenant.number
        absorbs = scope.whole or len(stretch.facts) >= FLOOD
        if absorbs and conn.execute(ALL_WAITS, [number]).fetchone():
            return None
        if len(found.edges) >= FLOOD and is_loading(self.database):
            return None
        try:
            return self.plan(conn, stretch.tenant, scope, context, self.small)
        except TooLarge:
            return None

    def _urgent(
        self, conn: psycopg.Connection, tenant: Tenant, found: Stirred, context: Context
    ) -> Plan:
        """A few tags that changed while an estate is loaded do not wait until it is."""
        nodes = tuple(found.nodes)
        among = found.edges or found.lives or found.whole
        if not 0 < len(nodes) <= URGENT or not among:
            return Plan([])
        try:
            return self.plan(conn, tenant, Scope(nodes, nodes), context, self.small)
        except TooLarge:
            return Plan([])

    def _tell(self, tenant: Tenant, guids: frozenset[UUID] | None) -> None:
        for watcher in self._watchers:
            watcher(tenant, guids)

    # What planning and applying need --------------------------------------------------------------

    def plan(
        self, conn: psycopg.Connection, tenant: Tenant, scope: Scope, context: Context,
        most: int | None = None, carriers: Sequence[Carrier] | None = None,
    ) -> Plan:  # fmt: skip
        """What should be, against what is stored. `conn` is in a transaction of this tenant."""
        if carriers is None:
            carriers = propagation_rules.carriers(conn, tenant.number)
        own = Owned(conn, tenant, context, self._enrichments)
        return plan(conn, tenant.number, scope, carriers, own, most)

    def context(self, conn: psycopg.Connection, tenant: Tenant) -> Context:
        return context_of(self.database, conn, tenant, self.clock)

    # Connections ----------------------------------------------------------------------------------

    def patiently(self, cell: str, work: Callable[[psycopg.Connection], T]) -> T:
        """On this cell's own connection; again when the database was away or chose a victim."""
        began, attempt = monotonic(), 0
        while True:
            try:
                return work(self._connection(cell))
            except (psycopg.OperationalError, Unavailable) as cause:
                patience = PATIENCE if cell == HOME else PATIENCE_ELSEWHERE
                if monotonic() - began > patience or (self.stop.is_set() and attempt > 5):
                    raise Unavailable(f"cell {cell} cannot be written: {cause}") from cause
                logger(__name__).warning(
                    "propagation will be tried again", cell=cell, reason=str(cause).strip()
                )
                self._recover(cell)
                pause = PAUSES[min(attempt, len(PAUSES) - 1)]
                self.stop.wait(random.uniform(0.5, 1.0) * pause)
                attempt += 1

    def _connection(self, cell: str) -> psycopg.Connection:
        conn = self._connections.get(cell)
        if conn is None or conn.closed:
            conn = self._connections[cell] = connect(self.database, cell)
        return conn

    def _recover(self, cell: str) -> None:
        conn = self._connections.get(cell)
        if conn is not None and (conn.broken or conn.closed):
            self._connections.pop(cell).close()


def connect(database: Database, cell: str) -> psycopg.Connection:
    """A connection that keeps its temporary tables."""
    conn = psycopg.connect(
        database.role_url(cell), autocommit=True, connect_timeout=5,
        application_name=takeover.PROPAGATE,
    )  # fmt: skip
    conn.execute("SET enable_seqscan = off")
    return conn


def context_of(
    database: Database, conn: psycopg.Connection, tenant: Tenant, clock: Clock
) -> Context:
    """How this tenant folds what it knows, as of now."""
    book = definitions.of(database)
    book.refresh(conn, [tenant.number])
    return Context(
        clock.now(),
        effective,
        lambda name: as_guid(name) or guid_of(tenant.id, name),
        priority.ranks(database, tenant),
        book.book(tenant.number).groups,
        own,
    )


def standing(conn: psycopg.Connection, tenant: int) -> int:
    """How far facts were handled."""
    row = conn.execute(STANDS, [CONSUMER, tenant]).fetchone()
    return row[0] if row else 0


def travels(conn: psycopg.Connection, tenants: Sequence[int]) -> bool:
    """Whether a large reach is on its way along lineage, and changes assets as it goes."""
    return conn.execute(ANY_WAITS, [list(tenants)]).fetchone() is not None


def position(conn: psycopg.Connection, tenant: int) -> int:
    """The same; the tenant's other writers of propagation wait from here on."""
    row = conn.execute(WHERE, [CONSUMER, tenant]).fetchone()
    return row[0] if row else 0


def limited(made: Plan, cause: str, now: Any) -> list[Fact]:
    """A limit that was reached is told."""
    if not made.cut:
        return []
    PROPAGATION_LIMITED.labels("depth").inc()
    after = {"limit": "depth", "assets": made.cut}
    return [Fact(kind="PropagationLimited", at=now, by=BY, cause=cause, after=after)]


class Owned:
    """What sources and persons say of assets, whatever lineage has brought there."""

    def __init__(
        self, conn: psycopg.Connection, tenant: Tenant, context: Context,
        enrichments: Enrichments = enrich.NONE,
    ) -> None:  # fmt: skip
        self._conn = conn
        self._number = tenant.number
        self._context = context
        self._enrichments = enrichments

    def values(
        self, wanted: Sequence[tuple[UUID, Any, str]], fields: Collection[str]
    ) -> Mapping[UUID, Mapping[str, str]]:
        return {
            guid: _own(known, fields, self._context) if known.asset else {}
            for guid, known in self._known(wanted)
        }

    def computed(
        self, wanted: Sequence[tuple[UUID, Any, str]], carriers: Sequence[Carrier]
    ) -> Mapping[UUID, Sequence[str | None]]:
        found: dict[UUID, list[str | None]] = {}
        for guid, known in self._known(wanted):
            root = _described(known, self._context) if known.asset else None
            found[guid] = [
                self._enrichments.value(each, root) if each.plugin and root else None
                for each in carriers
            ]
        return found

    def _known(self, wanted: Sequence[tuple[UUID, Any, str]]) -> list[tuple[UUID, Known]]:
        keys = {(self._number, guid): (lane, name) for guid, lane, name in wanted}
        return [(guid, known) for (_, guid), known in assets.peek(self._conn, keys).items()]


def _described(known: Known, context: Context) -> AssetSeen:
    """The asset as a plug-in sees it."""
    view = view_of(msgspec.structs.replace(known, propagated=[]), context)
    return AssetSeen(
        qualified_name=known.qualified_name,
        asset_name=view.asset_name,
        asset_type=view.asset_type,
        asset_owner=view.asset_owner,
        description=view.description,
        data_source=view.data_source,
        external_id=view.external_id,
        tags=list(view.tags if view.own_tags is None else view.own_tags),
        business_terms=list(view.business_terms),
        metadata=dict(view.metadata),
    )


def _own(known: Known, fields: Collection[str], context: Context) -> dict[str, str]:
    view = view_of(msgspec.structs.replace(known, propagated=[]), context)
    found: dict[str, str] = {}
    for field in fields:
        if field.startswith("metadata."):
            value = view.metadata.get(field.removeprefix("metadata."))
            text = None if value in (None, "") else msgspec.json.encode(value).decode()
        else:
            text = getattr(view, field)
        if text:
            found[field] = text
    return found


def _advance(conn: psycopg.Connection, stretch: Stretch) -> bool:
    number = stretch.tenant.number
    values = {"name": CONSUMER, "tenant": number, "start": stretch.start, "end": stretch.end}
    if stretch.start == 0:
        conn.execute(JOIN, [CONSUMER, number])
    if conn.execute(MOVE, values).rowcount == 1:
        return True
    now = position(conn, number)
    if now >= stretch.end:
        return False  # our own commit, whose answer was lost
    raise Fenced(f"propagation is at {now}, not at {stretch.start}: another process has moved it")


def _scope(
    conn: psycopg.Connection, tenant: Tenant, found: Stirred, ends: Collection[tuple[UUID, UUID]]
) -> Scope:
    names = None if found.names is None else frozenset(found.names)
    if found.whole is not None:
        return Scope(whole=True, names=names)
    pairs = {*found.ends, *ends}
    lives = list(found.lives)
    if lives:
        for row in conn.execute(AROUND, {"tenant": tenant.number, "lives": lives}):
            pairs.update((row[:2], row[2:]))
    purged = [guid for guid, fact in found.lives.items() if fact.kind == "AssetPurged"]
    both = {*found.nodes, *lives}
    if purged:
        both.update(guid for (guid,) in conn.execute(ORPHANS, [tenant.number, purged]))
    return Scope(
        tuple({*both, *(down for _, down in pairs)}),
        tuple({*both, *(up for up, _ in pairs)}),
        names=names,
    )


def _ask(
    conn: psycopg.Connection, tenant: Tenant, scope: Scope, fact: Told, size: int, now: Any
) -> None:
    """Remember a reach that is too large for this transaction."""
    values = {
        "tenant": tenant.number, "starts": list(scope.starts), "up_starts": list(scope.up_starts),
        "whole": scope.whole, "names": sorted(scope.names) if scope.names is not None else None,
        "most": MANY_STARTS,
    }  # fmt: skip
    if conn.execute(EXTEND, values).rowcount == 0:
        conn.execute(
            ASK,
            [tenant.number, uuid4(), values["starts"], values["up_starts"], scope.whole,
             values["names"], fact.cause, fact.traceparent, fact.position, size, now],
        )  # fmt: skip


def _causes(found: Stirred, newest: Told) -> Callable[[Sequence[Difference]], Cause]:
    """Of several changes at once, the one that an asset's own change came from."""

    def of(differences: Sequence[Difference]) -> Cause:
        for each in differences:
            fact = (
                found.nodes.get(each.root) or found.edges.get(each.via)
                or found.lives.get(each.root)
            )  # fmt: skip
            if fact is not None:
                return Cause(fact.cause, fact.traceparent)
        return Cause(newest.cause, newest.traceparent)

    return of
