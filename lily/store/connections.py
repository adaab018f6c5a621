"""A tenant's configured uses of plug-ins. Secrets are sealed before they get here."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.errors import Conflict, NotFound, Stale
from lily.events.facts import Fact, FactKind
from lily.identity.actor import Actor
from lily.store import feed
from lily.store.database import Unit

MOST = 100

Unseal = Callable[[bytes, bytes], bytes]  # what was sealed, and to what

COLUMNS = (
    "id, name, plugin, uses, options, secrets, schedule, ordinal, enabled, revision,"
    " created_at, updated_at"
)


class Connection(msgspec.Struct, frozen=True):
    """Which plug-in, with what options, in which order. `options` never holds a secret."""

    id: UUID
    name: str
    plugin: str
    uses: list[str]
    options: dict[str, Any]
    secrets: bytes | None
    schedule: str | None
    ordinal: int
    enabled: bool
    revision: int
    created_at: datetime
    updated_at: datetime


class HookKey(msgspec.Struct, frozen=True):
    """Says whether a hook is still the one that was built."""

    tenant: int
    id: UUID
    revision: int


def about(tenant: int, id: UUID) -> bytes:
    """What a connection's secrets are sealed to: moved to another row, they do not open."""
    return f"connection:{tenant}:{id}".encode()


def opened(unseal: Unseal, tenant: int, connection: Connection) -> bytes | None:
    """The secrets, for whoever builds the plug-in."""
    if connection.secrets is None:
        return None
    return unseal(connection.secrets, about(tenant, connection.id))


def create(unit: Unit, connection: Connection, actor: Actor) -> None:
    _leave_room(unit)
    values = [unit.tenant.number, *_values(connection)]
    try:
        unit.conn.execute(
            f"INSERT INTO connection (tenant, {COLUMNS})"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            values,
        )
    except psycopg.errors.UniqueViolation:
        raise _taken(connection.name) from None
    _record(unit, "ConnectionCreated", actor, connection.updated_at, None, connection)


def get(unit: Unit, id: UUID) -> Connection:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM connection WHERE tenant = %s AND id = %s",
        [unit.tenant.number, id],
    ).fetchone()
    if row is None:
        raise NotFound("connection", id)
    return Connection(*row)


def locked(unit: Unit, id: UUID, revision: int | None) -> Connection:
    """The connection, kept from changing until the end of the transaction."""
    unit.conn.execute(
        "SELECT FROM connection WHERE tenant = %s AND id = %s FOR UPDATE", [unit.tenant.number, id]
    )
    found = get(unit, id)
    if revision is not None and revision != found.revision:
        raise Stale(
            f"The connection is at revision {found.revision}; read it again and repeat the change."
        )
    return found


def page(unit: Unit, after: tuple[int, str] | None, limit: int) -> list[Connection]:
    """In the order in which hooks run."""
    ordinal, name = after or (None, None)
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM connection WHERE tenant = %(tenant)s"
        " AND (%(ordinal)s::int IS NULL OR (ordinal, name) > (%(ordinal)s, %(name)s::text))"
        " ORDER BY ordinal, name LIMIT %(limit)s",
        {"tenant": unit.tenant.number, "ordinal": ordinal, "name": name, "limit": limit},
    ).fetchall()
    return [Connection(*row) for row in rows]


def change(unit: Unit, before: Connection, after: Connection, actor: Actor) -> Connection:
    """Store what differs; what changes nothing makes no revision and no fact."""
    same = msgspec.structs.replace(
        after, revision=before.revision, updated_at=before.updated_at, secrets=before.secrets
    )
    if same == before and after.secrets == before.secrets:
        return before
    after = msgspec.structs.replace(after, revision=before.revision + 1)
    try:
        unit.conn.execute(
            "UPDATE connection SET name = %s, plugin = %s, uses = %s, options = %s, secrets = %s,"
            " schedule = %s, ordinal = %s, enabled = %s, revision = %s, created_at = %s,"
            " updated_at = %s WHERE tenant = %s AND id = %s",
            [*_values(after)[1:], unit.tenant.number, before.id],
        )
    except psycopg.errors.UniqueViolation:
        raise _taken(after.name) from None
    _record(unit, "ConnectionChanged", actor, after.updated_at, before, after)
    return after


def delete(unit: Unit, gone: Connection, actor: Actor, at: datetime) -> None:
    unit.conn.execute(
        "DELETE FROM connection WHERE tenant = %s AND id = %s", [unit.tenant.number, gone.id]
    )
    _record(unit, "ConnectionDeleted", actor, at, gone, None)


def hook_keys(conn: psycopg.Connection, tenants: Sequence[int]) -> list[HookKey]:
    """The hooks in force for these tenants, in their order: cheap enough for every batch."""
    rows = conn.execute(
        "SELECT tenant, id, revision FROM connection"
        " WHERE tenant = ANY(%s) AND enabled AND 'hook' = ANY(uses)"
        " ORDER BY tenant, ordinal, name",
        [list(tenants)],
    ).fetchall()
    return [HookKey(*row) for row in rows]


def by_keys(conn: psycopg.Connection, keys: Sequence[HookKey]) -> dict[HookKey, Connection]:
    """Those of the asked that still exist; each under the key that was asked for."""
    rows = conn.execute(
        f"SELECT tenant, {COLUMNS} FROM connection WHERE tenant = ANY(%s) AND id = ANY(%s)",
        [list({key.tenant for key in keys}), [key.id for key in keys]],
    ).fetchall()
    found = {(row[0], row[1]): Connection(*row[1:]) for row in rows}
    return {key: found[key.tenant, key.id] for key in keys if (key.tenant, key.id) in found}


def _leave_room(unit: Unit) -> None:
    """Every hook sees every observation of the tenant: too many would hold up its neighbours."""
    row = unit.conn.execute(
        "SELECT count(*) FROM connection WHERE tenant = %s", [unit.tenant.number]
    ).fetchone()
    if row is not None and row[0] >= MOST:
        raise Conflict(f"A tenant has at most {MOST} connections; delete one that is not needed.")


def _values(connection: Connection) -> list[Any]:
    values = list(msgspec.structs.astuple(connection))
    values[4] = Jsonb(connection.options)
    return values


def _taken(name: str) -> Conflict:
    return Conflict(f"There is already a connection named {name!r}; choose another name.")


def _record(
    unit: Unit,
    kind: FactKind,
    actor: Actor,
    at: datetime,
    before: Connection | None,
    after: Connection | None,
) -> None:
    fact = Fact(
        kind=kind,
        at=at,
        by=actor.name,
        cause=actor.cause,
        before=_shown(before),
        after=_shown(after),
        traceparent=actor.traceparent,
    )
    feed.record(unit, [fact])


def _shown(connection: Connection | None) -> dict[str, Any] | None:
    """Everything but the secrets, not even sealed: facts leave the house."""
    if connection is None:
        return None
    shown: dict[str, Any] = msgspec.to_builtins(connection)
    shown["id"] = str(connection.id)
    del shown["secrets"]
    return shown
