"""Rules: what else travels along lineage, beside tags whose definition says so."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.errors import Conflict, NotFound, Stale
from lily.events.facts import Fact, FactKind
from lily.identity.actor import Actor
from lily.lineage import travel
from lily.lineage.travel import Carrier, Definition, Direction, Filter, OnConflict
from lily.store import feed
from lily.store.database import Unit

MOST = 100
COLUMNS = (
    "id, name, field, names, edge_kinds, direction, max_depth, roots, receivers, on_conflict,"
    " enabled, version, created_at, created_by, updated_at, plugin, options"
)
TRAVELLING = "SELECT name, edge_kinds, max_depth FROM {} WHERE tenant = %s AND propagates"
ENABLED = f"SELECT {COLUMNS} FROM propagation_rule WHERE tenant = %s AND enabled ORDER BY id"
INSERT = f"INSERT INTO propagation_rule (tenant, {COLUMNS}) VALUES (%s{', %s' * 17})"
UPDATE = (
    f"UPDATE propagation_rule SET ({COLUMNS}) = ROW({'%s, ' * 16}%s) WHERE tenant = %s AND id = %s"
)
COMPUTED = """
SELECT DISTINCT field FROM propagation_rule WHERE tenant = %s AND enabled AND plugin <> ''
"""
PAGE = f"""
SELECT {COLUMNS} FROM propagation_rule
 WHERE tenant = %(tenant)s AND (%(after)s::text IS NULL OR name > %(after)s)
 ORDER BY name LIMIT %(limit)s
"""


class Rule(msgspec.Struct, frozen=True):
    """The columns of table propagation_rule, in their order."""

    id: UUID
    name: str
    field: str
    names: list[str]
    edge_kinds: list[str] | None
    direction: Direction
    max_depth: int | None
    roots: Filter
    receivers: Filter
    on_conflict: OnConflict
    enabled: bool
    version: int
    created_at: datetime
    created_by: str
    updated_at: datetime
    plugin: str = ""
    options: dict[str, Any] = {}

    @property
    def decides(self) -> travel.Rule:
        return travel.Rule(
            self.id, self.field, self.names, self.edge_kinds, self.direction, self.max_depth,
            self.roots, self.receivers, self.on_conflict, self.plugin, self.options,
        )  # fmt: skip


def carriers(conn: psycopg.Connection, tenant: int) -> list[Carrier]:
    """Everything that travels in this tenant, as of now."""
    return travel.carriers(
        [Definition(*row) for row in conn.execute(TRAVELLING.format("tag_definition"), [tenant])],
        [Definition(*row) for row in conn.execute(TRAVELLING.format("term_definition"), [tenant])],
        [_rule(row).decides for row in conn.execute(ENABLED, [tenant])],
    )


def computed(conn: psycopg.Connection, tenant: int) -> list[str]:
    """The fields whose values plug-ins make."""
    return [field for (field,) in conn.execute(COMPUTED, [tenant], prepare=True)]


def create(unit: Unit, rule: Rule, actor: Actor) -> None:
    count = "SELECT count(*) FROM propagation_rule WHERE tenant = %s"
    row = unit.conn.execute(count, [unit.tenant.number]).fetchone()
    if row is not None and row[0] >= MOST:
        raise Conflict(f"There are {MOST} rules already; delete one that is not used.")
    try:
        unit.conn.execute(INSERT, [unit.tenant.number, *_values(rule)])
    except psycopg.errors.UniqueViolation:
        raise _taken(rule.name) from None
    _record(unit, "PropagationRuleCreated", actor, rule.updated_at, None, rule)


def get(unit: Unit, id: UUID) -> Rule:
    query = f"SELECT {COLUMNS} FROM propagation_rule WHERE tenant = %s AND id = %s"
    row = unit.conn.execute(query, [unit.tenant.number, id]).fetchone()
    if row is None:
        raise NotFound("propagation rule", id)
    return _rule(row)


def locked(unit: Unit, id: UUID, version: int | None) -> Rule:
    lock = "SELECT FROM propagation_rule WHERE tenant = %s AND id = %s FOR UPDATE"
    unit.conn.execute(lock, [unit.tenant.number, id])
    found = get(unit, id)
    if version is not None and version != found.version:
        raise Stale(f"The rule is at version {found.version}; read it again, repeat the change.")
    return found


def page(unit: Unit, after: str | None, limit: int) -> list[Rule]:
    values = {"tenant": unit.tenant.number, "after": after, "limit": limit}
    return [_rule(row) for row in unit.conn.execute(PAGE, values)]


def change(unit: Unit, before: Rule, after: Rule, actor: Actor) -> Rule:
    """Store what differs; what changes nothing makes no version and no fact."""
    if msgspec.structs.replace(after, updated_at=before.updated_at) == before:
        return before
    after = msgspec.structs.replace(after, version=before.version + 1)
    try:
        unit.conn.execute(UPDATE, [*_values(after), unit.tenant.number, after.id])
    except psycopg.errors.UniqueViolation:
        raise _taken(after.name) from None
    _record(unit, "PropagationRuleChanged", actor, after.updated_at, before, after)
    return after


def delete(unit: Unit, rule: Rule, actor: Actor, now: datetime) -> None:
    """What it brought goes as soon as the fact of it is read."""
    query = "DELETE FROM propagation_rule WHERE tenant = %s AND id = %s"
    unit.conn.execute(query, [unit.tenant.number, rule.id])
    _record(unit, "PropagationRuleDeleted", actor, now, rule, None)


def _values(rule: Rule) -> Sequence[Any]:
    row = list(msgspec.structs.astuple(rule))
    for place in (7, 8, 16):
        row[place] = Jsonb(row[place])
    return row


def _rule(row: Sequence[Any]) -> Rule:
    return msgspec.convert(dict(zip(Rule.__struct_fields__, row, strict=True)), Rule)


def _taken(name: str) -> Conflict:
    return Conflict(f"Another rule is called {name!r}.")


def _record(
    unit: Unit, kind: FactKind, actor: Actor, now: datetime, before: Rule | None, after: Rule | None
) -> None:
    told = Fact(
        kind=kind, at=now, by=actor.name, cause=actor.cause, traceparent=actor.traceparent,
        before=_told(before), after=_told(after),
    )  # fmt: skip
    feed.record(unit, [told])


def _told(rule: Rule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    shown: dict[str, Any] = msgspec.to_builtins(rule)
    for name in ("version", "created_at", "created_by", "updated_at"):
        del shown[name]
    if not rule.plugin:
        del shown["plugin"], shown["options"]
    return shown
