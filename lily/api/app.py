"""The application: routes, and what stands around each of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

import lily
from lily.api import documents, engines, health, hot, problems, webhooks
from lily.api.idempotency import Idempotency
from lily.api.limits import Bodies
from lily.api.live import events, sockets
from lily.api.live.hub import Live
from lily.api.middleware import Edge
from lily.api.openapi import describe
from lily.api.refused import refused
from lily.api.rest import (
    access,
    access_control,
    accounts,
    acknowledge,
    assets,
    audit,
    auth,
    bulk,
    changes,
    circles,
    connections,
    crawls,
    dead,
    deliveries,
    incidents,
    labels,
    lag,
    lake,
    lineage,
    notices,
    notifications,
    oauth,
    oidc,
    openlineage,
    plugins,
    policies,
    priority,
    propagation,
    protections,
    providers,
    releases,
    schemas,
    scrapers,
    search,
    sql,
    sql_lineage,
    subscriptions,
    suggestions,
    tags,
    tenants,
    tokens,
    users,
)
from lily.api.shortcut import Shortcut
from lily.errors import Forbidden, LilyError
from lily.wiring import Services

ROUTERS: tuple[APIRouter, ...] = (
    lineage.router,  # the most asked of all; each router before it costs it time
    health.router,
    auth.router,
    oauth.router,
    oidc.router,
    providers.router,
    tenants.router,
    users.router,
    accounts.router,
    tokens.router,
    connections.router,
    crawls.router,
    lag.router,
    plugins.router,
    priority.router,
    propagation.rules,
    propagation.blocks,
    policies.router,
    circles.groups,
    circles.roles,
    scrapers.router,
    access.router,
    access_control.router,
    protections.router,
    releases.router,
    engines.router,
    sql.router,
    dead.router,
    subscriptions.router,
    deliveries.router,
    notices.router,
    notifications.router,
    acknowledge.router,
    incidents.router,
    webhooks.router,
    lake.router,
    audit.router,
    changes.router,
    search.router,
    tags.tags,
    tags.terms,
    tags.settings,
    suggestions.router,
    suggestions.found,
    labels.router,
    bulk.router,
    openlineage.router,
    sql_lineage.router,
    assets.router,
    documents.router,
    schemas.router,
)


def create_app(services: Services) -> FastAPI:
    app = FastAPI(
        title="Lily",
        version=lily.__version__,
        description="A near-real-time metadata plane.",
        openapi_url="/openapi.json",
        docs_url="/docs",
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.services = services
    app.router.routes.extend([*events.ROUTES, *sockets.ROUTES])
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    app.router.routes.append(bulk.ROUTE)
    app.router.routes.append(access.ROUTE)
    app.router.routes.extend(hot.ROUTES)
    app.state.templates = {
        route.endpoint: route.path for route in app.routes if isinstance(route, Route)
    }
    for kind in (LilyError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, problems.handle)
    app.add_exception_handler(Forbidden, refused)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    _surround(app, services)
    return app


def _surround(app: FastAPI, services: Services) -> None:
    """From the inside out. What the hot routes answer is sent as it is: packing costs more."""
    limit = services.core.settings.body_limit
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=4)
    app.add_middleware(Shortcut, route=hot.INGEST_ROUTE, routes=app.routes)
    app.add_middleware(Idempotency, answers=services.answers, limit=limit)
    app.add_middleware(Bodies, limit=limit)
    app.add_middleware(Shortcut, route=hot.READ_ROUTE, routes=app.routes)
    app.add_middleware(Edge)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    await run_in_threadpool(services.start)
    app.state.live = Live(services)
    try:
        yield
    finally:
        await services.hot.close()
        await run_in_threadpool(services.stop)
