"""Identity providers: whose word on people a tenant takes beside its own."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import APIRouter
from pydantic import BaseModel, Field, SecretStr
from starlette.responses import Response

from lily.api.deps import Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Line, Page, Request, Secret, example
from lily.errors import Invalid, Reject
from lily.identity.oidc import Provider
from lily.identity.roles import Role
from lily.store import providers
from lily.store.desk import desk
from lily.types import Caller
from lily.wiring import Services

router = APIRouter(prefix="/api/v1/identity-providers", tags=["auth"])

Manager = Annotated[Caller, requires("users:manage")]
EXAMPLE: dict[str, Any] = {
    "name": "okta",
    "issuer": "https://acme.okta.com/oauth2/default",
    "audience": "api://lily",
    "client_id": "0oa1",
    "client_secret": "from the provider",
    "roles": {"Data stewards": "steward", "Everyone": "viewer"},
}


class ProviderBody(Request):
    """`roles` gives a role to each group; whoever is in none of them has no role."""

    model_config = example(EXAMPLE)

    name: Line
    issuer: Annotated[str, Field(min_length=8, max_length=500, pattern=r"^https?://[^\s\x00]+$")]
    audience: Line = Field(description="Of access tokens; of no other tenant.")
    client_id: Annotated[str, Field(max_length=200, pattern=r"^[^\s\x00]*$")] = ""
    client_secret: Secret | None = Field(None, description="Left out, it stays as it is.")
    groups_claim: Line = "groups"
    name_claim: Line = "sub"
    roles: dict[Line, Role] = Field(max_length=500)
    enabled: bool = True


class ProviderShown(BaseModel):
    """The secret is never shown."""

    id: UUID
    name: str
    issuer: str
    audience: str
    client_id: str
    has_secret: bool
    groups_claim: str
    name_claim: str
    roles: dict[str, str]
    enabled: bool
    created_at: datetime
    updated_at: datetime


@router.post("", status_code=201, summary="Trust an identity provider")
def create(body: ProviderBody, caller: Manager, services: ServicesDep) -> ProviderShown:
    """Its access tokens for this audience are good from now on."""
    return _save(services, caller, body, None)


@router.get("", summary="List identity providers")
def listed(caller: Manager, services: ServicesDep) -> Page[ProviderShown]:
    with services.core.database.home_unit(caller.tenant) as unit:
        found = providers.all_of(unit)
    return Page(items=[_shown(each) for each in found], next=None)


@router.get("/{id}", summary="Read an identity provider")
def read(id: Segment, caller: Manager, services: ServicesDep) -> ProviderShown:
    with services.core.database.home_unit(caller.tenant) as unit:
        return _shown(providers.get(unit, uuid_of("identity provider", id)))


@router.put("/{id}", summary="Change an identity provider")
def replace(
    id: Segment, body: ProviderBody, caller: Manager, services: ServicesDep
) -> ProviderShown:
    """What it says of people counts anew within seconds."""
    return _save(services, caller, body, uuid_of("identity provider", id))


@router.delete("/{id}", status_code=204, summary="Trust an identity provider no longer")
def delete(id: Segment, caller: Manager, services: ServicesDep) -> Response:
    core = services.core
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        providers.delete(work, providers.get(work.unit, uuid_of("identity provider", id)))
    return Response(status_code=204)


def about(tenant: int, id: UUID) -> bytes:
    """What a provider's secret is sealed to."""
    return f"provider:{tenant}:{id}".encode()


def _save(services: Services, caller: Caller, body: ProviderBody, id: UUID | None) -> ProviderShown:
    core, tenant = services.core, caller.tenant
    _reachable(services, body.issuer)
    now = core.clock.now()
    with desk(core.database, core.clock, tenant, actor_of(caller)) as work:
        before = providers.get(work.unit, id) if id else None
        known = id or uuid4()
        made = Provider(
            tenant.number, known, body.name, body.issuer, body.audience, body.client_id,
            _sealed(services, caller, known, body.client_secret, before), body.groups_claim,
            body.name_claim, {str(k): v for k, v in body.roles.items()}, body.enabled,
            before.created_at if before else now, now,
        )  # fmt: skip
        providers.save(work, made, before)
    return _shown(made)


def _sealed(
    services: Services,
    caller: Caller,
    id: UUID,
    secret: SecretStr | None,
    before: Provider | None,
) -> bytes | None:
    if secret is None:
        return before.secret if before else None
    plain = secret.get_secret_value().encode()
    return services.core.seal.seal(plain, about(caller.tenant.number, id))


def _reachable(services: Services, issuer: str) -> None:
    try:
        services.identity.outside.check(issuer)
    except Reject as refusal:
        raise Invalid(f"the address {refusal}", "issuer") from None


def _shown(provider: Provider) -> ProviderShown:
    given = {name: getattr(provider, name) for name in ProviderShown.model_fields
             if name != "has_secret"}  # fmt: skip
    return ProviderShown(**given, has_secret=provider.secret is not None)
