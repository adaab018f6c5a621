"""The keys that sign access tokens: sealed at rest, cached in memory, rotated without a gap."""

import time
from datetime import datetime, timedelta
from threading import Lock

import msgspec
import psycopg
from joserfc.jwk import RSAKey
from psycopg.types.json import Jsonb

from lily.errors import Unavailable
from lily.identity.jwt import ALGORITHM, Key
from lily.store.database import Database
from lily.store.seal import Seal
from lily.types import Json

LOCK = 0x6C696C79_0001
BITS = 2048
GRACE = timedelta(minutes=2)  # for processes that have not heard of the new key yet
SELDOM = 1.0  # seconds between looks for a key id that nobody knows

LIVE = """
SELECT kid, private, public, retired_at FROM token_key
 WHERE retired_at IS NULL OR retired_at > now() - %s ORDER BY created_at, kid
"""
INSERT = "INSERT INTO token_key (kid, private, public) VALUES (%s, %s, %s)"
NEWEST = """
SELECT public ->> 'iss' FROM token_key WHERE retired_at IS NULL ORDER BY created_at DESC LIMIT 1
"""
RETIRE = "UPDATE token_key SET retired_at = clock_timestamp() WHERE retired_at IS NULL"


class TokenKey(Key, frozen=True):
    public: Json
    retired_at: datetime | None


class Keyring:
    """Signs with the newest key; verifies with each whose tokens may still be in time."""

    def __init__(
        self, database: Database, seal: Seal, life: timedelta, issuer: str, named: bool = False
    ) -> None:
        """`named` issuers are a setting; otherwise the one that the first process had counts.

        So processes on several ports accept each other's tokens without any configuration.
        """
        self._database = database
        self._seal = seal
        self._issuer = issuer
        self._named = named
        self._life = life + GRACE
        self._keys: dict[str, TokenKey] = {}
        self._asked = float("-inf")
        self._lock = Lock()

    def known(self, kid: str) -> Key | None:
        """None for a key that is not ours; a stranger's kid costs at most a look a second."""
        if kid not in self._keys and time.monotonic() - self._asked > SELDOM:
            self._asked = time.monotonic()
            self.refresh()
        return self._keys.get(kid)

    def signing(self) -> Key:
        """The key to sign with; the first one is made here."""
        if self._current() is None:
            self.ensure()
        current = self._current()
        if current is None:
            raise Unavailable("There is no key to sign tokens with.")
        return current

    def jwks(self) -> list[Json]:
        if not self._keys:
            self.ensure()
        return [key.public for key in self._keys.values()]

    def ensure(self) -> None:
        """Make the first key, or one for a new name; once, whoever starts first."""
        with self._database.home() as conn:
            conn.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            if self._name(conn) != _newest(conn):
                self._renew(conn)
        self.refresh()

    def rotate(self) -> str:
        """A new key signs from now on; the old ones only verify, until their tokens are over."""
        with self._database.home() as conn:
            conn.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            kid = self._renew(conn)
        self.refresh()
        return kid

    def refresh(self) -> None:
        with self._lock:
            with self._database.home() as conn:
                rows = conn.execute(LIVE, [self._life]).fetchall()
            self._keys = {row[0]: self._known(*row) for row in rows}

    def _current(self) -> TokenKey | None:
        return next((key for key in reversed(self._keys.values()) if not key.retired_at), None)

    def _known(self, kid: str, private: bytes, public: Json, retired: datetime | None) -> TokenKey:
        if (old := self._keys.get(kid)) is not None:
            return msgspec.structs.replace(old, retired_at=retired)
        key = RSAKey.import_key(self._seal.open(private, kid.encode()))
        return TokenKey(kid, key, str(public["iss"]), public, retired)

    def _name(self, conn: psycopg.Connection) -> str:
        return self._issuer if self._named else _newest(conn) or self._issuer

    def _renew(self, conn: psycopg.Connection) -> str:
        name = self._name(conn)
        conn.execute(RETIRE)
        key = RSAKey.generate_key(BITS)
        kid = key.thumbprint()
        about = {"kid": kid, "use": "sig", "alg": ALGORITHM, "iss": name}
        public = {**key.as_dict(private=False), **about}
        sealed = self._seal.seal(key.as_pem(private=True), kid.encode())
        conn.execute(INSERT, [kid, sealed, Jsonb(public)])
        return kid


def _newest(conn: psycopg.Connection) -> str | None:
    """In whose name tokens are signed now."""
    row = conn.execute(NEWEST).fetchone()
    return row[0] if row else None
