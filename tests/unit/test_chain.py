"""The feed's hash chain, on the real store."""

from lily.events.facts import Fact
from lily.store import feed
from lily.types import Tenant
from lily.wiring import Core


def _record(core: Core, tenant: Tenant, count: int) -> None:
    facts = [Fact(kind="AssetChanged", at=core.clock.now(), by="t", cause=str(i), after={"n": i})
             for i in range(count)]
    with core.database.unit(tenant) as unit:
        feed.record(unit, facts)


def test_an_untouched_feed_verifies(core: Core, tenant: Tenant) -> None:
    _record(core, tenant, 5)
    _record(core, tenant, 5)
    with core.database.unit(tenant) as unit:
        assert feed.check(unit) is None
        assert [link.position for link in feed.after(unit, 0, 100)] == list(range(1, 11))
