"""The keys that sign access tokens: sealed at rest, cached in memory, rotated without a gap."""

import time
from datetime import datetime, timedelta
from threading import Lock

import msgspec
import psycopg
from joserfc.jwk import RSAKey
from psycopg.types.json import Jsonb

from lily.errors import Unavailable
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
RETIRE = "UPDATE token_key SET retired_at = clock_timestamp() WHERE retired_at IS NULL"


class TokenKey(msgspec.Struct, frozen=True):
    kid: str
    key: RSAKey
    public: Json
    retired_at: datetime | None


class Keyring:
    """Signs with the newest key; verifies with each whose tokens may still be in time."""

    def __init__(self, database: Database, seal: Seal, life: timedelta) -> None:
        self._database = database
        self._seal = seal
        self._life = life + GRACE
        self._keys: dict[str, TokenKey] = {}
        self._asked = float("-inf")
        self._lock = Lock()

    def public(self, kid: str) -> RSAKey | None:
        """None for a key that is not ours; a stranger's kid costs at most a look a second."""
        if kid not in self._keys and time.monotonic() - self._asked > SELDOM:
            self._asked = time.monotonic()
            self.refresh()
        found = self._keys.get(kid)
        return found.key if found else None

    def signing(self) -> tuple[str, RSAKey]:
        """The key to sign with; the first one is made here."""
        current = [key for key in self._keys.values() if key.retired_at is None]
        if not current:
            self.ensure()
            current = [key for key in self._keys.values() if key.retired_at is None]
        if not current:
            raise Unavailable("There is no key to sign tokens with.")
        return current[-1].kid, current[-1].key

    def jwks(self) -> list[Json]:
        if not self._keys:
            self.ensure()
        return [key.public for key in self._keys.values()]

    def ensure(self) -> None:
        """Make the first key, once, whoever starts first."""
        with self._database.home() as conn:
            conn.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            if conn.execute("SELECT 1 FROM token_key WHERE retired_at IS NULL").fetchone() is None:
                self._make(conn)
        self.refresh()

    def rotate(self) -> str:
        """A new key signs from now on; the old ones only verify, until their tokens are over."""
        with self._database.home() as conn:
            conn.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            conn.execute(RETIRE)
            kid = self._make(conn)
        self.refresh()
        return kid

    def refresh(self) -> None:
        with self._lock:
            with self._database.home() as conn:
                rows = conn.execute(LIVE, [self._life]).fetchall()
            self._keys = {row[0]: self._known(*row) for row in rows}

    def _known(self, kid: str, private: bytes, public: Json, retired: datetime | None) -> TokenKey:
        if (old := self._keys.get(kid)) is not None:
            return msgspec.structs.replace(old, retired_at=retired)
        key = RSAKey.import_key(self._seal.open(private, kid.encode()))
        return TokenKey(kid, key, public, retired)

    def _make(self, conn: psycopg.Connection) -> str:
        key = RSAKey.generate_key(BITS)
        kid = key.thumbprint()
        public = {**key.as_dict(private=False), "kid": kid, "use": "sig", "alg": "RS256"}
        sealed = self._seal.seal(key.as_pem(private=True), kid.encode())
        conn.execute(INSERT, [kid, sealed, Jsonb(public)])
        return kid
