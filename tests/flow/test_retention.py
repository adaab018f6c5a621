"""Retention ends what was not observed for too long, and trimming forgets what was applied."""

from dataclasses import replace
from datetime import timedelta
from threading import Event
from typing import Any

from lily.assets.edits import Who
from lily.clock import FrozenClock
from lily.events.observations import AssetSeen
from lily.store import expiry, feed
from lily.store.edits import Edits
from lily.store.history import told
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core
from lily.workers import retention, trim
from tests.flow.apply import read, seen
from tests.flow.corridor import append

ANN = Who("ann", "request-1")


def policy(action: str, days: int = 30, enabled: bool = True) -> dict[str, Any]:
    return {
        "retention_policy": {
            "enabled": enabled, "retention_period_days": days, "action_after_expiry": action,
        }
    }  # fmt: skip


def later(system: Core, days: float) -> Core:
    return replace(system, clock=FrozenClock(system.clock.now() + timedelta(days=days)))


def kinds(core: Core, tenant: Tenant) -> list[tuple[str, str]]:
    with core.database.unit(tenant) as unit:
        return [(fact.kind, fact.by) for fact in map(told, feed.after(unit, 0, 100))]


def test_an_expired_asset_is_archived_or_deleted_once(
    core: Core, system: Core, tenant: Tenant
) -> None:
    seen(system, tenant, "old", details=policy("archive"))
    seen(system, tenant, "older", details=policy("delete"))
    seen(system, tenant, "kept", details=policy("delete", enabled=False))
    retention.work(later(system, 29), Event())
    assert len(kinds(core, tenant)) == 3
    for _ in range(2):
        retention.work(later(system, 31), Event())
    old, older, kept = (read(core, tenant, name) for name in ("old", "older", "kept"))
    assert old.archived_at and old.deleted_by is None
    assert older.deleted_by == "retention" and older.archived_at is None
    assert kept.deleted_by is None and kept.archived_at is None
    assert sorted(kinds(core, tenant)[3:]) == [
        ("AssetArchived", "system"), ("AssetDeleted", "system"),
    ]  # fmt: skip


def test_what_is_observed_again_comes_back_and_lives_another_period(
    core: Core, system: Core, tenant: Tenant
) -> None:
    for action in ("archive", "delete"):
        seen(system, tenant, action, details=policy(action))
    retention.work(later(system, 31), Event())
    again = later(system, 32)
    for action in ("archive", "delete"):
        seen(again, tenant, action, details=policy(action))
        asset = read(core, tenant, action)
        assert (asset.deleted_by, asset.archived_at) == (None, None)
    retention.work(later(system, 61), Event())
    assert read(core, tenant, "delete").deleted_by is None
    retention.work(later(system, 63), Event())
    assert read(core, tenant, "delete").deleted_by == "retention"


def test_what_a_person_restores_lives_another_period(
    core: Core, system: Core, tenant: Tenant
) -> None:
    seen(system, tenant, "a", details=policy("delete"))
    retention.work(later(system, 31), Event())
    then = later(system, 32)
    Edits(core.database, then.clock, effective).restore(tenant, "a", ANN)
    retention.work(then, Event())
    assert read(core, tenant, "a").deleted_by is None


def test_a_large_number_expires_in_chunks(core: Core, system: Core, tenant: Tenant) -> None:
    for number in range(5):
        seen(system, tenant, f"a{number}", details=policy("archive", 0))
    clock = later(system, 1).clock
    assert expiry.expire(system.database, clock, tenant, 2)
    assert expiry.expire(system.database, clock, tenant, 2)
    assert not expiry.expire(system.database, clock, tenant, 2)
    assert sum(kind == "AssetArchived" for kind, _ in kinds(core, tenant)) == 5


def test_the_log_forgets_only_what_was_applied_long_ago(
    core: Core, system: Core, tenant: Tenant
) -> None:
    append(core, tenant, AssetSeen(qualified_name="trimmed"))
    count = "SELECT count(*) FROM log WHERE tenant = %s"
    at_once = replace(system, settings=system.settings.model_copy(update={"log_keep_hours": 0}))
    trim.work(at_once, Event())
    with system.database.cell("home") as conn:
        assert conn.execute(count, [tenant.number]).fetchone() == (1,)
        before = conn.execute("SELECT position FROM applied WHERE lane = 'core'").fetchone()
        conn.execute("UPDATE applied SET position = 1000000 WHERE lane = 'core'")
    try:
        trim.work(system, Event())
        trim.work(at_once, Event())
        with system.database.cell("home") as conn:
            assert conn.execute(count, [tenant.number]).fetchone() == (1,), "not in the lake yet"
            conn.execute("UPDATE archived SET position = 1000000 WHERE lane = 'core'")
        trim.work(at_once, Event())
        with system.database.cell("home") as conn:
            assert conn.execute(count, [tenant.number]).fetchone() == (0,)
    finally:
        with system.database.cell("home") as conn:
            assert before is not None
            conn.execute("UPDATE applied SET position = %s WHERE lane = 'core'", [before[0]])
            conn.execute("UPDATE archived SET position = 0 WHERE lane = 'core'")


def test_without_a_lake_the_log_forgets_what_was_applied(
    core: Core, system: Core, tenant: Tenant
) -> None:
    append(core, tenant, AssetSeen(qualified_name="trimmed"))
    changed = {"log_keep_hours": 0, "lake": "off"}
    with system.database.cell("home") as conn:
        before = conn.execute("SELECT position FROM applied WHERE lane = 'core'").fetchone()
        conn.execute("UPDATE applied SET position = 1000000 WHERE lane = 'core'")
    try:
        trim.work(replace(system, settings=system.settings.model_copy(update=changed)), Event())
        with system.database.cell("home") as conn:
            count = "SELECT count(*) FROM log WHERE tenant = %s"
            assert conn.execute(count, [tenant.number]).fetchone() == (0,)
    finally:
        with system.database.cell("home") as conn:
            assert before is not None
            conn.execute("UPDATE applied SET position = %s WHERE lane = 'core'", [before[0]])
