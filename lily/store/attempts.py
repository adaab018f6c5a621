"""Failed logins, counted by user and by address."""

from contextlib import AbstractContextManager
from datetime import datetime
from threading import Lock
from uuid import UUID

from lily.errors import Throttled
from lily.identity import throttle
from lily.store.database import HOME, Database
from lily.types import Tenant

# Guesses at tenants that do not exist are counted too: the answers must not tell the difference.
NOWHERE = Tenant(0, UUID(int=0), "", HOME)

FAILURES = """
SELECT at, username = %(username)s, address = %(address)s, now() FROM login_failure
 WHERE tenant = %(tenant)s AND at > now() - %(window)s
   AND (username = %(username)s OR address = %(address)s)
 ORDER BY at DESC LIMIT 200
"""
INSERT = "INSERT INTO login_failure (tenant, username, address, at) VALUES (%s, %s, %s, now())"
CLEAR = "DELETE FROM login_failure WHERE tenant = %s AND username = %s"


class Attempts:
    """Lets one login of a user through at a time, so that guesses in parallel count too."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turns = [Lock() for _ in range(64)]

    def turn(self, tenant: Tenant, username: str) -> AbstractContextManager[object]:
        return self._turns[hash((tenant.number, username)) % len(self._turns)]

    def check(self, tenant: Tenant, username: str, address: str) -> bool:
        """Whether there were failures; raises Throttled while user or address have to wait."""
        values = {
            "tenant": tenant.number,
            "username": username,
            "address": address,
            "window": throttle.WINDOW,
        }
        with self._database.home_unit(tenant) as unit:
            rows = unit.conn.execute(FAILURES, values).fetchall()
        if not rows:
            return False
        now: datetime = rows[0][3]
        by_user = throttle.wait([row[0] for row in rows if row[1]], throttle.PER_USER, now)
        by_address = throttle.wait([row[0] for row in rows if row[2]], throttle.PER_ADDRESS, now)
        if (pause := max(by_user, by_address)) > 0:
            raise Throttled("Too many failed logins; wait before the next try.", pause)
        return True

    def failed(self, tenant: Tenant, username: str, address: str) -> None:
        with self._database.home_unit(tenant) as unit:
            unit.conn.execute(INSERT, [tenant.number, username, address])

    def clear(self, tenant: Tenant, username: str) -> None:
        with self._database.home_unit(tenant) as unit:
            unit.conn.execute(CLEAR, [tenant.number, username])
