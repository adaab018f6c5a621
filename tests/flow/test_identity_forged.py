"""Whatever is not exactly a good token of ours is refused, and all refusals read the same."""

import base64
import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, hmac
from httpx import Client
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from lily.clock import Clock, FrozenClock
from lily.errors import Unauthenticated
from lily.identity.verifier import Verifier
from lily.store.tokens import Directory
from lily.types import Tenant
from lily.wiring import Core, Services
from tests.callers import bearer, claims, minted, tenant_with_admin


@pytest.fixture(scope="module")
def home_tenant(core: Core) -> Tenant:
    return tenant_with_admin(core)


class Forger:
    """Makes tokens from a good one, each wrong in one way."""

    def __init__(self, wired: Services, tenant: Tenant) -> None:
        signing = wired.identity.keys.signing()
        self.kid, self.key = signing.kid, signing.key
        self.good = claims(wired, tenant)
        self.header = {"alg": "RS256", "typ": "at+jwt", "kid": self.kid}
        self.public = self.key.as_pem(private=False)

    def signed(self, header: dict[str, Any] | None = None, **changes: Any) -> str:
        body = {**msgspec.to_builtins(self.good), **changes}
        payload = {name: value for name, value in body.items() if value is not None}
        return self.raw({**self.header, **(header or {})}, payload, self.key)

    def raw(self, header: dict[str, Any], payload: dict[str, Any], key: Any) -> str:
        """Sign whatever is asked for, past all checks of the library."""
        registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
        body = json.dumps(payload).encode()
        return jws.serialize_compact(header, body, key, registry=registry)

    def unsigned(self) -> str:
        return f"{_part({**self.header, 'alg': 'none'})}.{_part(self.payload())}."

    def with_hmac(self) -> str:
        """HS256, keyed with the public key that everybody can read."""
        text = f"{_part({**self.header, 'alg': 'HS256'})}.{_part(self.payload())}"
        mac = hmac.HMAC(self.public, hashes.SHA256())
        mac.update(text.encode())
        return f"{text}.{base64.urlsafe_b64encode(mac.finalize()).rstrip(b'=').decode()}"

    def payload(self) -> dict[str, Any]:
        made: dict[str, Any] = msgspec.to_builtins(self.good)
        return made


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forgeries(forger: Forger) -> dict[str, str]:
    other = RSAKey.generate_key(2048)
    good = forger.signed()
    head, body, signature = good.split(".")
    now = forger.good.iat
    return {
        "alg none": forger.unsigned(),
        "alg none with a signature": f"{forger.unsigned()}{signature}",
        "HS256 with the public key": forger.with_hmac(),
        "another key": forger.raw(forger.header, forger.payload(), other),
        "RS512": forger.signed({"alg": "RS512"}),
        "PS256": forger.signed({"alg": "PS256"}),
        "ES256": forger.raw(
            {**forger.header, "alg": "ES256"}, forger.payload(), ECKey.generate_key("P-256")
        ),
        "jku": forger.signed({"jku": "http://127.0.0.1:1/keys"}),
        "x5u": forger.signed({"x5u": "http://127.0.0.1:1/cert"}),
        "jwk": forger.raw(
            {**forger.header, "jwk": other.as_dict(private=False)}, forger.payload(), other
        ),
        "unknown kid": forger.signed({"kid": "stranger"}),
        "kid as a path": forger.signed({"kid": "../../etc/passwd"}),
        "wrong typ": forger.signed({"typ": "JWT"}),
        "wrong issuer": forger.signed(iss="https://elsewhere.example"),
        "wrong audience": forger.signed(aud="other"),
        "list of audiences": forger.signed(aud=["lily", "other"]),
        "no exp": forger.signed(exp=None),
        "exp as text": forger.signed(exp="tomorrow"),
        "expired": forger.signed(exp=now - 1),
        "not yet valid": forger.signed(nbf=now + 300),
        "issued in the future": forger.signed(iat=now + 300),
        "no subject": forger.signed(sub=None),
        "unknown tenant": forger.signed(tenant="8b7a3f2e-0000-4000-8000-000000000000"),
        "no tenant": forger.signed(tenant=None),
        "truncated": good[:-10],
        "no signature": f"{head}.{body}.",
        "changed claims": f"{head}.{_part({**forger.payload(), 'platform': True})}.{signature}",
        "two tokens": f"{good} {good}",
        "a comma": f"{good},{good}",
        "not a token": "x",
        "huge": "a" * 20_000,
        "personal, unknown": "lily_1_" + "a" * 43,
        "personal, no tenant": "lily_999999999_" + "a" * 43,
        "refresh as access": "lilyr_1_" + "a" * 43,
    }


def test_every_forged_token_is_refused_with_the_same_words(
    client: Client, wired: Services, home_tenant: Tenant
) -> None:
    forger = Forger(wired, home_tenant)
    url = "/api/v1/auth/validate"
    assert client.get(url, headers=bearer(forger.signed())).status_code == 200
    answers = {
        name: client.get(url, headers=bearer(token)) for name, token in forgeries(forger).items()
    }
    answers["no header"] = client.get(url)
    answers["basic"] = client.get(url, headers={"Authorization": "Basic cm9vdDp4"})
    twice = [("Authorization", f"Bearer {forger.signed()}")] * 2
    answers["two headers"] = client.get(url, headers=twice)
    assert {name for name, answer in answers.items() if answer.status_code != 401} == set()
    assert len({answer.text for answer in answers.values()}) == 1
    assert all(a.headers["www-authenticate"].startswith("Bearer") for a in answers.values())
    assert all(a.headers["content-type"] == "application/problem+json" for a in answers.values())


def verifier_of(wired: Services, clock: Clock, size: int = 100) -> Verifier:
    parts = wired.identity
    parts.revocations.poll()
    directory = Directory(wired.core.database)
    return Verifier(parts.keys, parts.revocations, directory, clock, size)


def test_a_cached_token_ends_when_it_expires(wired: Services, home_tenant: Tenant) -> None:
    clock = FrozenClock(wired.core.clock.now())
    verifier = verifier_of(wired, clock)
    header = f"Bearer {minted(wired, home_tenant)}"
    assert verifier.authenticate(header).tenant == home_tenant
    assert verifier.cached(header) is not None
    clock.advance(timedelta(seconds=601))
    assert verifier.cached(header) is None
    with pytest.raises(Unauthenticated):
        verifier.authenticate(header)


def test_the_cache_of_verified_tokens_is_bounded(wired: Services, home_tenant: Tenant) -> None:
    verifier = verifier_of(wired, wired.core.clock, size=10)
    for _ in range(30):
        verifier.authenticate(f"Bearer {minted(wired, home_tenant)}")
    assert len(verifier) == 10
