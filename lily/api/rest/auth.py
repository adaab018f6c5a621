"""Logging in and out, and what a token is worth."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from lily.api.deps import (
    ServicesDep,
    actor_of,
    address_of,
    requires,
    stranger,
    verified,
)
from lily.api.fields import Loose, Secret, Shown
from lily.clock import from_micros
from lily.store.desk import record
from lily.types import Caller

router = APIRouter(prefix="/api/v1/auth", tags=["auth"])

Known = Annotated[Caller, requires()]
PlatformAdmin = Annotated[Caller, requires("tenants:manage")]


class Login(BaseModel):
    username: Loose
    password: Secret
    tenant: Loose = "default"


class Granted(Shown):
    access_token: str
    token_type: str = "Bearer"
    expires_in: int
    refresh_token: str | None = None


class Validity(BaseModel):
    active: bool
    subject: str
    username: str
    tenant: str
    tenant_id: str
    role: str
    scopes: list[str]
    expires_at: datetime | None


class Rotated(BaseModel):
    kid: str


EXAMPLE = {"username": "admin", "password": "from .lily/credentials", "tenant": "default"}


@router.post("/login", summary="Log in")
def login(
    body: Annotated[Login, Body(examples=[EXAMPLE])], request: Request, services: ServicesDep
) -> Granted:
    """A password for an access token and a refresh token."""
    grant = services.identity.sessions.login(
        body.tenant,
        body.username,
        body.password.get_secret_value(),
        address_of(request),
        stranger(),
    )
    return Granted.model_validate(grant)


@router.post("/logout", status_code=204, summary="Log out")
def logout(caller: Known, request: Request, services: ServicesDep) -> Response:
    """End this session: its access and refresh tokens are refused from now on, everywhere."""
    session = verified(request).session
    if session is not None:
        services.identity.sessions.logout(caller.tenant, session, actor_of(caller))
        services.identity.revocations.poll()
    return Response(status_code=204)


@router.get("/validate", summary="Ask what a token is worth")
def validate(caller: Known, request: Request) -> Validity:
    """Whether the token is good, and for what."""
    token = verified(request)
    return Validity(
        active=True,
        subject=caller.subject,
        username=caller.name,
        tenant=caller.tenant.name,
        tenant_id=str(caller.tenant.id),
        role=token.role,
        scopes=sorted(caller.scopes),
        expires_at=from_micros(token.expires).astimezone(UTC) if token.expires else None,
    )


@router.post("/keys/rotate", summary="Sign with a new key")
def rotate(caller: PlatformAdmin, services: ServicesDep) -> Rotated:
    """Sign with a new key from now on; tokens of the old one stay good until they expire."""
    kid = services.identity.keys.rotate()
    core = services.core
    told: dict[str, Any] = {"kid": kid}
    record(core.database, core.clock, caller.tenant, actor_of(caller), "KeyRotated", **told)
    return Rotated(kid=kid)
