"""What a tenant's feed tells."""

from lily.events.facts import Fact
from lily.store import feed
from lily.store.history import told
from lily.types import Tenant
from lily.wiring import Core


def facts(core: Core, tenant: Tenant) -> list[Fact]:
    """The first thousand facts, in order."""
    with core.database.unit(tenant) as unit:
        return [told(link) for link in feed.after(unit, 0, 1000)]


def kinds(core: Core, tenant: Tenant) -> list[str]:
    return [fact.kind for fact in facts(core, tenant)]
