"""Groups and roles: names for several users, for policies to speak of."""

from datetime import datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Response
from pydantic import Field

from lily.api.deps import After, Limit, Segment, ServicesDep, actor_of, requires
from lily.api.fields import Line, Page, Request, Shown, example, next_of
from lily.api.rest.connections import IfMatch, revision_of
from lily.errors import Conflict, Invalid
from lily.identity.roles import ROLES
from lily.store import circles
from lily.store.circles import Circle, CircleKind
from lily.types import Caller

Reader = Annotated[Caller, requires("policies:read")]
Manager = Annotated[Caller, requires("policies:manage")]


class CircleBody(Request):
    model_config = example(
        {"name": "analysts", "description": "They read.", "members": ["ana", "bob"]}
    )

    name: Line
    description: Annotated[str, Field(max_length=2000)] = ""
    members: list[Line] = Field(
        default_factory=list,
        max_length=100_000,
        description="Names of users and service accounts, here or in an engine.",
    )


class CirclePatch(Request):
    model_config = example({"members": ["ana", "bob", "cy"]})

    description: Annotated[str, Field(max_length=2000)] | None = None
    members: list[Line] | None = Field(None, max_length=100_000)


class CircleShown(Shown):
    name: str
    description: str
    members: list[str]
    revision: int
    created_at: datetime
    updated_at: datetime


def _routes(kind: CircleKind) -> APIRouter:
    router = APIRouter(prefix=f"/api/v1/{kind}s", tags=["access"])

    @router.get("", summary=f"List {kind}s", operation_id=f"list_{kind}s")
    def listed(
        caller: Reader, services: ServicesDep, limit: Limit = 100, after: After | None = None
    ) -> Page[CircleShown]:
        with services.core.database.unit(caller.tenant) as unit:
            found = circles.page(unit, kind, after, limit)
        items = [CircleShown.model_validate(each) for each in found]
        return Page(items=items, next=next_of(items, limit, "name"))

    @router.post("", status_code=201, summary=f"Make a {kind}", operation_id=f"create_{kind}")
    def create(
        body: CircleBody, response: Response, caller: Manager, services: ServicesDep
    ) -> CircleShown:
        _free(kind, body.name)
        core = services.core
        now = core.clock.now()
        with core.database.unit(caller.tenant) as unit:
            if circles.exists(unit, kind, body.name):
                raise Conflict(f"There is already a {kind} named {body.name!r}; change that one.")
            wanted = Circle(kind, body.name, body.description, body.members, 1, now, now)
            made = circles.put(unit, wanted, None, actor_of(caller))
        response.headers["Location"] = f"{router.prefix}/{quote(body.name, safe='')}"
        return _shown(made, response)

    @router.get("/{name}", summary=f"Read a {kind}", operation_id=f"read_{kind}")
    def read(
        name: Segment, response: Response, caller: Reader, services: ServicesDep
    ) -> CircleShown:
        with services.core.database.unit(caller.tenant) as unit:
            return _shown(circles.get(unit, kind, name), response)

    @router.patch("/{name}", summary=f"Change a {kind}", operation_id=f"change_{kind}")
    def change(
        name: Segment,
        body: CirclePatch,
        response: Response,
        caller: Manager,
        services: ServicesDep,
        if_match: IfMatch = None,
    ) -> CircleShown:
        """Who leaves a group that was exempt is masked again within two seconds."""
        core = services.core
        now = core.clock.now()
        with core.database.unit(caller.tenant) as unit:
            before = circles.get(unit, kind, name)
            wanted = Circle(
                kind, name,
                before.description if body.description is None else body.description,
                before.members if body.members is None else body.members,
                before.revision, before.created_at, now,
            )  # fmt: skip
            after = circles.put(unit, wanted, revision_of(if_match), actor_of(caller))
        return _shown(after, response)

    @router.delete(
        "/{name}", status_code=204, summary=f"Delete a {kind}", operation_id=f"delete_{kind}"
    )
    def delete(name: Segment, caller: Manager, services: ServicesDep) -> Response:
        core = services.core
        with core.database.unit(caller.tenant) as unit:
            circles.delete(unit, kind, name, actor_of(caller), core.clock.now())
        return Response(status_code=204)

    return router


def _free(kind: CircleKind, name: str) -> None:
    if kind == "role" and name in ROLES:
        raise Invalid("is a built-in role; choose another name", "name")


def _shown(circle: Circle, response: Response) -> CircleShown:
    response.headers["ETag"] = f'"{circle.revision}"'
    return CircleShown.model_validate(circle)


groups = _routes("group")
roles = _routes("role")
