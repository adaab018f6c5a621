"""What engines were told to keep from whom: rows, their ledger, and what is wanted now."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.access.compile import Column, Compiled, resources
from lily.access.decide import Index
from lily.access.model import Situation, Target
from lily.events.facts import Fact, FactKind
from lily.sdk.enforcers import Entry, Report
from lily.store import circles, feed, policies, propagation, propagation_feed, targets
from lily.store.database import Database, Unit
from lily.store.propagation_plan import STILL
from lily.types import Tenant

COLUMNS = (
    "connection, guid, object, state, reason, columns, exempt, findings, plan, fingerprint,"
    " attempts, asked_at, applied_at, verified_at, next_at"
)
FIELDS = """
SELECT c.guid, c.asset_name, c.metadata ->> 'data_type'
  FROM asset c WHERE c.tenant = %s AND c.parent = %s AND c.lane = 'fields' AND c.deleted_by IS NULL
"""
SAVE = (
    f"INSERT INTO protection (tenant, {COLUMNS})"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (tenant, connection, guid) DO UPDATE SET "
    + ", ".join(f"{name.strip()} = excluded.{name.strip()}" for name in COLUMNS.split(",")[2:])
)
# Everything upstream of assets whose own labels are not settled yet, by any edge that carries.
UPSTREAM = """
WITH RECURSIVE above (start, guid) AS (
  SELECT g, g FROM unnest(%(guids)s::uuid[]) g
  UNION
  SELECT a.start, e.upstream FROM above a
   CROSS JOIN LATERAL (SELECT l.upstream FROM live_edge l
     WHERE l.tenant = %(tenant)s AND l.downstream = a.guid
       AND l.type <> ALL(%(still)s) AND NOT l.masking OFFSET 0) e
)
SELECT a.start, array_agg(DISTINCT t)
  FROM above a JOIN asset s ON s.tenant = %(tenant)s AND s.guid = a.guid,
       unnest(s.tags || coalesce(s.own_tags, '{}')) t
 WHERE a.guid <> a.start AND t = ANY(%(tags)s) GROUP BY 1
