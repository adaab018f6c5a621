"""Tenants, for the platform admin."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field, SecretStr

from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires
from lily.api.fields import Page, Request, Secret, Shown, TenantName, Username, example, next_of
from lily.errors import Conflict, Invalid
from lily.identity import passwords
from lily.store import moves, tenants
from lily.types import Caller, Isolation, Tenant, TenantState
from lily.wiring import Services

router = APIRouter(prefix="/api/v1/tenants", tags=["tenants"])

PlatformAdmin = Annotated[Caller, requires("tenants:manage")]


class FirstAdmin(Request):
    username: Username = "admin"
    password: Secret | None = Field(None, description="Made up and shown once if absent.")


class NewTenant(Request):
    model_config = example({"name": "acme", "admin": {"username": "admin"}})

    name: TenantName
    isolation: Isolation = "pooled"
    database_url: SecretStr | None = Field(
        None, description="For a dedicated tenant: an empty PostgreSQL database of its own."
    )
    admin: FirstAdmin = Field(default_factory=FirstAdmin.model_construct)


class ShownTenant(Shown):
    number: int
    id: UUID
    name: str
    isolation: Isolation
    state: TenantState


class Credentials(Shown):
    """A made-up password is shown this once; one that was given is not repeated."""

    username: str
    password: str | None = None


class MadeTenant(ShownTenant):
    admin: Credentials


class Usage(Shown):
    assets: dict[str, int]
    facts: int
    dead_letters: int


class TenantWithUsage(ShownTenant):
    usage: Usage


class Goal(Request):
    model_config = example({"to": "pooled"})

    to: Isolation
    database_url: SecretStr | None = Field(
        None, description="To become dedicated: an empty PostgreSQL database of its own."
    )


class ShownMove(Shown):
    """`closing`, `copying` and `opening` refuse writes; from `clearing` on the tenant is there."""

    isolation: Isolation = Field(description="What the tenant will be.")
    step: moves.Step
    reason: str
    by: str
    started_at: datetime
    at: datetime


@router.post("", status_code=201, summary="Create a tenant, pooled or dedicated")
def create(body: NewTenant, caller: PlatformAdmin, services: ServicesDep) -> MadeTenant:
    given = body.admin.password
    password = given.get_secret_value() if given else passwords.made_up()
    passwords.check_rules(password, body.admin.username)
    tenant = _create(body, password, caller, services)
    shown = Credentials(username=body.admin.username, password=None if given else password)
    return MadeTenant(**ShownTenant.model_validate(tenant).model_dump(), admin=shown)


@router.get("", summary="List tenants")
def all_tenants(
    caller: PlatformAdmin, services: ServicesDep, limit: Limit = 100, after: After = ""
) -> Page[ShownTenant]:
    found = tenants.page(services.core.database, after, limit)
    items = [ShownTenant.model_validate(tenant) for tenant in found]
    return Page(items=items, next=next_of(items, limit, "name"))


@router.get("/{name}", summary="Read a tenant")
def tenant(name: Segment, caller: PlatformAdmin, services: ServicesDep) -> TenantWithUsage:
    found = services.core.database.tenant(name)
    shown = ShownTenant.model_validate(found).model_dump()
    return TenantWithUsage(**shown, usage=_usage(services, found))


@router.get("/{name}/usage", summary="Count what a tenant has")
def usage(name: Segment, caller: PlatformAdmin, services: ServicesDep) -> Usage:
    """Assets by lane, facts, and dead letters that wait."""
    return _usage(services, services.core.database.tenant(name))


@router.post("/{name}/suspend", summary="Suspend a tenant")
def suspend(name: Segment, caller: PlatformAdmin, services: ServicesDep) -> ShownTenant:
    """Nobody of the tenant gets in any more, and whoever is in is refused within seconds."""
    if name == caller.tenant.name:
        raise Conflict("You cannot suspend the tenant that you are logged in to.")
    return _set_state(services, name, "suspended", caller)


@router.post("/{name}/resume", summary="Resume a tenant")
def resume(name: Segment, caller: PlatformAdmin, services: ServicesDep) -> ShownTenant:
    return _set_state(services, name, "active", caller)


@router.post("/{name}/move", status_code=202, summary="Move a tenant to another database")
def move(name: Segment, body: Goal, caller: PlatformAdmin, services: ServicesDep) -> ShownMove:
    """Between the shared database and one of its own. The workers do it, and go on after a crash;
    reads are served all the time, writes are refused with 503 and Retry-After for the switch."""
    core = services.core
    url = _url(body.to, body.database_url)
    tenant = core.database.tenant(name)
    begun = moves.begin(core.database, core.seal, tenant, body.to, url, actor_of(caller))
    return ShownMove.model_validate(begun)


@router.get("/{name}/move", summary="Read how far a move is")
def moves_(name: Segment, caller: PlatformAdmin, services: ServicesDep) -> ShownMove:
    """Not found when none is under way: a move that succeeded leaves nothing behind."""
    database = services.core.database
    return ShownMove.model_validate(moves.get(database, database.tenant(name)))


@router.delete("/{name}/move", status_code=202, summary="Take a move back")
def abort(name: Segment, caller: PlatformAdmin, services: ServicesDep) -> ShownMove:
    """Possible until the switch; the tenant then is as if nobody had asked."""
    database = services.core.database
    return ShownMove.model_validate(moves.abort(database, database.tenant(name)))


def _url(to: Isolation, given: SecretStr | None) -> str | None:
    """The database that comes with `dedicated`, and only with that."""
    url = given.get_secret_value() if given else None
    if (to == "dedicated") != (url is not None):
        raise Invalid("belongs to a dedicated tenant, and only there", "database_url")
    if url is not None and not url.startswith(("postgresql://", "postgres://")):
        raise Invalid("must look like postgresql://user:password@host/database", "database_url")
    return url


def _create(body: NewTenant, password: str, caller: Caller, services: Services) -> Tenant:
    core = services.core
    url = _url(body.isolation, body.database_url)
    admin = tenants.Admin(body.admin.username, passwords.hashed(password))
    by = actor_of(caller)
    if url is None:
        return tenants.create(core.database, core.clock, body.name, admin, by)
    return tenants.create_dedicated(core.database, core.clock, core.seal, body.name, url, admin, by)


def _usage(services: Services, tenant: Tenant) -> Usage:
    return Usage.model_validate(tenants.usage(services.core.database, tenant))


def _set_state(services: Services, name: str, state: TenantState, caller: Caller) -> ShownTenant:
    core, life = services.core, services.identity.terms.memory
    tenant = core.database.tenant(name)
    done = tenants.set_state(core.database, core.clock, tenant, state, actor_of(caller), life)
    services.identity.revocations.poll()
    return ShownTenant.model_validate(done)
