"""From a header to a caller: at once for a token seen lately, with the store for others."""

import hashlib
from collections import OrderedDict
from datetime import datetime
from threading import Lock
from uuid import UUID

import msgspec

from lily.clock import Clock, micros
from lily.errors import Unauthenticated
from lily.identity import jwt, opaque, roles
from lily.identity.external import subject_of
from lily.identity.oidc import Peek, peek
from lily.identity.ports import Directory, Foreign, Keys, Revocations
from lily.types import Caller

CACHED = 20_000  # tokens, about 1 kB each
FRESH = 60_000_000  # microseconds for which a personal token is not looked up again
LATELY = 5_000_000  # the same for a token of another provider
# A revocation may commit a little after the moment it names. For a personal token a hit only
# means another look, so it may be generous.
MARGIN = 10_000_000


class Verified(msgspec.Struct, frozen=True):
    """A token that was good when it was checked, and what can still end it."""

    caller: Caller
    role: str
    issued: int
    expires: int | None  # microseconds; what /validate says
    stale: int  # microseconds; from here on it is checked as if never seen
    ids: tuple[UUID, ...]
    session: UUID | None = None


class Verifier:
    """Checks tokens. Refuses to answer, with Unavailable, when revocations cannot be followed."""

    def __init__(
        self,
        keys: Keys,
        revocations: Revocations,
        directory: Directory,
        clock: Clock,
        size: int = CACHED,
        foreign: Foreign | None = None,
    ) -> None:
        self._keys = keys
        self._revocations = revocations
        self._directory = directory
        self._clock = clock
        self._size = size
        self._foreign = foreign
        self._seen: OrderedDict[bytes, Verified] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._seen)

    def cached(self, header: str | None) -> Caller | None:
        """The caller of a token seen lately, without any I/O; None when it must be looked at."""
        found = self._recall(_digest(_token(header)))
        return found.caller if found else None

    def authenticate(self, header: str | None) -> Caller:
        return self.verified(header).caller

    def verified(self, header: str | None) -> Verified:
        """Check the token of an Authorization header; may read the database."""
        token = _token(header)
        digest = _digest(token)
        if (found := self._recall(digest)) is not None:
            return found
        personal = opaque.parse(token)
        fresh = self._personal(personal) if personal else self._signed(token)
        with self._lock:
            self._seen[digest] = fresh
            while len(self._seen) > self._size:
                self._seen.popitem(last=False)
        return fresh

    def _recall(self, digest: bytes) -> Verified | None:
        self._revocations.confirm()
        with self._lock:
            found = self._seen.get(digest)
            if found is None:
                return None
            self._seen.move_to_end(digest)
        if micros(self._clock.now()) < found.stale and not self._outdated(found):
            return found
        with self._lock:
            self._seen.pop(digest, None)
        return None

    def _outdated(self, found: Verified) -> bool:
        moved = self._revocations.moved(found.caller.tenant)
        return moved or self._revocations.hit(found.ids, found.issued)

    def _signed(self, token: str) -> Verified:
        """One of ours, or of a provider whose word a tenant takes."""
        claimed = peek(token) if self._foreign is not None else None
        if claimed is None or self._keys.known(claimed.kid) is not None:
            return self._access(token)
        return self._vouched(token, claimed)

    def _vouched(self, token: str, claimed: Peek) -> Verified:
        assert self._foreign is not None
        now = self._clock.now()
        found = self._foreign.vouched(token, claimed, now)
        if found is None:
            raise Unauthenticated(jwt.REFUSAL)
        tenant, who = found
        subjects = tuple(subject_of(tenant, login) for login in who.logins)
        ids = (*subjects, tenant.id)
        issued, end = who.issued * 1_000_000, who.expires * 1_000_000
        if self._revocations.hit(ids, issued):
            raise Unauthenticated(jwt.REFUSAL)
        scopes = roles.scopes_of(who.role)
        digest = _digest(token).hex()[:32]
        caller = Caller(tenant, str(subjects[0]), who.name, scopes, digest, who.role)
        return Verified(caller, who.role, issued, end, min(end, micros(now) + LATELY), ids)

    def _access(self, token: str) -> Verified:
        now = self._clock.now()
        claims = jwt.verify(token, self._keys.known, now)
        ids = (claims.jti, claims.sid, claims.sub, claims.tenant)
        tenant = self._directory.tenant_of(claims.tenant)
        if tenant is None or self._revocations.hit(ids, claims.lat):
            raise Unauthenticated(jwt.REFUSAL)
        scopes = roles.scopes_of(claims.role, claims.platform)
        name, token_id = claims.name, str(claims.jti)
        caller = Caller(tenant, str(claims.sub), name, scopes, token_id, claims.role)
        end = claims.exp * 1_000_000
        return Verified(caller, claims.role, claims.lat, end, end, ids, claims.sid)

    def _personal(self, token: opaque.Opaque) -> Verified:
        bearer = None
        if token.prefix == opaque.PERSONAL:
            bearer = self._directory.bearer(token.tenant, token.digest)
        now = self._clock.now()
        if bearer is None or _over(bearer.expires_at, now):
            raise Unauthenticated(jwt.REFUSAL)
        scopes = roles.scopes_of(bearer.role, bearer.platform)
        subject, token_id = str(bearer.subject), str(bearer.token)
        caller = Caller(bearer.tenant, subject, bearer.name, scopes, token_id, bearer.role)
        ids = (bearer.token, bearer.subject, bearer.tenant.id)
        end = micros(bearer.expires_at) if bearer.expires_at else None
        stale = min(micros(now) + FRESH, end if end is not None else micros(now) + FRESH)
        return Verified(caller, bearer.role, bearer.read_at - MARGIN, end, stale, ids)


def _over(end: datetime | None, now: datetime) -> bool:
    return end is not None and end <= now


def _token(header: str | None) -> str:
    """The one token in `Bearer <token>`; anything else is refused like a bad token."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token or " " in token or "," in token:
        raise Unauthenticated(jwt.REFUSAL)
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
