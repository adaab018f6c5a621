"""Keys that providers publish: kept as long as they say, and through their outages."""

import json
import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from lily.errors import LilyError, Unavailable

SHORTEST, USUAL, LONGEST = 60.0, 300.0, 86_400.0  # seconds for which keys are not asked for again
COOL_DOWN = 30.0  # between two questions for a key that nobody knows, or after a failure


class Published(msgspec.Struct, frozen=True):
    """What a server answered, and for how many seconds it says that this is good."""

    body: bytes
    max_age: float | None = None


Fetch = Callable[[str], Published]


class Description(msgspec.Struct, frozen=True):
    """Of the discovery document, what we need."""

    issuer: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""


class _Issuer:
    def __init__(self) -> None:
        self.lock = Lock()
        self.description: Description | None = None
        self.keys: dict[str, RSAKey] = {}
        self.good_until = float("-inf")
        self.asked = float("-inf")


class KeySets:
    """One set of keys an issuer. Whoever forges key ids makes us ask once in a while, not more."""

    def __init__(self, fetch: Fetch, now: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._now = now
        self._issuers: dict[str, _Issuer] = {}
        self._lock = Lock()

    def key(self, issuer: str, kid: str) -> RSAKey | None:
        """The key, or None when the issuer has none of this id. Unavailable when it is silent."""
        known = self._known(issuer)
        with known.lock:
            now = self._now()
            stale = now >= known.good_until or kid not in known.keys
            if stale and now - known.asked >= (COOL_DOWN if known.keys else 1.0):
                known.asked = now
                try:
                    self._load(issuer, known)
                except LilyError as cause:
                    # The last good keys stay good: an outage there is no outage here.
                    if not known.keys:
                        raise Unavailable("The identity provider does not answer.") from cause
            if not known.keys:
                raise Unavailable("The identity provider does not answer.")
            return known.keys.get(kid)

    def description(self, issuer: str) -> Description:
        known = self._known(issuer)
        with known.lock:
            if known.description is None:
                known.description = self._describe(issuer)
            return known.description

    def _known(self, issuer: str) -> _Issuer:
        with self._lock:
            return self._issuers.setdefault(issuer, _Issuer())

    def _load(self, issuer: str, known: _Issuer) -> None:
        if known.description is None:
            known.description = self._describe(issuer)
        answer = self._fetch(known.description.jwks_uri)
        keys = _keys(answer.body)
        if not keys:
            raise Unavailable("The identity provider publishes no key that we understand.")
        known.keys = keys
        age = USUAL if answer.max_age is None else answer.max_age
        known.good_until = self._now() + min(max(age, SHORTEST), LONGEST)

    def _describe(self, issuer: str) -> Description:
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            found = msgspec.json.decode(self._fetch(url).body, type=Description)
        except msgspec.MsgspecError as cause:
            raise Unavailable("The identity provider's description cannot be read.") from cause
        if found.issuer != issuer:
            raise Unavailable("The identity provider calls itself by another name.")
        return found


def _keys(body: bytes) -> dict[str, RSAKey]:
    """The RSA keys for signatures, by id; others are left out."""
    try:
        listed: list[Any] = json.loads(body)["keys"]
    except (ValueError, KeyError, TypeError):
        return {}
    found = {}
    for each in listed if isinstance(listed, list) else ():
        usable = isinstance(each, dict) and each.get("kty") == "RSA"
        if usable and each.get("use", "sig") == "sig" and isinstance(each.get("kid"), str):
            try:
                public = {name: each[name] for name in ("kty", "n", "e", "kid")}
                found[each["kid"]] = RSAKey.import_key(public)
            except (JoseError, ValueError, KeyError, TypeError):
                continue
    return found
