"""What a rule would change, computed and thrown away."""

from uuid import UUID

import msgspec

from lily.clock import Clock
from lily.errors import Conflict
from lily.lineage import travel
from lily.lineage.enrich import Enrichments
from lily.lineage.travel import SETS
from lily.store import propagation_rules
from lily.store.database import Database
from lily.store.propagation import Owned, context_of
from lily.store.propagation_plan import Scope, TooLarge, plan
from lily.store.propagation_rules import Rule
from lily.types import Tenant

MOST = 50_000  # assets that a request may look at
NAMES = "SELECT guid, qualified_name FROM asset WHERE tenant = %s AND guid = ANY(%s)"


class Item(msgspec.Struct, frozen=True):
    guid: UUID
    qualified_name: str
    field: str
    name: str
    value: str
    change: str
    root: UUID
    depth: int


class Preview(msgspec.Struct, frozen=True):
    looked_at: int
    changes: int
    items: list[Item]


def preview(
    database: Database,
    clock: Clock,
    tenant: Tenant,
    rule: Rule,
    limit: int,
    enrichments: Enrichments,
) -> Preview:
    """The difference to what is stored, if the rule were as given."""
    names = frozenset(rule.names) if rule.field in SETS else frozenset({rule.field})
    with database.unit(tenant) as unit:
        conn, number = unit.conn, tenant.number
        found = [c for c in propagation_rules.carriers(conn, number) if c.rule != rule.id]
        if rule.enabled:
            found += travel.carriers([], [], [rule.decides])
        context = context_of(database, conn, tenant, clock)
        scope = Scope(whole=True, names=names or None)
        try:
            own = Owned(conn, tenant, context, enrichments)
            made = plan(conn, number, scope, found, own, MOST)
        except TooLarge:
            raise Conflict(
                f"More than {MOST} assets would be looked at; `lily propagate check` has no limit."
            ) from None
        mine = [each for each in made.differences if each.rule == rule.id]
        shown = mine[:limit]
        known: dict[UUID, str] = dict(
            conn.execute(NAMES, [number, [each.guid for each in shown]]).fetchall()
        )
    items = [
        Item(d.guid, known.get(d.guid, ""), d.field, d.name, d.value, d.change, d.root, d.depth)
        for d in shown
    ]
    return Preview(made.size, len(mine), items)
