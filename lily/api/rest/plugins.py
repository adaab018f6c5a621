"""What is installed, and which options it takes."""

from typing import Annotated, Any

from fastapi import APIRouter

from lily import plugins
from lily.api.deps import requires
from lily.api.fields import Page, Shown
from lily.types import Caller

router = APIRouter(prefix="/api/v1/plugins", tags=["connections"])


class Plugin(Shown):
    """`options` is a JSON schema; `problem` says why a plug-in does not load."""

    name: str
    kind: str
    package: str
    version: str
    summary: str
    options: dict[str, Any] | None
    problem: str


@router.get("", summary="List installed plug-ins")
def installed(_: Annotated[Caller, requires("connections:read")]) -> Page[Plugin]:
    """Installed is not enabled: a connection enables it."""
    found = [each for kind in plugins.KINDS for each in plugins.describe(kind)]
    return Page(items=[Plugin.model_validate(each) for each in found])
