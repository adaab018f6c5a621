"""What is installed, and which options it takes."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel

from lily import plugins
from lily.api.deps import requires
from lily.types import Caller

router = APIRouter(prefix="/api/v1/plugins", tags=["connections"])


class Plugin(BaseModel):
    """`options` is a JSON schema; `problem` says why a plug-in does not load."""

    name: str
    kind: str
    package: str
    version: str
    summary: str
    options: dict[str, Any] | None
    problem: str


class Plugins(BaseModel):
    items: list[Plugin]
    next: None = None


@router.get("", summary="List installed plug-ins")
def installed(_: Annotated[Caller, requires("connections:read")]) -> Plugins:
    """Installed is not enabled: a connection enables it."""
    found = [each for kind in plugins.KINDS for each in plugins.describe(kind)]
    return Plugins(items=[Plugin.model_validate(each, from_attributes=True) for each in found])
