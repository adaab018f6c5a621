"""Logging in, staying in, and out again."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import msgspec

from lily.clock import Clock, micros
from lily.errors import Invalid, NotFound, Unauthenticated
from lily.identity import jwt, opaque, passwords
from lily.identity.actor import Actor
from lily.identity.oidc import Foreigner, Provider
from lily.store.attempts import NOWHERE, Attempts
from lily.store.database import Database
from lily.store.desk import Desk, desk, record
from lily.store.keys import Keyring
from lily.store.providers import welcome
from lily.store.revocations import revoke
from lily.telemetry import LOGINS
from lily.types import Caller, Tenant

REFUSED = "The tenant, user or password is not right."
REFRESH_REFUSED = "The refresh token is not valid any more. Log in again."

PERSON = "SELECT id, username, password, role, platform FROM person WHERE tenant = %s AND active"
ACCOUNT = "SELECT id, name, secret, role, false FROM service_account WHERE tenant = %s AND active"
ACTIVE = "SELECT state <> 'suspended' FROM tenant WHERE number = %s FOR SHARE"
REMEMBER = """
INSERT INTO token (tenant, id, kind, subject, digest, session, created_at, expires_at)
VALUES (%(tenant)s, %(id)s, 'refresh', %(subject)s, %(digest)s, %(session)s, %(at)s, %(end)s)
"""
OWNER = "SELECT subject FROM token WHERE tenant = %s AND digest = %s AND kind = 'refresh'"
PRESENTED = """
SELECT id, session, used_at IS NOT NULL, revoked_at IS NOT NULL, expires_at <= now()
  FROM token WHERE tenant = %s AND digest = %s FOR UPDATE
"""
USED = "UPDATE token SET used_at = clock_timestamp() WHERE tenant = %s AND id = %s"
END_SESSION = """
WITH ending AS (
  SELECT tenant, id FROM token
   WHERE tenant = %s AND session = %s AND revoked_at IS NULL ORDER BY id FOR UPDATE)
UPDATE token t SET revoked_at = clock_timestamp() FROM ending e
 WHERE t.tenant = e.tenant AND t.id = e.id
"""


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a login gives."""

    access_token: str
    expires_in: int
    token_type: str = msgspec.field(default="Bearer")
    refresh_token: str | None = None


class Subject(msgspec.Struct, frozen=True):
    """Somebody who may log in: a person or a service account."""

    id: UUID
    name: str
    secret: str
    role: str
    platform: bool


class Proof(msgspec.Struct, frozen=True):
    """What somebody shows to get in. `key` is what failures are counted under."""

    query: str
    who: str | UUID
    key: str
    secret: str
    refreshable: bool


class Terms(msgspec.Struct, frozen=True):
    """For how long tokens are good."""

    access: timedelta
    refresh: timedelta

    @property
    def memory(self) -> timedelta:
        """How long a revocation is kept: until nothing from before can be valid."""
        return self.access + timedelta(minutes=5)


