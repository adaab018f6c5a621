"""The audit trail of an asset: every fact, bound by the hash chain."""

from typing import Annotated, Any

from fastapi import APIRouter
from starlette.responses import Response

from lily.api.deps import After, AssetKey, Limit, ServicesDep, requires
from lily.api.rest.assets import json
from lily.api.rest.pages import mark, unmark
from lily.api.rest.shapes import AuditPage
from lily.events.chain import Link
from lily.store import feed, history
from lily.types import Caller

router = APIRouter(prefix="/api/v1/metadata/audit", tags=["audit"])

Auditor = Annotated[Caller, requires("audit:read")]


def fact_of(link: Link) -> dict[str, Any]:
    """A fact with its place in the feed."""
    fact = history.told(link)
    shown = {name: getattr(fact, name) for name in _SHOWN}
    return {"position": link.position, **shown}


_SHOWN = (
    "kind", "at", "by", "cause", "asset_id", "guid", "qualified_name", "asset_type", "version",
    "before", "after",
)  # fmt: skip


@router.get("/{asset_id}", response_model=AuditPage, summary="Every fact of an asset, in order")
def audit(
    asset_id: AssetKey,
    caller: Auditor,
    services: ServicesDep,
    limit: Limit = 100,
    after: After = "",
) -> Response:
    """Also of an asset that was purged: facts are never deleted."""
    key = unmark(after, tuple[int])
    with services.core.database.unit(caller.tenant) as unit:
        guid = history.audited(unit, asset_id)
        links = feed.after(unit, key[0] if key else 0, limit + 1, guid)
    page = links[:limit]
    next = mark(page[-1].position) if len(links) > limit else None
    return json({"items": [_audited(link) for link in page], "next": next})


def _audited(link: Link) -> dict[str, Any]:
    return {**fact_of(link), "hash": link.hash.hex(), "erased": link.payload is None}
