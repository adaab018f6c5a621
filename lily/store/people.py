"""Persons of a tenant."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
from psycopg.errors import UniqueViolation

from lily.errors import Conflict, NotFound
from lily.store.database import Unit
from lily.store.desk import Desk
from lily.store.revocations import revoke

FIELDS = ("name", "role", "active")
COLUMNS = "id, username, name, role, platform, active, created_at, updated_at"
INSERT = f"""
INSERT INTO person (tenant, id, username, name, password, role, platform)
VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING {COLUMNS}
"""
PAGE = f"""
SELECT {COLUMNS} FROM person
 WHERE tenant = %s AND username > %s ORDER BY username LIMIT %s
"""
CHANGE = f"""
UPDATE person SET name = %(name)s, role = %(role)s, active = %(active)s,
       updated_at = clock_timestamp()
 WHERE tenant = %(tenant)s AND id = %(id)s RETURNING {COLUMNS}
"""
ADMINS = """
SELECT id FROM person WHERE tenant = %s AND role = 'admin' AND active ORDER BY id FOR UPDATE
"""
END_SESSIONS = """
WITH ending AS (
  SELECT tenant, id FROM token
   WHERE tenant = %s AND subject = %s AND kind = 'refresh' AND revoked_at IS NULL
   ORDER BY id FOR UPDATE)
UPDATE token t SET revoked_at = clock_timestamp() FROM ending e
 WHERE t.tenant = e.tenant AND t.id = e.id
"""


class Person(msgspec.Struct, frozen=True):
    id: UUID
    username: str
    name: str
    role: str
    platform: bool
    active: bool
    created_at: datetime
    updated_at: datetime


def create(
    desk: Desk, username: str, name: str, role: str, hashed: str, platform: bool = False
) -> Person:
    values = [desk.tenant.number, uuid4(), username, name, hashed, role, platform]
    try:
        row = desk.conn.execute(INSERT, values).fetchone()
    except UniqueViolation as cause:
        raise Conflict(f"There is already a user {username}; choose another name.") from cause
    assert row is not None
    person = Person(*row)
    desk.note("UserCreated", {"user": str(person.id), "username": username, "role": role})
    return person


def page(unit: Unit, after: str, limit: int) -> list[Person]:
    rows = unit.conn.execute(PAGE, [unit.tenant.number, after, limit]).fetchall()
    return [Person(*row) for row in rows]


def get(unit: Unit, id: UUID, lock: bool = False) -> Person:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM person WHERE tenant = %s AND id = %s"
        + (" FOR UPDATE" if lock else ""),
        [unit.tenant.number, id],
    ).fetchone()
    if row is None:
        raise NotFound("user", id)
    return Person(*row)


def named(unit: Unit, username: str) -> Person:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM person WHERE tenant = %s AND username = %s",
        [unit.tenant.number, username],
    ).fetchone()
    if row is None:
        raise NotFound("user", username)
    return Person(*row)


def change(desk: Desk, id: UUID, wanted: dict[str, Any], life: timedelta) -> Person:
    """Name, role, active. Less or other rights end what was issued before."""
    desk.conn.execute(ADMINS, [desk.tenant.number])
    old = get(desk.unit, id, lock=True)
    values = {"name": old.name, "role": old.role, "active": old.active, **wanted}
    row = desk.conn.execute(CHANGE, {**values, "tenant": desk.tenant.number, "id": id}).fetchone()
    assert row is not None
    new = Person(*row)
    _keep_an_admin(desk)
    if new.role != old.role or (old.active and not new.active):
        end_sessions(desk, id, life)
    changed = [field for field in FIELDS if values[field] != getattr(old, field)]
    if changed:
        desk.note(
            "UserChanged",
            {"user": str(id), **{field: getattr(new, field) for field in changed}},
            {"user": str(id), **{field: getattr(old, field) for field in changed}},
        )
    return new


def set_password(desk: Desk, id: UUID, hashed: str, life: timedelta) -> None:
    done = desk.conn.execute(
        "UPDATE person SET password = %s, updated_at = clock_timestamp()"
        " WHERE tenant = %s AND id = %s",
        [hashed, desk.tenant.number, id],
    )
    if done.rowcount == 0:
        raise NotFound("user", id)
    end_sessions(desk, id, life)
    desk.note("PasswordChanged", {"user": str(id)})


def end_sessions(desk: Desk, subject: UUID, life: timedelta) -> None:
    desk.conn.execute(END_SESSIONS, [desk.tenant.number, subject])
    revoke(desk.conn, subject, life)


def _keep_an_admin(desk: Desk) -> None:
    if desk.conn.execute(ADMINS, [desk.tenant.number]).fetchone() is None:
        raise Conflict("A tenant needs an active admin; make somebody else admin first.")