class Sessions:
    """Proofs of identity in, tokens out."""

    def __init__(self, database: Database, keys: Keyring, clock: Clock, terms: Terms) -> None:
        self._database = database
        self._keys = keys
        self._clock = clock
        self._terms = terms
        self._attempts = Attempts(database)

    def login(self, tenant: str, username: str, password: str, address: str, actor: Actor) -> Grant:
        """A person, with a password."""
        where = self._tenant(tenant)
        key = username if where is not NOWHERE else f"{tenant}/{username}"
        proof = Proof(f"{PERSON} AND username = %s", username, key, password, True)
        return self._prove(where, proof, address, actor)

    def client(self, client_id: str, secret: str, address: str, actor: Actor) -> Grant:
        """A service account, with its secret. It can always come again: no refresh token."""
        parsed = opaque.parse_client_id(client_id)
        where = self._tenant(parsed[0]) if parsed else NOWHERE
        who = parsed[1] if parsed else NOWHERE.id
        proof = Proof(f"{ACCOUNT} AND id = %s", who, client_id, secret, False)
        return self._prove(where, proof, address, actor)

    def vouch(self, tenant: Tenant, provider: Provider, who: Foreigner, actor: Actor) -> Grant:
        """Somebody for whom another provider vouches. They can always come again from there."""
        actor = msgspec.structs.replace(actor, name=who.name)
        with desk(self._database, self._clock, tenant, actor) as work:
            person = welcome(work, provider, who, self._terms.memory)
            if not _active(work):
                raise Unauthenticated(REFUSED)
            subject = Subject(person.id, person.name, "", person.role, False)
            grant = self._issue(work, subject, uuid4(), False)
            work.note("LoginSucceeded", {"subject": str(person.id), "provider": provider.name})
        LOGINS.labels("succeeded").inc()
        return grant

    def refresh(self, text: str, actor: Actor) -> Grant:
        """Exchange a refresh token for a new pair. One shown twice ends the session: it leaked."""
        token = opaque.parse(text)
        where = self._tenant(token.tenant) if token else NOWHERE
        if token is None or where is NOWHERE:
            raise Unauthenticated(REFRESH_REFUSED)
        with desk(self._database, self._clock, where, actor) as work:
            grant = self._exchange(work, token)
        if grant is None:
            raise Unauthenticated(REFRESH_REFUSED)
        return grant

    def logout(self, tenant: Tenant, session: UUID, actor: Actor) -> None:
        with desk(self._database, self._clock, tenant, actor) as work:
            self._end(work, session)
            work.note("LoggedOut", {"session": str(session)})

    def confirm(self, caller: Caller, password: str, address: str) -> None:
        """Raise Invalid unless this is the caller's password; guesses count as failed logins."""
        tenant = caller.tenant
        proof = Proof(f"{PERSON} AND id = %s", UUID(caller.subject), caller.name, password, False)
        with self._attempts.turn(tenant, proof.key):
            self._attempts.check(tenant, proof.key, address)
            found = self._find(tenant, proof)
            if passwords.matches(password, found.secret if found else None):
                return
            self._attempts.failed(tenant, proof.key, address)
        raise Invalid("is not your password", "old_password")

    def _prove(self, tenant: Tenant, proof: Proof, address: str, actor: Actor) -> Grant:
        with self._attempts.turn(tenant, proof.key):
            failures = self._attempts.check(tenant, proof.key, address)
            found = self._find(tenant, proof)
            right = passwords.matches(proof.secret, found.secret if found else None)
            # What was typed as a name may be a password: only known names are written down.
            actor = msgspec.structs.replace(actor, name=found.name if found else "unknown")
            grant = self._admit(tenant, proof, found, actor) if found and right else None
            if grant is None:
                self._refuse(tenant, proof, address, actor)
            elif failures:
                self._attempts.clear(tenant, proof.key)
        if grant is None:
            raise Unauthenticated(REFUSED)
        LOGINS.labels("succeeded").inc()
        return grant

    def _find(self, tenant: Tenant, proof: Proof) -> Subject | None:
        with self._database.home_unit(tenant) as unit:
            row = unit.conn.execute(proof.query, [tenant.number, proof.who]).fetchone()
        return Subject(*row) if row else None

    def _admit(self, tenant: Tenant, proof: Proof, seen: Subject, actor: Actor) -> Grant | None:
        """Issue tokens, unless the subject changed while its secret was being compared."""
        with desk(self._database, self._clock, tenant, actor) as work:
            row = work.conn.execute(
                f"{proof.query} FOR SHARE", [tenant.number, proof.who]
            ).fetchone()
            if row is None or Subject(*row) != seen or not _active(work):
                return None
            grant = self._issue(work, seen, uuid4(), proof.refreshable)
            work.note("LoginSucceeded", {"subject": str(seen.id)})
            return grant

    def _refuse(self, tenant: Tenant, proof: Proof, address: str, actor: Actor) -> None:
        LOGINS.labels("refused").inc()
        self._attempts.failed(tenant, proof.key, address)
        if tenant is not NOWHERE:
            record(self._database, self._clock, tenant, actor, "LoginRefused", address=address)

    def _issue(self, work: Desk, subject: Subject, session: UUID, refreshable: bool) -> Grant:
        """The subject's row is locked: a revocation comes wholly before or wholly after this."""
        row = work.conn.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        key = self._keys.signing()
        token = jwt.sign(self._claims(work.tenant, subject, session, row[0], key.issuer), key)
        refresh = self._remember(work, subject, session, row[0]) if refreshable else None
        life = int(self._terms.access.total_seconds())
        return Grant(access_token=token, expires_in=life, refresh_token=refresh)

    def _claims(
        self, tenant: Tenant, subject: Subject, session: UUID, issued: datetime, issuer: str
    ) -> jwt.Claims:
        now = int(self._clock.now().timestamp())
        return jwt.Claims(
            iss=issuer,
            aud=jwt.AUDIENCE,
            exp=now + int(self._terms.access.total_seconds()),
            nbf=now,
            iat=now,
            lat=micros(issued),
            jti=uuid4(),
            sid=session,
            sub=subject.id,
            tenant=tenant.id,
            role=subject.role,
            name=subject.name,
            platform=subject.platform,
        )

    def _remember(self, work: Desk, subject: Subject, session: UUID, at: datetime) -> str:
        token = opaque.new(opaque.REFRESH, work.tenant.number)
        values = {
            "tenant": work.tenant.number,
            "id": uuid4(),
            "subject": subject.id,
            "digest": token.digest,
            "session": session,
            "at": at,
            "end": at + self._terms.refresh,
        }
        work.conn.execute(REMEMBER, values)
        return token.text

    def _exchange(self, work: Desk, token: opaque.Opaque) -> Grant | None:
        """The person is locked before the token, as by whoever ends a person's sessions."""
        presented = [work.tenant.number, token.digest]
        owner = work.conn.execute(OWNER, presented).fetchone()
        if owner is None:
            return None
        row = work.conn.execute(
            f"{PERSON} AND id = %s FOR SHARE", [work.tenant.number, owner[0]]
        ).fetchone()
        found = work.conn.execute(PRESENTED, presented).fetchone()
        if found is None:
            return None
        id, session, used, revoked, over = found
        if used and not revoked:
            self._end(work, session)
            work.note("TokenRevoked", {"session": str(session), "reason": "refreshed twice"})
        if used or revoked or over or row is None or not _active(work):
            return None
        work.conn.execute(USED, [work.tenant.number, id])
        return self._issue(work, Subject(*row), session, True)

    def _end(self, work: Desk, session: UUID) -> None:
        work.conn.execute(END_SESSION, [work.tenant.number, session])
        revoke(work.conn, session, self._terms.memory)

    def _tenant(self, key: str | int) -> Tenant:
        try:
            return self._database.tenant(key)
        except NotFound:
            return NOWHERE


def _active(work: Desk) -> bool:
    row = work.conn.execute(ACTIVE, [work.tenant.number]).fetchone()
    return bool(row and row[0])
