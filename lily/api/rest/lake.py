"""The metadata lake: how current it is, and a tenant's own rows to take away."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from starlette.responses import StreamingResponse

from lily.api import behind
from lily.api.deps import Segment, ServicesDep, requires
from lily.errors import Forbidden
from lily.store import archive
from lily.store.database import SIGHT
from lily.types import Caller
from lily.wiring import Services, lake

router = APIRouter(prefix="/api/v1/lake", tags=["lake"])

Reader = Annotated[Caller, requires("lake:read")]
Format = Literal["ndjson", "arrow", "parquet"]

TYPES: dict[Format, str] = {
    "ndjson": "application/x-ndjson",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
BINARY = {"schema": {"type": "string", "format": "binary"}}
EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The rows, in the wanted format.",
        "content": {
            TYPES["ndjson"]: {"schema": {"type": "string"}},
            TYPES["arrow"]: BINARY,
            TYPES["parquet"]: BINARY,
        },
    }
}


class TableShown(BaseModel):
    """`rows` are the caller's own; `lag_seconds` is how long the oldest missing change waits."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "table": "facts",
                    "snapshot_id": "4471219046011268921",
                    "committed_at": "2026-01-31T12:00:00Z",
                    "rows": 1042,
                    "snapshots": 17,
                    "lag_seconds": 0.0,
                }
            ]
        }
    )

    table: str
    snapshot_id: str | None
    committed_at: datetime | None
    rows: int
    snapshots: int
    lag_seconds: float


class LakeShown(BaseModel):
    """Where the tables are, and each of them."""

    catalog: str
    namespace: str
    items: list[TableShown]


@router.get("", summary="Show snapshot, rows and lag of each table of the lake")
def tables(caller: Reader, services: ServicesDep) -> LakeShown:
    """Snapshot ids are texts: they do not fit into a JSON number everywhere."""
    from lily.lake.cell import CATALOG
    from lily.lake.read import state
    from lily.lake.tables import LAYOUTS

    where = lake(services.core, caller.tenant.cell)
    try:
        shown = []
        for name in LAYOUTS:
            found = state(where, name, caller.tenant.number)
            reached = found.position if found else {}
            shown.append(
                TableShown(
                    table=name,
                    snapshot_id=str(found.snapshot_id) if found else None,
                    committed_at=found.committed_at if found else None,
                    rows=found.rows if found else 0,
                    snapshots=found.snapshots if found else 0,
                    lag_seconds=round(_lag(services, caller, name, reached), 3),
                )
            )
        return LakeShown(catalog=CATALOG, namespace=where.namespace, items=shown)
    finally:
        where.close()


@router.get(
    "/export/{table}",
    summary="Export your rows of a table",
    response_class=StreamingResponse,
    responses=EXPORTED,
)
def export(
    table: Segment,
    caller: Reader,
    services: ServicesDep,
    format: Annotated[Format, Query(description="How the rows are written.")] = "ndjson",
    snapshot: Annotated[
        int | None, Query(ge=0, lt=2**63, description="As the table was; else as it is.")
    ] = None,
) -> StreamingResponse:
    """The rows of the caller's tenant and of nobody else, streamed."""
    if SIGHT.get():
        raise Forbidden("An export holds everything, and policies keep a part of it from you.")
    from lily.lake.read import exported

    where = lake(services.core, caller.tenant.cell)
    try:
        rows = exported(where, table, caller.tenant.number, snapshot)
    except BaseException:
        where.close()
        raise

    def stream() -> Iterator[bytes]:
        from lily.lake.formats import WRITERS

        try:
            yield from WRITERS[format](rows)
        finally:
            where.close()

    named = {"Content-Disposition": f'attachment; filename="{table}.{format}"'}
    return StreamingResponse(stream(), media_type=TYPES[format], headers=named)


def _lag(services: Services, caller: Caller, name: str, reached: dict[str, int]) -> float:
    tenant = caller.tenant
    if name == "observations":
        return behind.lake(services, tenant, reached)
    with services.core.database.unit(tenant) as unit:
        return archive.waits_since(unit.conn, tenant.number, reached.get(str(tenant.number), 0))
