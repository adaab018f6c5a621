"""Persons of the caller's tenant."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from starlette import requests
from starlette.responses import Response

from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, address_of, requires
from lily.api.fields import (
    Line,
    NewSecret,
    Page,
    Request,
    Secret,
    Shown,
    Username,
    example,
    next_of,
)
from lily.errors import Forbidden, Invalid
from lily.identity import passwords
from lily.identity.roles import Role
from lily.store import people
from lily.store.database import Unit
from lily.store.desk import desk
from lily.store.people import Person
from lily.types import Caller

router = APIRouter(prefix="/api/v1/users", tags=["users"])

Known = Annotated[Caller, requires()]
Manager = Annotated[Caller, requires("users:manage")]


class NewUser(Request):
    model_config = example(
        {"username": "anna", "password": "at least ten characters", "role": "editor"}
    )

    username: Username
    password: NewSecret
    role: Role = "viewer"
    name: Line | None = None


class UserChange(Request):
    model_config = example({"role": "steward"})

    name: Line | None = None
    role: Role | None = None
    active: bool | None = None


class NewPassword(Request):
    model_config = example({"password": "at least ten characters"})

    password: NewSecret


class PasswordChange(Request):
    model_config = example({"old_password": "what it was", "new_password": "what it will be"})

    old_password: Secret
    new_password: NewSecret


class User(Shown):
    id: UUID
    username: str
    name: str
    role: str
    platform: bool
    active: bool
    created_at: datetime
    updated_at: datetime


@router.post("", status_code=201, summary="Create a person")
def create(body: NewUser, caller: Manager, services: ServicesDep) -> User:
    password = body.password.get_secret_value()
    passwords.check_rules(password, body.username)
    hashed = passwords.hashed(password)
    core = services.core
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        name = body.name or body.username
        return User.model_validate(people.create(work, body.username, name, body.role, hashed))


@router.get("", summary="List persons")
def users(
    caller: Manager, services: ServicesDep, limit: Limit = 100, after: After = ""
) -> Page[User]:
    with services.core.database.home_unit(caller.tenant) as unit:
        found = people.page(unit, after, limit)
    items = [User.model_validate(person) for person in found]
    return Page(items=items, next=next_of(items, limit, "username"))


@router.post("/me/password", status_code=204, summary="Change your own password")
def change_own_password(
    body: PasswordChange, caller: Known, request: requests.Request, services: ServicesDep
) -> Response:
    """Needs the old one; ends all sessions of this person, also this one."""
    core, me = services.core, UUID(caller.subject)
    new = body.new_password.get_secret_value()
    passwords.check_rules(new, caller.name, "new_password")
    old = body.old_password.get_secret_value()
    services.identity.sessions.confirm(caller, old, address_of(request))
    hashed = passwords.hashed(new)
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        people.set_password(work, me, hashed, services.identity.terms.memory)
    services.identity.revocations.poll()
    return Response(status_code=204)


@router.get("/{user}", summary="Read a person")
def user(user: Segment, caller: Manager, services: ServicesDep) -> User:
    """By id or username."""
    with services.core.database.home_unit(caller.tenant) as unit:
        return User.model_validate(_find(unit, user))


@router.patch("/{user}", summary="Change name, role or active of a person")
def change(user: Segment, body: UserChange, caller: Manager, services: ServicesDep) -> User:
    """Name, role, active. Less or other rights end the person's sessions."""
    wanted: dict[str, Any] = body.model_dump(exclude_none=True)
    if not wanted:
        raise Invalid("give at least one of name, role, active")
    core = services.core
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        person = _changeable(work.unit, user, caller)
        changed = people.change(work, person.id, wanted, services.identity.terms.memory)
    services.identity.revocations.poll()
    return User.model_validate(changed)


@router.post("/{user}/password", status_code=204, summary="Give a person a new password")
def reset_password(
    user: Segment, body: NewPassword, caller: Manager, services: ServicesDep
) -> Response:
    """A new password by the admin; ends all sessions of that person."""
    password = body.password.get_secret_value()
    core = services.core
    with core.database.home_unit(caller.tenant) as unit:
        person = _changeable(unit, user, caller)
    passwords.check_rules(password, person.username)
    hashed = passwords.hashed(password)
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        people.set_password(work, person.id, hashed, services.identity.terms.memory)
    services.identity.revocations.poll()
    return Response(status_code=204)


def _find(unit: Unit, user: str) -> Person:
    try:
        return people.get(unit, UUID(user))
    except ValueError:
        return people.named(unit, user)


def _changeable(unit: Unit, user: str, caller: Caller) -> Person:
    """Who rules over all tenants cannot be taken over by an admin of one."""
    person = _find(unit, user)
    if person.platform and not caller.may("tenants:manage"):
        raise Forbidden("Only a platform admin may change a platform admin.")
    return person
