"""Personal tokens: for scripts of a person, shown once."""

from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field
from starlette import requests
from starlette.responses import Response

from lily.api.deps import (
    After,
    Limit,
    Segment,
    ServicesDep,
    actor_of,
    requires,
    uuid_of,
    verified,
)
from lily.api.fields import Line, Page, Request, Shown, example, next_of
from lily.errors import Forbidden, Invalid
from lily.identity import opaque, roles
from lily.identity.roles import Role
from lily.store import people, tokens
from lily.store.desk import desk
from lily.types import Caller

router = APIRouter(prefix="/api/v1/tokens", tags=["users"])

Owner = Annotated[Caller, requires("tokens:own")]


class NewToken(Request):
    model_config = example({"name": "nightly job", "expires_in_days": 30, "role": "viewer"})

    name: Line
    expires_in_days: int = Field(90, ge=1, le=3650)
    role: Role | None = Field(None, description="A weaker role than yours; yours if absent.")


class Token(Shown):
    id: UUID
    name: str
    role: str | None
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None = Field(None, description="When it was used last, to a minute.")


class ShownOnce(Token):
    """The text is shown this once."""

    token: str


@router.post("", status_code=201, summary="Create a personal token")
def create(
    body: NewToken, caller: Owner, request: requests.Request, services: ServicesDep
) -> ShownOnce:
    session = verified(request)
    if session.session is None:
        raise Forbidden("A personal token cannot make another; log in with your password.")
    if body.role and not roles.weaker(body.role, session.role):
        raise Forbidden(f"The role {body.role} may do more than yours.")
    text = opaque.new(opaque.PERSONAL, caller.tenant.number)
    core, me = services.core, UUID(caller.subject)
    life = timedelta(days=body.expires_in_days)
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        people.get(work.unit, me)
        made = tokens.create(work, me, body.name, text.digest, body.role, life)
    return ShownOnce(**Token.model_validate(made).model_dump(), token=text.text)


@router.get("", summary="List your personal tokens")
def own(caller: Owner, services: ServicesDep, limit: Limit = 100, after: After = "") -> Page[Token]:
    start = _start(after)
    with services.core.database.home_unit(caller.tenant) as unit:
        found = tokens.page(unit, UUID(caller.subject), start, limit)
    items = [Token.model_validate(token) for token in found]
    return Page(items=items, next=next_of(items, limit, "id"))


@router.delete("/{token}", status_code=204, summary="Revoke a personal token")
def revoke(token: Segment, caller: Owner, services: ServicesDep) -> Response:
    """One of your own; an admin may end anybody's in the tenant."""
    core = services.core
    owner = None if caller.may("users:manage") else UUID(caller.subject)
    with desk(core.database, core.clock, caller.tenant, actor_of(caller)) as work:
        tokens.end(work, uuid_of("token", token), owner, services.identity.terms.memory)
    services.identity.revocations.poll()
    return Response(status_code=204)


def _start(after: str) -> UUID:
    try:
        return UUID(after) if after else UUID(int=0)
    except ValueError:
        raise Invalid("must be `next` of the page before", "after") from None
