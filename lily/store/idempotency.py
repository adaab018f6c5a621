"""Answers that were given under an Idempotency-Key, kept for a day."""

import msgspec
from psycopg.types.json import Jsonb

from lily.store.database import Database
from lily.store.seal import Seal
from lily.types import Caller

CLAIM = """
INSERT INTO idempotency (tenant, subject, key, request)
VALUES (%(tenant)s, %(subject)s, %(key)s, %(request)s)
ON CONFLICT (tenant, subject, key) DO UPDATE
   SET request = excluded.request, status = NULL, headers = NULL, body = NULL, at = now()
 WHERE idempotency.at < now() - interval '24 hours'
    OR (idempotency.status IS NULL AND idempotency.at < now() - interval '2 minutes')
RETURNING true
"""
FOUND = """
SELECT request, status, headers, body FROM idempotency
 WHERE tenant = %(tenant)s AND subject = %(subject)s AND key = %(key)s
"""
KEEP = """
UPDATE idempotency SET status = %(status)s, headers = %(headers)s, body = %(body)s
 WHERE tenant = %(tenant)s AND subject = %(subject)s AND key = %(key)s
   AND request = %(request)s AND status IS NULL
"""
FORGET = """
DELETE FROM idempotency
 WHERE tenant = %(tenant)s AND subject = %(subject)s AND key = %(key)s
   AND request = %(request)s AND status IS NULL
"""


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


class Earlier(msgspec.Struct, frozen=True):
    """An earlier use of the key: for which request, and its answer unless it is under way."""

    request: bytes
    answer: Answer | None


class Answers:
    """Bodies are sealed: an answer may show a secret that is shown only once."""

    def __init__(self, database: Database, seal: Seal) -> None:
        self._database = database
        self._seal = seal

    def claim(self, caller: Caller, key: str, request: bytes) -> Earlier | None:
        """None when this request is the first and may run now."""
        values = _values(caller, key, request)
        with self._database.unit(caller.tenant) as unit:
            if unit.conn.execute(CLAIM, values).fetchone() is not None:
                return None
            row = unit.conn.execute(FOUND, values).fetchone()
        if row is None:  # it failed a moment ago and gave the key back
            return Earlier(request, None)
        earlier, status, headers, body = row
        if status is None:
            return Earlier(earlier, None)
        return Earlier(earlier, Answer(status, headers, self._seal.open(body, key.encode())))

    def keep(self, caller: Caller, key: str, request: bytes, answer: Answer) -> None:
        values = {
            **_values(caller, key, request),
            "status": answer.status,
            "headers": Jsonb(answer.headers),
            "body": self._seal.seal(answer.body, key.encode()),
        }
        with self._database.unit(caller.tenant) as unit:
            unit.conn.execute(KEEP, values)

    def forget(self, caller: Caller, key: str, request: bytes) -> None:
        """Give the key back: the request had no effect, and may be sent again."""
        with self._database.unit(caller.tenant) as unit:
            unit.conn.execute(FORGET, _values(caller, key, request))


def _values(caller: Caller, key: str, request: bytes) -> dict[str, object]:
    return {
        "tenant": caller.tenant.number,
        "subject": caller.subject,
        "key": key,
        "request": request,
    }
