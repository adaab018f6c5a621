"""Which sources a tenant trusts most, strongest first. The others follow, newest first."""

from collections.abc import Mapping, Sequence

from psycopg.types.json import Jsonb

from lily.clock import Clock
from lily.identity.actor import Actor
from lily.store.database import Database
from lily.store.desk import desk
from lily.types import Tenant

READ = "SELECT settings -> 'source_priority' FROM tenant WHERE number = %s"
WRITE = (
    "UPDATE tenant SET settings = jsonb_set(settings, '{source_priority}', %s) WHERE number = %s"
)


def sources(database: Database, tenant: Tenant) -> list[str]:
    with database.home() as conn:
        row = conn.execute(READ, [tenant.number]).fetchone()
    return list(row[0]) if row and row[0] else []


def ranks(database: Database, tenant: Tenant) -> Mapping[str, int]:
    """As a fold takes it: lower is stronger."""
    return {source: rank for rank, source in enumerate(sources(database, tenant))}


def set_sources(
    database: Database, clock: Clock, tenant: Tenant, wanted: Sequence[str], actor: Actor
) -> list[str]:
    """From now on; an asset shows it when it is observed or edited the next time."""
    before = sources(database, tenant)
    if list(wanted) != before:
        with desk(database, clock, tenant, actor) as work:
            work.conn.execute(WRITE, [Jsonb(list(wanted)), tenant.number])
            work.note(
                "TenantChanged", {"source_priority": list(wanted)}, {"source_priority": before}
            )
    return list(wanted)
