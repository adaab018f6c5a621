"""Personal tokens, and whom a token text belongs to."""

from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import msgspec
import psycopg

from lily.clock import micros
from lily.errors import NotFound, Unavailable
from lily.identity import roles
from lily.identity.ports import Bearer
from lily.store.database import TENANTS, Database, Unit
from lily.store.desk import Desk
from lily.store.revocations import revoke
from lily.types import Tenant

COLUMNS = "id, subject, name, role, created_at, expires_at, revoked_at, used_at"
INSERT = f"""
INSERT INTO token (tenant, id, kind, subject, name, digest, role, created_at, expires_at)
SELECT %(tenant)s, %(id)s, 'personal', %(subject)s, %(name)s, %(digest)s, %(role)s, at,
       at + %(life)s FROM clock_timestamp() AS at RETURNING {COLUMNS}
"""
PAGE = f"""
SELECT {COLUMNS} FROM token
 WHERE tenant = %s AND subject = %s AND kind = 'personal' AND revoked_at IS NULL AND id > %s
 ORDER BY id LIMIT %s
"""
REVOKE = """
UPDATE token SET revoked_at = clock_timestamp()
 WHERE tenant = %(tenant)s AND id = %(id)s AND kind = 'personal' AND revoked_at IS NULL
   AND (%(subject)s::uuid IS NULL OR subject = %(subject)s) RETURNING name, subject
"""
BEARER = """
SELECT t.id, p.id, p.username, p.role, p.platform, t.role, t.expires_at, now()
  FROM token t JOIN person p ON p.tenant = t.tenant AND p.id = t.subject AND p.active
 WHERE t.tenant = %s AND t.digest = %s AND t.kind = 'personal' AND t.revoked_at IS NULL
"""
# Who looks again within a minute has said so already; another process may have.
USED = """
UPDATE token SET used_at = now()
 WHERE tenant = %s AND id = %s AND (used_at IS NULL OR used_at < now() - interval '1 minute')
"""


class PersonalToken(msgspec.Struct, frozen=True):
    id: UUID
    subject: UUID
    name: str
    role: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None


def create(
    desk: Desk, subject: UUID, name: str, digest: bytes, role: str | None, life: timedelta
) -> PersonalToken:
    row = desk.conn.execute(
        INSERT,
        {
            "tenant": desk.tenant.number,
            "id": uuid4(),
            "subject": subject,
            "name": name,
            "digest": digest,
            "role": role,
            "life": life,
        },
    ).fetchone()
    assert row is not None
    token = PersonalToken(*row)
    desk.note("TokenCreated", {"token": str(token.id), "user": str(subject), "name": name})
    return token


def page(unit: Unit, subject: UUID, after: UUID, limit: int) -> list[PersonalToken]:
    rows = unit.conn.execute(PAGE, [unit.tenant.number, subject, after, limit]).fetchall()
    return [PersonalToken(*row) for row in rows]


def end(desk: Desk, id: UUID, subject: UUID | None, life: timedelta) -> None:
    """Revoke a token; of this subject only, unless None."""
    values = {"tenant": desk.tenant.number, "id": id, "subject": subject}
    row = desk.conn.execute(REVOKE, values).fetchone()
    if row is None:
        raise NotFound("token", id)
    revoke(desk.conn, id, life)
    desk.note("TokenRevoked", {"token": str(id), "name": row[0], "user": str(row[1])})


class Directory:
    """Looks up whose token it is, as things are now."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def tenant_of(self, id: UUID) -> Tenant | None:
        return self._active("id", id)

    def bearer(self, tenant: int, digest: bytes) -> Bearer | None:
        owner = self._active("number", tenant)
        if owner is None:
            return None
        with self._database.home_unit(owner) as unit:
            row = unit.conn.execute(BEARER, [tenant, digest]).fetchone()
        if row is None:
            return None
        token, subject, name, own, platform, limited, expires, at = row
        # A token made when its owner had more rights may not keep them.
        if limited and not roles.weaker(limited, own):
            return None
        self._note_used(owner, token)
        role, whole = limited or own, platform and not limited
        return Bearer(owner, token, subject, name, role, whole, expires, micros(at))

    def _note_used(self, owner: Tenant, token: UUID) -> None:
        """Roughly when it was used last. That this cannot be written refuses nobody."""
        with suppress(Unavailable, psycopg.Error), self._database.home_unit(owner) as unit:
            unit.conn.execute(USED, [owner.number, token])

    def _active(self, column: str, value: UUID | int) -> Tenant | None:
        with self._database.home() as conn:
            row = conn.execute(
                f"{TENANTS} WHERE {column} = %s AND state <> 'suspended'",
                [value],
            ).fetchone()
        return Tenant(*row) if row else None
