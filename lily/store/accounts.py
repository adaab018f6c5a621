"""Service accounts: programs that log in with a client id and a secret."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
from psycopg.errors import UniqueViolation

from lily.errors import Conflict, NotFound
from lily.store.database import Unit
from lily.store.desk import Desk
from lily.store.people import end_sessions

COLUMNS = "id, name, role, active, created_at, updated_at"
INSERT = f"""
INSERT INTO service_account (tenant, id, name, secret, role)
VALUES (%s, %s, %s, %s, %s) RETURNING {COLUMNS}
"""
PAGE = f"""
SELECT {COLUMNS} FROM service_account WHERE tenant = %s AND name > %s ORDER BY name LIMIT %s
"""
CHANGE = f"""
UPDATE service_account SET role = %(role)s, active = %(active)s, updated_at = clock_timestamp()
 WHERE tenant = %(tenant)s AND id = %(id)s RETURNING {COLUMNS}
"""
SECRET = """
UPDATE service_account SET secret = %s, updated_at = clock_timestamp()
 WHERE tenant = %s AND id = %s
"""


class Account(msgspec.Struct, frozen=True):
    id: UUID
    name: str
    role: str
    active: bool
    created_at: datetime
    updated_at: datetime


def create(desk: Desk, name: str, role: str, hashed: str) -> Account:
    try:
        row = desk.conn.execute(
            INSERT, [desk.tenant.number, uuid4(), name, hashed, role]
        ).fetchone()
    except UniqueViolation as cause:
        raise Conflict(f"There is already a service account {name}; choose another.") from cause
    assert row is not None
    account = Account(*row)
    desk.note("ServiceAccountCreated", {"account": str(account.id), "name": name, "role": role})
    return account


def page(unit: Unit, after: str, limit: int) -> list[Account]:
    rows = unit.conn.execute(PAGE, [unit.tenant.number, after, limit]).fetchall()
    return [Account(*row) for row in rows]


def get(unit: Unit, id: UUID, lock: bool = False) -> Account:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM service_account WHERE tenant = %s AND id = %s"
        + (" FOR UPDATE" if lock else ""),
        [unit.tenant.number, id],
    ).fetchone()
    if row is None:
        raise NotFound("service account", id)
    return Account(*row)


def change(desk: Desk, id: UUID, wanted: dict[str, Any], life: timedelta) -> Account:
    """Role and active. Less or other rights end what was issued before."""
    old = get(desk.unit, id, lock=True)
    values = {"role": old.role, "active": old.active, **wanted}
    row = desk.conn.execute(CHANGE, {**values, "tenant": desk.tenant.number, "id": id}).fetchone()
    assert row is not None
    new = Account(*row)
    if (new.role, new.active) != (old.role, old.active):
        end_sessions(desk, id, life)
        desk.note(
            "ServiceAccountChanged",
            {"account": str(id), "role": new.role, "active": new.active},
            {"account": str(id), "role": old.role, "active": old.active},
        )
    return new


def set_secret(desk: Desk, id: UUID, hashed: str, life: timedelta) -> Account:
    account = get(desk.unit, id, lock=True)
    desk.conn.execute(SECRET, [hashed, desk.tenant.number, id])
    end_sessions(desk, id, life)
    desk.note("ServiceAccountChanged", {"account": str(id), "secret": "rotated"})
    return account
