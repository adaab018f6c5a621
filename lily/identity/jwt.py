"""Access tokens: JWTs that only Lily signs, with one algorithm and no choice for the bearer."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from lily.errors import Unauthenticated

ALGORITHM = "RS256"
AUDIENCE = "lily"
TYPE = "at+jwt"
LEEWAY = 60  # seconds that another machine's clock may be ahead
LONGEST = 4096  # characters; ours have about 900

REFUSAL = "The token is missing, not valid, expired or revoked. Log in again."


class Key(msgspec.Struct, frozen=True):
    """A key of ours, and in whose name it signs."""

    kid: str
    key: RSAKey
    issuer: str


KeyOf = Callable[[str], Key | None]


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What a token says. `lat` is when it was issued in microseconds, by the home database."""

    iss: str
    aud: str
    exp: int
    nbf: int
    iat: int
    lat: int
    jti: UUID
    sid: UUID
    sub: UUID
    tenant: UUID
    role: str
    name: str
    platform: bool = False


def sign(claims: Claims, key: Key) -> str:
    header = {"alg": ALGORITHM, "typ": TYPE, "kid": key.kid}
    return jwt.encode(header, msgspec.to_builtins(claims), key.key, algorithms=[ALGORITHM])


def verify(token: str, key_of: KeyOf, now: datetime) -> Claims:
    """The claims of a token that is ours and in time; every refusal reads the same."""
    try:
        claims = _claims(token, key_of)
    except (JoseError, msgspec.ValidationError, ValueError, TypeError, KeyError) as cause:
        raise Unauthenticated(REFUSAL) from cause
    at = now.timestamp()
    if at >= claims.exp or max(claims.nbf, claims.iat) > at + LEEWAY:
        raise Unauthenticated(REFUSAL)
    return claims


def _claims(token: str, key_of: KeyOf) -> Claims:
    if len(token) > LONGEST:
        raise ValueError("too long for one of ours")
    header: dict[str, Any] = dict(jws.extract_compact(token.encode("ascii")).headers())
    kid = header.pop("kid")
    # Exactly our header: no jku, x5u, jwk or crit that might name another key.
    if header != {"alg": ALGORITHM, "typ": TYPE} or not isinstance(kid, str):
        raise ValueError("not our header")
    key = key_of(kid)
    if key is None:
        raise ValueError("not our key")
    signed = jwt.decode(token, key.key, algorithms=[ALGORITHM])
    claims = msgspec.convert(signed.claims, Claims)
    if claims.iss != key.issuer or claims.aud != AUDIENCE:
        raise ValueError("not for us")
    return claims
