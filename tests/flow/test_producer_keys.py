"""Keys of programs that write to Kafka: new ones are known at once, revoked ones soon not."""

from lily.store import producer_keys
from lily.store.feed import after
from lily.types import Tenant
from lily.wiring import Core
from tests.conftest import new_tenant


def test_a_new_key_is_known_at_once_and_only_for_its_tenant(
    core: Core, system: Core, tenant: Tenant
) -> None:
    keys = producer_keys.Keys(system.database, system.seal.open)
    assert keys("pk_nobody") is None
    keys._looked -= producer_keys.AGAIN
    made, secret = producer_keys.create(core.database, core.seal, core.clock, tenant, "etl")
    known = keys(made.id)
    assert known is not None
    assert (known.tenant, known.name, known.secret) == (tenant.number, "etl", secret)
    assert producer_keys.every(core.database, new_tenant(core)) == []


def test_a_revoked_key_is_forgotten_and_both_are_told(
    core: Core, system: Core, tenant: Tenant
) -> None:
    keys = producer_keys.Keys(system.database, system.seal.open)
    made, _ = producer_keys.create(core.database, core.seal, core.clock, tenant, "etl")
    assert keys(made.id) is not None
    producer_keys.revoke(core.database, core.clock, tenant, made.id)
    keys._looked -= producer_keys.FRESH
    assert keys(made.id) is None
    with core.database.unit(tenant) as unit:
        kinds = [link.kind for link in after(unit, 0, 10)]
    assert kinds == ["TokenCreated", "TokenRevoked"]
