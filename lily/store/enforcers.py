"""Which connections enforce, how far each has followed the feed, and which tables are touched."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec
import psycopg

from lily.access.model import Policy
from lily.access.spelled import Spelled
from lily.sdk.enforcers import Wanted
from lily.store import consumers, policies, protections
from lily.store.connections import COLUMNS, Connection
from lily.store.database import Database, Unit
from lily.store.propagation_plan import STILL
from lily.store.protections import Table
from lily.types import Tenant

PAGE = 1_000
EVERY = (
    "SELECT guid, qualified_name FROM asset"
    " WHERE tenant = %s AND lane = 'core' AND deleted_by IS NULL"
)
FAR = 2_000  # assets behind a change that are looked at before it has travelled there
KINDS = [
    "AssetCreated", "AssetChanged", "AssetDeleted", "AssetRestored", "AssetArchived",
    "FieldsCreated", "TagsChanged", "TagResolved", "EdgeCreated", "EdgeChanged", "EdgeDeleted",
    "EdgeRestored", "PolicyCreated", "PolicyChanged", "PolicyDeleted", "CircleChanged",
]  # fmt: skip
FACTS = """
SELECT position, kind, guid, cause, kind = 'TagsChanged' AND payload LIKE '%%"propagated":{%%'
  FROM fact WHERE tenant = %s AND position > %s AND kind = ANY(%s) ORDER BY position LIMIT %s
"""
# Everything downstream of assets, by any edge that carries; as much as is looked at in one go.
BEHIND = """
WITH RECURSIVE below (guid) AS (
  SELECT g FROM unnest(%(guids)s::uuid[]) g
  UNION
  SELECT e.downstream FROM below b
   CROSS JOIN LATERAL (SELECT l.downstream FROM live_edge l
     WHERE l.tenant = %(tenant)s AND l.upstream = b.guid
       AND l.type <> ALL(%(still)s) AND NOT l.masking OFFSET 0) e
)
SELECT guid FROM below LIMIT %(most)s
"""
# The tables that assets are, or lie in, or contain.
TABLES = """
WITH RECURSIVE below (guid, parent, lane, qualified_name, depth) AS (
  SELECT guid, parent, lane, qualified_name, 0 FROM asset
   WHERE tenant = %(tenant)s AND guid = ANY(%(guids)s)
  UNION
  SELECT a.guid, a.parent, a.lane, a.qualified_name, b.depth + 1 FROM below b
    JOIN asset a ON a.tenant = %(tenant)s AND a.parent = b.guid AND a.lane = 'core'
   WHERE b.lane = 'core' AND b.depth < 4
)
SELECT guid, qualified_name FROM below WHERE lane = 'core'
UNION
SELECT p.guid, p.qualified_name FROM below b
  JOIN asset p ON p.tenant = %(tenant)s AND p.guid = b.parent AND p.lane = 'core'
 WHERE b.lane = 'fields'
"""


class Told(msgspec.Struct, frozen=True):
    position: int
    kind: str
    guid: UUID | None
    cause: str
    carried: bool  # along lineage, by whoever looks after that


def connections(database: Database) -> list[tuple[Tenant, Connection]]:
    """Every enforcer in use, of every tenant that is active."""
    cells: dict[str, dict[int, Tenant]] = {}
    for tenant in database.tenants():
        if tenant.state == "active":
            cells.setdefault(tenant.cell, {})[tenant.number] = tenant
    found: list[tuple[Tenant, Connection]] = []

    def look(cell: str) -> None:
        tenants = cells.get(cell, {})
        with database.cell(cell, list(tenants)) as conn:
            rows = conn.execute(
                f"SELECT tenant, {COLUMNS} FROM connection WHERE tenant = ANY(%s) AND enabled"
                " AND 'enforcer' = ANY(uses) ORDER BY tenant, id",
                [list(tenants)],
            )
            found.extend((tenants[number], Connection(*rest)) for number, *rest in rows)

    database.each_cell(look)
    return found


def is_current(database: Database, tenant: Tenant, connection: Connection) -> bool:
    """Whether nobody has changed or deleted it since it was read."""
    with database.cell(tenant.cell, [tenant.number]) as conn:
        row = conn.execute(
            "SELECT revision FROM connection WHERE tenant = %s AND id = %s AND enabled",
            [tenant.number, connection.id],
        ).fetchone()
    return row is not None and row[0] == connection.revision


def position(conn: psycopg.Connection, tenant: Tenant, name: str) -> int:
    return consumers.claim(conn, name, tenant) or 0


def facts(conn: psycopg.Connection, tenant: int, after: int) -> list[Told]:
    rows = conn.execute(FACTS, [tenant, after, KINDS, PAGE])
    return [Told(*row) for row in rows]


def behind(unit: Unit, guids: Iterable[UUID]) -> set[UUID]:
    """What lies downstream; of a very long reach the part that is near."""
    values = {
        "tenant": unit.tenant.number, "guids": list(guids), "still": STILL, "most": FAR,
    }  # fmt: skip
    return {guid for (guid,) in unit.conn.execute(BEHIND, values)}


def tables(unit: Unit, guids: Iterable[UUID]) -> list[Table]:
    rows = unit.conn.execute(TABLES, {"tenant": unit.tenant.number, "guids": list(guids)})
    return [Table(*row) for row in rows]


def tagged(unit: Unit, tags: Sequence[str], guids: Sequence[UUID]) -> list[Table]:
    """The tables with one of these tags on them, on a column or above, and those named."""
    rows = unit.conn.execute("SELECT guid FROM bearing(%s)", [list(tags)])
    return tables(unit, {guid for (guid,) in rows} | set(guids))


def concerned(unit: Unit, connection: UUID) -> list[Table]:
    """Every table that policies protect, and all that this engine was ever asked about."""
    tags: set[str] = set()
    guids: set[UUID] = set()
    open_to_all, about_all = False, False
    for kept in policies.load(unit):
        policy = kept.policy
        if policy.action != "READ" or not policy.enabled:
            continue
        if policy.effect == "allow":
            open_to_all = open_to_all or _opens(policy)
        elif policy.resource.kind == "tag":
            tags.add(policy.resource.id)
        elif policy.resource.kind in ("asset", "under"):
            guids.add(UUID(policy.resource.id))
        else:
            about_all = True
    if about_all or not open_to_all:  # then any table may be kept from somebody
        found = [Table(*row) for row in unit.conn.execute(EVERY, [unit.tenant.number])]
    else:
        found = tagged(unit, sorted(tags), sorted(guids))
    return [*found, *protections.known(unit.conn, unit.tenant.number, connection)]


def _opens(policy: Policy) -> bool:
    """Whether everybody reads everything by it, always."""
    everyone = any(subject.kind == "everyone" for subject in policy.subjects)
    always = not policy.conditions and not policy.exempt_groups
    return everyone and always and policy.resource.kind == "everything"


def spelled(unit: Unit, connection: Connection, table: Table, state: Wanted) -> Wanted:
    """With masks written out, where the engine is to show them."""
    if connection.options.get("masking") != "views":
        return state
    return Spelled(state, protections.columns(unit, table.guid), "postgres")
