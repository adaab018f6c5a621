"""OAuth 2: the token endpoint in RFC 6749's own shapes, and what clients need to discover it."""

import base64
import binascii
from typing import Annotated, Any
from urllib.parse import unquote_plus

from fastapi import APIRouter, Form
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lily.api.deps import ServicesDep, address_of, stranger
from lily.api.fields import storable
from lily.api.problems import problem_of, problem_response
from lily.api.rest.auth import Granted
from lily.errors import Invalid, LilyError, Unauthenticated
from lily.identity import jwt
from lily.store.sessions import Grant
from lily.wiring import Services

router = APIRouter(tags=["auth"])

Text = Annotated[str, Form(max_length=1000)]
GRANTS = ("password", "client_credentials", "refresh_token")
EXAMPLE = {"grant_type": "password", "username": "ann", "password": "…", "tenant": "default"}
FORM = {"requestBody": {"content": {"application/x-www-form-urlencoded": {"example": EXAMPLE}}}}
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class Refusal(BaseModel):
    """RFC 6749 section 5.2, with the members of a problem beside it."""

    error: str
    error_description: str
    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]]


@router.post(
    "/oauth/token",
    summary="Get a token",
    openapi_extra=FORM,
    response_model=Granted,
    responses={
        400: {"model": Refusal, "description": "The grant is refused."},
        401: {"model": Refusal, "description": "The client is refused."},
    },
)
def token(
    request: Request,
    services: ServicesDep,
    grant_type: Text = "",
    username: Text = "",
    password: Text = "",
    tenant: Text = "",
    client_id: Text = "",
    client_secret: Text = "",
    refresh_token: Text = "",
    scope: Text = "",
) -> Response:
    """Grants `password`, `client_credentials` and `refresh_token`."""
    form = {
        "username": username,
        "password": password,
        "tenant": tenant,
        "client_id": client_id,
        "client_secret": client_secret,
        "refresh_token": refresh_token,
    }
    try:
        for name, value in form.items():
            _check(name, value)
        grant = _grant(services, request, grant_type, form)
    except LilyError as exc:
        return _refusal(exc, grant_type, request.url.path)
    return JSONResponse(_shown(grant), headers=NO_STORE)


@router.get("/.well-known/jwks.json", summary="Public keys")
def jwks(services: ServicesDep) -> dict[str, Any]:
    """The public keys that verify access tokens."""
    return {"keys": services.identity.keys.jwks()}


@router.get("/.well-known/openid-configuration", summary="Discover the token endpoint")
def configuration(services: ServicesDep) -> dict[str, Any]:
    url = services.core.settings.url
    return {
        "issuer": services.identity.keys.signing().issuer,
        "token_endpoint": f"{url}/oauth/token",
        "jwks_uri": f"{url}/.well-known/jwks.json",
        "grant_types_supported": list(GRANTS),
        "response_types_supported": [],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [jwt.ALGORITHM],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    }


def _grant(services: Services, request: Request, kind: str, form: dict[str, str]) -> Grant:
    sessions, address = services.identity.sessions, address_of(request)
    if kind == "password":
        tenant, user = _whose(form["tenant"], form["username"])
        return sessions.login(tenant, user, form["password"], address, stranger())
    if kind == "client_credentials":
        client, secret = _basic(request) or (form["client_id"], form["client_secret"])
        return sessions.client(client, secret, address, stranger())
    if kind == "refresh_token":
        return sessions.refresh(form["refresh_token"], stranger())
    raise Invalid(f"must be one of {', '.join(GRANTS)}", "grant_type")


def _whose(tenant: str, username: str) -> tuple[str, str]:
    """`tenant/username` for clients that have no field for the tenant."""
    if not tenant and "/" in username:
        tenant, _, username = username.partition("/")
    return tenant or "default", username


def _basic(request: Request) -> tuple[str, str] | None:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as cause:
        raise Unauthenticated("The Basic credentials cannot be read.") from cause
    client, _, secret = text.partition(":")
    for part in (client, secret):
        _check("authorization", unquote_plus(part))
    return unquote_plus(client), unquote_plus(secret)


def _check(field: str, value: str) -> None:
    try:
        storable(value)
    except ValueError as cause:
        raise Invalid(str(cause), field) from cause


def _shown(grant: Grant) -> dict[str, Any]:
    return Granted.model_validate(grant).model_dump(exclude_none=True)


def _refusal(exc: LilyError, kind: str, path: str) -> Response:
    """What RFC 6749 has words for in its words; the rest as any problem."""
    if isinstance(exc, Unauthenticated):
        error, status = "invalid_grant", 400
        if kind == "client_credentials":
            error, status = "invalid_client", 401
    elif isinstance(exc, Invalid):
        known = kind in GRANTS
        error, status = ("invalid_request" if known else "unsupported_grant_type"), 400
    else:
        return problem_response(exc, path)
    problem = problem_of(exc, path)
    body = Refusal(
        error=error,
        error_description=str(exc),
        type=problem.type,
        title=problem.title,
        status=status,
        detail=problem.detail,
        errors=[{"field": each.field, "message": each.message} for each in problem.errors],
    )
    headers = {**NO_STORE, "WWW-Authenticate": 'Basic realm="lily"'} if status == 401 else NO_STORE
    return JSONResponse(body.model_dump(), status, headers)
