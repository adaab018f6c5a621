"""Somebody may no longer get in: sessions, personal tokens and foreign tokens end at once."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from lily.clock import Clock
from lily.identity.actor import Actor
from lily.identity.external import subject_of
from lily.store.database import Database
from lily.store.desk import Desk, desk
from lily.store.people import end_sessions
from lily.store.revocations import revoke
from lily.types import Tenant

KNOWN = (
    "SELECT id, username FROM person WHERE tenant = %s AND active AND lower(username) = ANY(%s)"
    " ORDER BY id FOR UPDATE"
)
DEACTIVATE = (
    "UPDATE person SET active = false, updated_at = clock_timestamp() WHERE tenant = %s AND id = %s"
)
TOKENS = (
    "UPDATE token SET revoked_at = clock_timestamp() WHERE tenant = %s AND subject = %s"
    " AND kind = 'personal' AND revoked_at IS NULL RETURNING id"
)
LAST_ADMIN = (
    "SELECT count(*) FROM person WHERE tenant = %s AND role = 'admin' AND active AND id <> %s"
)
FOREIGN = timedelta(days=2)  # longer than any provider's access token lives


def leave(
    database: Database,
    clock: Clock,
    tenant: Tenant,
    actor: Actor,
    logins: Sequence[str],
    reason: str,
    life: timedelta,
) -> None:
    """End everything that these logins hold. Again, it changes nothing."""
    with desk(database, clock, tenant, actor) as work:
        for login in logins:
            revoke(work.conn, subject_of(tenant, login), FOREIGN)
        names = [login.lower() for login in logins]
        rows = work.conn.execute(KNOWN, [tenant.number, names]).fetchall()
        for id, username in rows:
            _end(work, id, username, reason, life)


def _end(work: Desk, id: UUID, username: str, reason: str, life: timedelta) -> None:
    tenant = work.tenant.number
    for (token,) in work.conn.execute(TOKENS, [tenant, id]).fetchall():
        revoke(work.conn, token, life)
    end_sessions(work, id, life)
    row = work.conn.execute(LAST_ADMIN, [tenant, id]).fetchone()
    # The last admin loses every token, but may log in again: a tenant must not lock itself out.
    active = row is not None and row[0] == 0
    if not active:
        work.conn.execute(DEACTIVATE, [tenant, id])
    work.note(
        "UserChanged",
        {"user": str(id), "username": username, "active": active, "reason": reason},
        {"user": str(id), "active": True},
    )
