"""Connections to sources, and crawls in the test's own thread."""

from threading import Event
from typing import Any
from uuid import UUID, uuid4

from lily import plugins
from lily.identity.actor import Actor
from lily.store import connections, crawls
from lily.store.connections import Connection
from lily.store.crawls import Run
from lily.types import Tenant
from lily.wiring import Core
from lily.workers import crawl
from tests.flow.corridor import unread

TESTER = Actor("tester", "test")


def connect(core: Core, tenant: Tenant, name: str, plugin: str, **options: Any) -> UUID:
    """A connection as the API would make it; crawled only when asked."""
    id, now = uuid4(), core.clock.now()
    public, secrets = plugins.split(plugins.check("source", plugin, options))
    sealed = core.seal.seal(secrets, connections.about(tenant.number, id)) if secrets else None
    made = Connection(id, name, plugin, ["source"], public, sealed, "manual", 0, True, 1, now, now)
    with core.database.unit(tenant) as unit:
        connections.create(unit, made, TESTER)
    return id


def ask(core: Core, tenant: Tenant, connection: UUID, scope: str | None = None) -> UUID:
    with core.database.unit(tenant) as unit:
        return crawls.ask(unit, connection, "request", "tester", scope, core.clock.now()).id


def run_of(core: Core, tenant: Tenant, id: UUID) -> Run:
    with core.database.unit(tenant) as unit:
        return crawls.get(unit, id)


def crawled(
    core: Core, system: Core, tenant: Tenant, connection: UUID, scope: str | None = None
) -> Run:
    """Ask for a crawl and do it."""
    id = ask(core, tenant, connection, scope)
    crawl.work(system, Event())
    return run_of(core, tenant, id)


def waiting(system: Core, tenant: Tenant) -> list[str]:
    """Names of assets in the log of a tenant that are not applied yet."""
    with system.database.cell(tenant.cell) as conn:
        rows = conn.execute(
            'SELECT l.key FROM log l JOIN applied a ON a.lane = l.lane AND l."offset" > a.position'
            " AND a.part = 0"  # of the log in the store
            " WHERE l.tenant = %s AND l.value !~ %s ORDER BY l.key",
            [tenant.number, '"type":"Edge'],
        ).fetchall()
    return sorted([key for (key,) in rows] + unread(system, tenant))
