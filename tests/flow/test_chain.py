"""The feed on the real store: dense, in order, and every tampering is named."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, LiteralString

import psycopg
import pytest

from lily.events.chain import Break, Link
from lily.events.facts import Fact
from lily.store import feed
from lily.types import Tenant
from lily.wiring import Core


def _record(core: Core, tenant: Tenant, count: int, who: str = "t") -> None:
    facts = [
        Fact(kind="AssetChanged", at=core.clock.now(), by=who, cause=f"{who}-{i}", after={"n": i})
        for i in range(count)
    ]
    with core.database.unit(tenant) as unit:
        feed.record(unit, facts)


def _check(core: Core, tenant: Tenant) -> Break | None:
    with core.database.unit(tenant) as unit:
        return feed.check(unit, chunk=7)


def _tail(core: Core, tenant: Tenant, done: Event) -> list[Link]:
    """Read on from where it stopped until the writers are done and nothing is left."""
    seen: list[Link] = []
    while True:
        last = done.is_set()
        with core.database.unit(tenant) as unit:
            page = feed.after(unit, seen[-1].position if seen else 0, 50)
        seen += page
        if last and not page:
            return seen


def test_a_tailing_reader_sees_every_fact_of_eight_writers_once_and_in_order(
    core: Core, tenant: Tenant
) -> None:
    done = Event()

    def write(writer: int) -> None:
        for turn in range(40):
            _record(core, tenant, 1 + turn % 3, f"w{writer}-{turn}")

    with ThreadPoolExecutor(10) as pool:
        tail = pool.submit(_tail, core, tenant, done)
        for writer in [pool.submit(write, n) for n in range(8)]:
            writer.result()
        done.set()
        seen = tail.result()
    assert [link.position for link in seen] == list(range(1, len(seen) + 1))
    wanted = {f"w{w}-{t}-{i}" for w in range(8) for t in range(40) for i in range(1 + t % 3)}
    assert sorted(link.cause for link in seen) == sorted(wanted)
    assert _check(core, tenant) is None


TAMPERINGS: dict[LiteralString, tuple[LiteralString, int]] = {
    "a flipped byte in a payload": (
        "UPDATE lily.fact SET payload = overlay(payload placing 'X' from 12) "
        "WHERE tenant = %s AND position = 4", 4),
    "a changed cause": (
        "UPDATE lily.fact SET cause = 'me' WHERE tenant = %s AND position = 5", 5),
    "a deleted row": ("DELETE FROM lily.fact WHERE tenant = %s AND position = 6", 6),
    "a cut tail": ("DELETE FROM lily.fact WHERE tenant = %s AND position > 18", 19),
    "two rows exchanged": (
        "UPDATE lily.fact f SET payload = o.payload, salt = o.salt, payload_hash = o.payload_hash,"
        " cause = o.cause, at = o.at FROM lily.fact o WHERE f.tenant = %s AND o.tenant = f.tenant"
        " AND (f.position, o.position) IN ((8, 9), (9, 8))", 8),
    "a new hash over a forged payload": (
        "UPDATE lily.fact SET payload = 'forged', payload_hash = sha256(salt || 'forged'::bytea)"
        " WHERE tenant = %s AND position = 3", 3),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERINGS)
def test_a_tampered_feed_names_the_first_bad_row(
    core: Core, tenant: Tenant, home: str, what: LiteralString
) -> None:
    _record(core, tenant, 20)
    assert _check(core, tenant) is None
    statement, position = TAMPERINGS[what]
    with psycopg.connect(home, autocommit=True) as owner:
        assert owner.execute(statement, [tenant.number]).rowcount > 0
    broken = _check(core, tenant)
    assert broken is not None and broken.position == position


def test_an_erased_payload_keeps_the_chain_whole(core: Core, tenant: Tenant, home: str) -> None:
    _record(core, tenant, 5)
    with psycopg.connect(home, autocommit=True) as owner:
        owner.execute(
            "UPDATE lily.fact SET payload = NULL, salt = NULL WHERE tenant = %s AND position = 2",
            [tenant.number],
        )
    assert _check(core, tenant) is None


@pytest.mark.parametrize("verb", ["UPDATE fact SET cause = 'x'", "DELETE FROM fact"])
def test_the_api_cannot_change_a_fact(core: Core, tenant: Tenant, verb: Any) -> None:
    _record(core, tenant, 1)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), core.database.unit(tenant) as unit:
        unit.conn.execute(verb)
