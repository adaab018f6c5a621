"""Letting an engine go: everybody gets back what they had."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from lily.api.deps import Segment, ServicesDep, actor_of, requires, uuid_of
from lily.errors import Conflict
from lily.store import connections
from lily.types import Caller

router = APIRouter(prefix="/api/v1/connections", tags=["access"])

EXAMPLE: dict[str, Any] = {
    "connection": "b7c0a3f2-5d0a-4a52-a3d1-7a9e6f0e9f11",
    "mode": "release",
    "revision": 4,
}


class Released(BaseModel):
    """The connection is in the mode `release`; what is still kept is under its protections."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    connection: UUID
    mode: str
    revision: int


@router.post(
    "/{id}/release", status_code=202, summary="Give everybody in an engine back their rights"
)
def release(
    id: Segment,
    caller: Annotated[Caller, requires("connections:manage")],
    services: ServicesDep,
) -> Released:
    """From the ledger, as a set exactly as it was. Undone by setting the mode to `enforce`."""
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        before = connections.locked(unit, uuid_of("connection", id), None)
        if "enforcer" not in before.uses:
            raise Conflict("The connection is not an enforcer.")
        wanted = msgspec.structs.replace(
            before, options={**before.options, "mode": "release"}, updated_at=core.clock.now()
        )
        after = connections.change(unit, before, wanted, actor_of(caller))
    return Released(connection=after.id, mode="release", revision=after.revision)
