"""Alive, ready, and measured. For everybody: no token needed."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, PlainTextResponse, Response

from lily import telemetry
from lily.api.deps import ServicesDep
from lily.errors import LilyError
from lily.store.database import HOME
from lily.store.migrate import pending
from lily.store.presence import alive
from lily.wiring import Services

router = APIRouter(tags=["health"])

READY: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "Not ready, with the reasons.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


@router.get("/healthz", summary="Alive")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", summary="Ready", responses=READY)
def readyz(services: ServicesDep) -> Response:
    """Database, migrations and a warm pipeline are there: one that leads, or can at once."""
    reasons: list[str] = []
    detail: dict[str, Any] = {}
    try:
        services.identity.revocations.confirm()
        reasons += _migrations(services)
        reasons += _pipeline(services, detail)
    except LilyError as exc:
        reasons.append(str(exc))
    body = {"status": "unready" if reasons else "ready", "reasons": reasons, "pipeline": detail}
    return JSONResponse(body, 503 if reasons else 200)


@router.get("/metrics", summary="Measured", response_class=PlainTextResponse)
def metrics() -> Response:
    """In Prometheus' text format."""
    return Response(telemetry.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _migrations(services: Services) -> list[str]:
    missing = pending(services.core.database.url_of(HOME))
    return [f"The database lacks {', '.join(missing)}; run `lily migrate`."] if missing else []


def _pipeline(services: Services, detail: dict[str, Any]) -> list[str]:
    running = alive(services.core.database, "pipeline")
    if not running:
        return ["No pipeline is running; start `lily pipeline`."]
    warm = [process.detail for process in running if process.detail.get("warm") is True]
    if not warm:
        return ["The pipeline is starting."]
    waiting = [told for told in warm if told.get("state") == "standby"]
    leading = [told for told in warm if told.get("state", "active") != "standby"] or waiting
    detail.update({name: leading[-1][name] for name in ("warm", "lag") if name in leading[-1]})
    if waiting:
        detail["standbys"] = len(waiting)
    return []
