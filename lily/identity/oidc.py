"""Tokens of another provider: read with suspicion, believed when everything fits."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from lily.errors import Unauthenticated
from lily.identity.jwt import ALGORITHM, LEEWAY, REFUSAL
from lily.identity.roles import ROLES

LONGEST = 16_384  # characters; groups make them long
HEADER = {"alg", "kid", "typ", "x5t", "x5t#S256"}
TYPES = {"jwt", "at+jwt", "application/at+jwt"}
STRONGEST: tuple[str, ...] = tuple(ROLES)  # the table lists the mightiest first


class Provider(msgspec.Struct, frozen=True):
    """Whose word on people a tenant takes: the columns of table identity_provider."""

    tenant: int
    id: UUID
    name: str
    issuer: str
    audience: str
    client_id: str
    secret: bytes | None
    groups_claim: str
    name_claim: str
    roles: dict[str, str]
    enabled: bool
    created_at: datetime
    updated_at: datetime


class Peek(msgspec.Struct, frozen=True):
    """What a token claims of itself, before anything of it is proven."""

    kid: str
    issuer: str
    audiences: tuple[str, ...]


class Foreigner(msgspec.Struct, frozen=True):
    """Somebody whom a provider vouches for. Without a role they may do nothing."""

    logins: tuple[str, ...]
    name: str
    role: str
    issued: int
    expires: int


def peek(token: str) -> Peek | None:
    """Which key of which provider would prove this; None for what cannot be one of theirs."""
    if len(token) > LONGEST or token.count(".") != 2:
        return None
    try:
        found = jws.extract_compact(token.encode("ascii"))
        header: Mapping[str, Any] = found.headers()
        claims = msgspec.json.decode(found.payload)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    # A header that names a key itself (jku, x5u, jwk, crit) is nobody's we know.
    if header.get("alg") != ALGORITHM or not set(header) <= HEADER:
        return None
    if str(header.get("typ", "JWT")).lower() not in TYPES or not isinstance(claims, dict):
        return None
    kid, issuer = header.get("kid"), claims.get("iss")
    if not isinstance(kid, str) or not isinstance(issuer, str):
        return None
    return Peek(kid, issuer, _texts(claims.get("aud")))


def verified(
    token: str,
    key: RSAKey,
    provider: Provider,
    audience: str,
    now: datetime,
    nonce: str | None = None,
) -> Foreigner:
    """Somebody, if the signature, the issuer, the audience and the times all fit."""
    try:
        claims = jwt.decode(token, key, algorithms=[ALGORITHM]).claims
        found = _checked(claims, provider, audience, int(now.timestamp()))
    except (JoseError, ValueError, TypeError, KeyError) as cause:
        raise Unauthenticated(REFUSAL) from cause
    if nonce is not None and claims.get("nonce") != nonce:
        raise Unauthenticated(REFUSAL)
    return found


def role_of(provider: Provider, groups: Sequence[str]) -> str:
    """The mightiest role that the tenant gives to one of these groups; empty for none."""
    given = {provider.roles[group] for group in groups if group in provider.roles}
    return next((role for role in STRONGEST if role in given), "")


def challenge(verifier: str) -> str:
    """PKCE, S256."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def login_url(
    endpoint: str, provider: Provider, back: str, state: str, nonce: str, verifier: str
) -> str:
    """Where somebody proves who they are, and comes back from."""
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": back,
        "scope": f"openid profile email {provider.groups_claim}".strip(),
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge(verifier),
        "code_challenge_method": "S256",
    }
    return endpoint + ("&" if "?" in endpoint else "?") + urlencode(query)


def _checked(claims: Mapping[str, Any], provider: Provider, audience: str, now: int) -> Foreigner:
    if claims["iss"] != provider.issuer or audience not in _texts(claims.get("aud")):
        raise ValueError("not for us")
    expires, issued = _number(claims["exp"]), _number(claims["iat"])
    starts = _number(claims.get("nbf", issued))
    if now >= expires or max(issued, starts) > now + LEEWAY:
        raise ValueError("not now")
    logins = [claims["sub"], *(claims.get(name) for name in ("uid", "preferred_username", "email"))]
    known = tuple(dict.fromkeys(each for each in logins if isinstance(each, str) and each))
    name = claims.get(provider.name_claim) or claims["sub"]
    if not known or not isinstance(name, str) or not isinstance(claims["sub"], str):
        raise ValueError("nobody")
    role = role_of(provider, _texts(claims.get(provider.groups_claim)))
    return Foreigner(known, name[:200], role, issued, expires)


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a time")
    return int(value)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