"""


# Per tenant: nothing between where propagation stands and here has anything to carry. Facts stay.
_QUIET: dict[UUID, int] = {}

State = Literal["pending", "applied", "verified", "failed", "drifted", "unenforceable", "planned"]


class Protection(msgspec.Struct):
    """One table in one engine."""

    connection: UUID
    guid: UUID
    object: str
    state: str
    reason: str
    columns: dict[str, Any]
    exempt: dict[str, list[str]]
    findings: list[dict[str, Any]]
    plan: list[str]
    fingerprint: str
    attempts: int
    asked_at: datetime
    applied_at: datetime | None
    verified_at: datetime | None
    next_at: datetime | None


class Table(msgspec.Struct, frozen=True):
    guid: UUID
    qualified_name: str


def get(conn: psycopg.Connection, tenant: int, connection: UUID, guid: UUID) -> Protection | None:
    row = conn.execute(
        f"SELECT {COLUMNS} FROM protection WHERE tenant = %s AND connection = %s AND guid = %s",
        [tenant, connection, guid],
    ).fetchone()
    return Protection(*row) if row else None


def save(conn: psycopg.Connection, tenant: int, kept: Protection) -> None:
    values = list(msgspec.structs.astuple(kept))
    for place in (5, 6, 7, 8):
        values[place] = Jsonb(values[place])
    conn.execute(SAVE, [tenant, *values])


def forget(conn: psycopg.Connection, tenant: int, connection: UUID, guid: UUID) -> None:
    conn.execute(
        "DELETE FROM protection WHERE tenant = %s AND connection = %s AND guid = %s",
        [tenant, connection, guid],
    )


def due(conn: psycopg.Connection, tenant: int, connection: UUID, now: datetime) -> list[Table]:
    """Those to be tried, or looked at, again."""
    rows = conn.execute(
        "SELECT guid, object FROM protection WHERE tenant = %s AND connection = %s"
        " AND next_at <= %s ORDER BY next_at LIMIT 500",
        [tenant, connection, now],
    )
    return [Table(*row) for row in rows]


def known(conn: psycopg.Connection, tenant: int, connection: UUID) -> list[Table]:
    """Every table that the engine was ever asked about, or of which the ledger still knows."""
    rows = conn.execute(
        "SELECT guid, object FROM protection WHERE tenant = %(tenant)s AND connection = %(id)s"
        " UNION SELECT a.guid, a.qualified_name FROM protection_ledger l JOIN asset a"
        " ON a.tenant = l.tenant AND a.qualified_name = l.object AND a.lane = 'core'"
        " WHERE l.tenant = %(tenant)s AND l.connection = %(id)s",
        {"tenant": tenant, "id": connection},
    )
    return [Table(*row) for row in rows]


def page(
    unit: Unit,
    connection: UUID | None,
    states: Sequence[str],
    after: tuple[UUID, UUID] | None,
    limit: int,
) -> list[Protection]:
    start = after or (None, None)
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM protection WHERE tenant = %(tenant)s"
        " AND (%(connection)s::uuid IS NULL OR connection = %(connection)s)"
        " AND (cardinality(%(states)s::text[]) = 0 OR state = ANY(%(states)s))"
        " AND (%(engine)s::uuid IS NULL OR (connection, guid) > (%(engine)s, %(guid)s::uuid))"
        " ORDER BY connection, guid LIMIT %(limit)s",
        {
            "tenant": unit.tenant.number, "connection": connection, "states": list(states),
            "engine": start[0], "guid": start[1], "limit": limit,
        },
    )  # fmt: skip
    return [Protection(*row) for row in rows]


def of(unit: Unit, guid: UUID) -> list[Protection]:
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM protection WHERE tenant = %s AND guid = %s ORDER BY connection",
        [unit.tenant.number, guid],
    )
    return [Protection(*row) for row in rows]


def uncovered(unit: Unit, tags: Sequence[str], covered: set[UUID]) -> list[str]:
    """What bears one of these tags, and no engine was told of."""
    rows = unit.conn.execute(
        "SELECT guid, qualified_name FROM asset WHERE tenant = %s AND deleted_by IS NULL"
        " AND guid IN (SELECT guid FROM bearing(%s)) ORDER BY qualified_name LIMIT 10000",
        [unit.tenant.number, list(tags)],
    )
    told = {each.guid for each in page(unit, None, [], None, 100_000)}
    return [name for guid, name in rows if guid not in covered and guid not in told]


def ask_again(unit: Unit, connection: UUID, now: datetime, under: str = "") -> int:
    """Make every protection of an engine due, or those of a table, schema or database."""
    done = unit.conn.execute(
        "UPDATE protection SET next_at = %s WHERE tenant = %s AND connection = %s"
        " AND starts_with(object, %s)",
        [now, unit.tenant.number, connection, under],
    )
    return done.rowcount


def columns(unit: Unit, guid: UUID) -> dict[str, str | None]:
    """The columns of a table in their order, each with its type."""
    rows = unit.conn.execute(
        "SELECT asset_name, metadata ->> 'data_type' FROM asset WHERE tenant = %s AND parent = %s"
        " AND lane = 'fields' AND deleted_by IS NULL"
        " ORDER BY (metadata ->> 'ordinal')::numeric NULLS LAST, asset_name",
        [unit.tenant.number, guid],
    )
    return dict(rows.fetchall())


def wanted(
    unit: Unit,
    guid: UUID,
    engine: str,
    now: datetime,
    roles: Mapping[str, frozenset[str]] = {},  # of users whom Lily itself knows
) -> Compiled | None:
    """What a table should be, read in this transaction; None if there is no such table."""
    tenant = unit.tenant.number
    fields = unit.conn.execute(FIELDS, [tenant, guid]).fetchall()
    found = targets.load(unit, [guid, *(row[0] for row in fields)])
    if guid not in found:
        return None
    found = _unsettled(unit, found)
    kept = policies.about(unit, resources(found.values()))
    index = Index(each.policy for each in kept)
    memberships = circles.memberships(unit)

    def members(user: str) -> tuple[frozenset[str], frozenset[str]]:
        own = roles.get(user, frozenset())
        return memberships.roles(user) | own, memberships.groups(user)

    columns = {name: Column(found[id], kind) for id, name, kind in fields if id in found}
    return Compiled(engine, found[guid], columns, index, members, Situation(now))


def _unsettled(unit: Unit, found: dict[UUID, Target]) -> dict[UUID, Target]:
    """While lineage has not brought everything yet, what is derived counts like its sources."""
    tenant = unit.tenant.number
    if is_settled(unit):
        return found
    guarded = [kept.policy.resource.id for kept in policies.load(unit)
               if kept.policy.resource.kind == "tag" and kept.policy.effect != "allow"]  # fmt: skip
    if not guarded:
        return found
    rows = unit.conn.execute(
        UPSTREAM,
        {"tenant": tenant, "guids": list(found), "tags": guarded, "still": STILL},
    )
    inherited = {guid: frozenset(tags) for guid, tags in rows}
    return {
        guid: msgspec.structs.replace(
            target,
            tags=target.tags.union(*(inherited.get(above, frozenset()) for above in target.chain)),
        )
        for guid, target in found.items()
    }


def is_settled(unit: Unit) -> bool:
    """Whether everything that the feed tells has travelled along lineage."""
    tenant = unit.tenant.number
    if propagation.travels(unit.conn, [tenant]):
        return False
    # Who carries does not tell at once of facts that carry nothing: those are looked through here.
    head, known = feed.head(unit), _QUIET.get(unit.tenant.id, 0)
    at = max(propagation.standing(unit.conn, tenant), known)
    while at < head:
        stirring, at = propagation_feed.read(unit.conn, tenant, at, head)
        if stirring:
            return False
        _QUIET[unit.tenant.id] = at
    return True


class StoredLedger:
    """The ledger of one table in one engine; every change commits by itself."""

    def __init__(
        self, database: Database, tenant: Tenant, connection: UUID, table: str, now: datetime
    ) -> None:
        self._database = database
        self._tenant = tenant
        self._key = [tenant.number, connection, table]
        self._now = now
        self._loaded: list[Entry] | None = None

    def load(self, conn: psycopg.Connection) -> None:
        """Read it in a transaction that is open anyway."""
        rows = conn.execute(
            "SELECT kind, part, grantee, column_name, detail FROM protection_ledger"
            " WHERE tenant = %s AND connection = %s AND object = %s ORDER BY 1, 2, 3, 4",
            self._key,
        )
        self._loaded = [Entry(*row) for row in rows]

    def entries(self) -> Sequence[Entry]:
        if self._loaded is None:
            with self._database.cell(self._tenant.cell, [self._tenant.number]) as conn:
                self.load(conn)
        return self._loaded or []

    def add(self, entries: Iterable[Entry]) -> None:
        self._loaded = None
        with self._database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            for each in entries:
                conn.execute(
                    "INSERT INTO protection_ledger (tenant, connection, object, kind, part,"
                    " grantee, column_name, detail, at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
                    " ON CONFLICT (tenant, connection, object, kind, part, grantee, column_name)"
                    " DO UPDATE SET detail = excluded.detail",
                    [*self._key, each.kind, each.part, each.grantee, each.column,
                     Jsonb(dict(each.detail)), self._now],
                )  # fmt: skip

    def drop(self, entries: Iterable[Entry]) -> None:
        self._loaded = None
        with self._database.cell(self._tenant.cell, [self._tenant.number]) as conn:
            for each in entries:
                conn.execute(
                    "DELETE FROM protection_ledger WHERE tenant = %s AND connection = %s"
                    " AND object = %s AND kind = %s AND part = %s AND grantee = %s"
                    " AND column_name = %s",
                    [*self._key, each.kind, each.part, each.grantee, each.column],
                )


def tell(
    unit: Unit, kind: FactKind, kept: Protection, name: str, cause: str, now: datetime
) -> None:
    """A protection changed its state."""
    after = {
        "connection": str(kept.connection),
        "connection_name": name,
        "state": kept.state,
        "reason": kept.reason,
        "columns": sorted(kept.columns),
    }
    fact = Fact(
        kind=kind, at=now, by="enforcement", cause=cause, guid=kept.guid,
        qualified_name=kept.object, after=after,
    )  # fmt: skip
    feed.record(unit, [fact])


def reported(kept: Protection, report: Report) -> None:
    """What the engine says of it."""
    kept.plan = list(report.plan)
    kept.findings = [msgspec.to_builtins(finding) for finding in report.findings]
    kept.exempt = {column: list(users) for column, users in report.exempt.items()}
    kept.fingerprint = report.fingerprint
