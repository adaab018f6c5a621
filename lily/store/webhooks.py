"""Where tools call: addresses of connections, and the options that were good until lately."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from lily.identity import opaque
from lily.store import connections
from lily.store.connections import Connection
from lily.store.database import Database, Unit

MAKE = (
    "INSERT INTO webhook_endpoint (tenant, connection, token) VALUES (%s, %s, %s)"
    " ON CONFLICT (tenant, connection) DO NOTHING"
)
ROTATE = (
    "UPDATE webhook_endpoint SET previous_options = %s, previous_secrets = %s,"
    " previous_until = %s WHERE tenant = %s AND connection = %s"
)
TOKENS = "SELECT connection, token FROM webhook_endpoint WHERE tenant = %s AND connection = ANY(%s)"
_CONNECTION = ", ".join(f"c.{name.strip()}" for name in connections.COLUMNS.split(","))
FOUND = (
    f"SELECT e.previous_options, e.previous_secrets, e.previous_until, {_CONNECTION}"
    " FROM webhook_endpoint e JOIN connection c ON c.tenant = e.tenant AND c.id = e.connection"
    " WHERE c.enabled AND e.tenant = %s AND "
)
CLAIM = (
    "INSERT INTO webhook_claim (tenant, plugin, account, connection) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (tenant, connection) DO UPDATE SET account = excluded.account"
)
UNCLAIM = "DELETE FROM webhook_claim WHERE tenant = %s AND connection = %s"


class Endpoint(msgspec.Struct, frozen=True):
    """A connection that is called, with the options before the last change while they hold."""

    connection: Connection
    previous_options: dict[str, Any] | None
    previous_secrets: bytes | None
    previous_until: datetime | None

    def ways(self, now: datetime) -> list[tuple[dict[str, Any], bytes | None]]:
        """Options and sealed secrets to try, the newest first."""
        found = [(self.connection.options, self.connection.secrets)]
        until = self.previous_until
        if self.previous_options is not None and until is not None and now < until:
            found.append((self.previous_options, self.previous_secrets))
        return found


def make(unit: Unit, connection: UUID) -> str:
    """An address that nobody can guess; the same again for a connection that has one."""
    unit.conn.execute(MAKE, [unit.tenant.number, connection, opaque.secret()])
    return tokens(unit, [connection])[connection]


def tokens(unit: Unit, ids: list[UUID]) -> dict[UUID, str]:
    """The unguessable part of each address, of those that have one."""
    return dict(unit.conn.execute(TOKENS, [unit.tenant.number, ids]).fetchall())


def keep_previous(unit: Unit, before: Connection, until: datetime) -> None:
    """The options before a change stay good until then."""
    values = [Jsonb(before.options), before.secrets, until, unit.tenant.number, before.id]
    unit.conn.execute(ROTATE, values)


def by_token(unit: Unit, token: str) -> Endpoint | None:
    return _endpoint(unit, "e.token = %s", token)


def by_connection(unit: Unit, id: UUID) -> Endpoint | None:
    return _endpoint(unit, "e.connection = %s", id)


def _endpoint(unit: Unit, where: str, value: object) -> Endpoint | None:
    row = unit.conn.execute(FOUND + where, [unit.tenant.number, value]).fetchone()
    if row is None:
        return None
    options, secrets, until, *rest = row
    return Endpoint(Connection(*rest), options, secrets, until)


def claim(unit: Unit, plugin: str, account: str, connection: UUID) -> None:
    """In the home database: this account is ours, we say."""
    if account:
        unit.conn.execute(CLAIM, [unit.tenant.number, plugin, account, connection])
    else:
        unclaim(unit, connection)


def unclaim(unit: Unit, connection: UUID) -> None:
    unit.conn.execute(UNCLAIM, [unit.tenant.number, connection])


def claims(database: Database, plugin: str, account: str) -> list[tuple[int, UUID]]:
    """Who says that the account is theirs: tenants and their connections."""
    with database.home() as conn:
        rows = conn.execute(
            "SELECT tenant, connection FROM webhook_claims(%s, %s)", [plugin, account]
        ).fetchall()
    return [(tenant, connection) for tenant, connection in rows]
