"""Service accounts of the caller's tenant."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter

from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires, uuid_of
from lily.api.fields import Page, Request, Shown, Username, example, next_of
from lily.errors import Invalid
from lily.identity import opaque, passwords
from lily.identity.roles import Role
from lily.store import accounts
from lily.store.accounts import Account
from lily.store.desk import desk
from lily.types import Caller

router = APIRouter(prefix="/api/v1/service-accounts", tags=["users"])

Manager = Annotated[Caller, requires("users:manage")]


class NewAccount(Request):
    model_config = example({"name": "crawler", "role": "ingester"})

    name: Username
    role: Role = "ingester"


class AccountChange(Request):
    model_config = example({"active": False})

    role: Role | None = None
    active: bool | None = None


class ServiceAccount(Shown):
    id: UUID
    client_id: str
    name: str
    role: str
    active: bool
    created_at: datetime
    updated_at: datetime


class WithSecret(ServiceAccount):
    """The secret is shown this once."""

    client_secret: str


@router.post("", status_code=201, summary="Create a service account")
def create(body: NewAccount, caller: Manager, services: ServicesDep) -> WithSecret:
    core, secret = services.core, opaque.secret()
    hashed = passwords.hashed(secret)
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        made = accounts.create(work, body.name, body.role, hashed)
    return WithSecret(**_shown(caller, made), client_secret=secret)


@router.get("", summary="List service accounts")
def service_accounts(
    caller: Manager, services: ServicesDep, limit: Limit = 100, after: After = ""
) -> Page[ServiceAccount]:
    with services.core.database.home_unit(caller.tenant) as unit:
        found = accounts.page(unit, after, limit)
    items = [ServiceAccount(**_shown(caller, account)) for account in found]
    return Page(items=items, next=next_of(items, limit, "name"))


@router.get("/{account}", summary="Read a service account")
def service_account(account: Segment, caller: Manager, services: ServicesDep) -> ServiceAccount:
    with services.core.database.home_unit(caller.tenant) as unit:
        return ServiceAccount(**_shown(caller, accounts.get(unit, _id(account))))


@router.patch("/{account}", summary="Change role or active of a service account")
def change(
    account: Segment, body: AccountChange, caller: Manager, services: ServicesDep
) -> ServiceAccount:
    """Role and active. A change ends what the account was issued."""
    wanted = body.model_dump(exclude_none=True)
    if not wanted:
        raise Invalid("give at least one of role, active")
    core, life = services.core, services.identity.terms.memory
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        changed = accounts.change(work, _id(account), wanted, life)
    services.identity.revocations.poll()
    return ServiceAccount(**_shown(caller, changed))


@router.post("/{account}/rotate", summary="Give a service account a new secret")
def rotate(account: Segment, caller: Manager, services: ServicesDep) -> WithSecret:
    """A new secret; the old one and what it was issued are refused from now on."""
    core, secret = services.core, opaque.secret()
    hashed = passwords.hashed(secret)
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        done = accounts.set_secret(work, _id(account), hashed, services.identity.terms.memory)
    services.identity.revocations.poll()
    return WithSecret(**_shown(caller, done), client_secret=secret)


def _id(text: str) -> UUID:
    return uuid_of("service account", text.rpartition(".")[2])


def _shown(caller: Caller, account: Account) -> dict[str, Any]:
    return {
        "id": account.id,
        "client_id": opaque.client_id(caller.tenant.number, account.id),
        "name": account.name,
        "role": account.role,
        "active": account.active,
        "created_at": account.created_at,
        "updated_at": account.updated_at,
    }
