"""Logging in with another provider: away with a challenge, back with a code."""

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Annotated
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lily.api.deps import Segment, ServicesDep, stranger
from lily.api.rest.assets import json
from lily.api.rest.auth import Granted
from lily.api.rest.providers import about
from lily.errors import (
    Forbidden,
    LilyError,
    NotFound,
    Reject,
    Unauthenticated,
    Unavailable,
    Unreadable,
)
from lily.identity import oidc
from lily.identity.oidc import Provider
from lily.store import providers
from lily.types import Tenant
from lily.wiring import Services

router = APIRouter(prefix="/api/v1/auth/oidc", tags=["auth"])

COOKIE = "lily_oidc"
LIFE = 600  # seconds from leaving to coming back
SEALED_TO = b"oidc login"
REFUSED = "The login did not come back as it left. Begin again."


class Way(msgspec.Struct, frozen=True):
    """What we remember of a login under way, sealed into `state`: nothing is kept here."""

    tenant: int
    provider: UUID
    nonce: str
    verifier: str
    browser: str
    until: int


class Tokens(msgspec.Struct, frozen=True):
    id_token: str


@router.get("/callback", summary="Come back from the provider", response_model=Granted)
def callback(
    request: Request,
    services: ServicesDep,
    state: Annotated[str, Query(max_length=2000)] = "",
    code: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """The code becomes a token of ours, with the role that the person's groups give."""
    way = _way(services, state, request.cookies.get(COOKIE, ""))
    tenant = services.core.database.tenant(way.tenant)
    with services.core.database.home_unit(tenant) as unit:
        provider = providers.get(unit, way.provider)
    if not code or not provider.enabled or not tenant.admitted:
        raise Unauthenticated(REFUSED)
    token = _exchanged(services, tenant, provider, code, way)
    claimed = oidc.peek(token)
    key = services.identity.published.key(provider.issuer, claimed.kid) if claimed else None
    if key is None:
        raise Unauthenticated(REFUSED)
    now = services.core.clock.now()
    who = oidc.verified(token, key, provider, provider.client_id, now, way.nonce)
    if not who.role:
        raise Forbidden("None of your groups has a role here; ask an admin of the tenant.")
    grant = services.identity.sessions.vouch(tenant, provider, who, stranger())
    answer = json(grant, headers={"Cache-Control": "no-store"})
    answer.delete_cookie(COOKIE, path=router.prefix)
    return answer


@router.get(
    "/{tenant}/{provider}",
    summary="Log in with another provider",
    status_code=302,
    response_class=Response,
)
def login(tenant: Segment, provider: Segment, services: ServicesDep) -> Response:
    """Sends the browser there; it comes back to `/api/v1/auth/oidc/callback`."""
    where, found = _known(services, tenant, provider)
    try:
        endpoint = services.identity.published.description(found.issuer).authorization_endpoint
    except Reject as refusal:
        raise Unavailable(f"The provider cannot be called: its address {refusal}.") from None
    if not endpoint:
        raise Unavailable("The provider does not say where to log in.")
    browser, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    until = int(services.core.clock.now().timestamp()) + LIFE
    way = Way(where.number, found.id, nonce, verifier, _digest(browser), until)
    sealed = services.core.seal.seal(msgspec.json.encode(way), SEALED_TO)
    state = base64.urlsafe_b64encode(sealed).decode().rstrip("=")
    url = oidc.login_url(endpoint, found, _back(services), state, nonce, verifier)
    answer = RedirectResponse(url, 302, {"Cache-Control": "no-store"})
    secure = services.core.settings.url.startswith("https://")
    answer.set_cookie(
        COOKIE, browser, max_age=LIFE, path=router.prefix, secure=secure, httponly=True,
        samesite="lax",
    )  # fmt: skip
    return answer


def _known(services: Services, tenant: str, name: str) -> tuple[Tenant, Provider]:
    """What does not exist, is not for logins or is switched off all read alike."""
    database = services.core.database
    try:
        where = database.tenant(tenant)
    except NotFound:
        raise NotFound("identity provider", name) from None
    with database.home_unit(where) as unit:
        found = [each for each in providers.all_of(unit) if each.name == name]
    if not found or not found[0].client_id or not found[0].enabled or where.state != "active":
        raise NotFound("identity provider", name)
    return where, found[0]


def _way(services: Services, state: str, browser: str) -> Way:
    """What was sealed when the browser left; of this browser, and in time."""
    try:
        sealed = base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))
        way = msgspec.json.decode(services.core.seal.open(sealed, SEALED_TO), type=Way)
    except (LilyError, binascii.Error, ValueError, msgspec.MsgspecError) as cause:
        raise Unreadable(REFUSED) from cause
    here = hmac.compare_digest(way.browser, _digest(browser))
    if not here or services.core.clock.now().timestamp() > way.until:
        raise Unreadable(REFUSED)
    return way


def _exchanged(services: Services, tenant: Tenant, provider: Provider, code: str, way: Way) -> str:
    """The code for an ID token, at the provider's token endpoint."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": _back(services),
        "client_id": provider.client_id,
        "code_verifier": way.verifier,
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if provider.secret is not None:
        secret = services.core.seal.open(provider.secret, about(tenant.number, provider.id))
        pair = f"{quote(provider.client_id, safe='')}:{quote(secret.decode(), safe='')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    identity = services.identity
    try:
        endpoint = identity.published.description(provider.issuer).token_endpoint
        answer = identity.outside.post(endpoint, urlencode(form).encode(), headers)
        return msgspec.json.decode(answer.body, type=Tokens).id_token
    except (msgspec.MsgspecError, Reject, Unavailable) as cause:
        raise Unauthenticated(REFUSED) from cause


def _back(services: Services) -> str:
    return f"{services.core.settings.url.rstrip('/')}{router.prefix}/callback"


def _digest(browser: str) -> str:
    return hashlib.sha256(browser.encode()).hexdigest()
