"""Two tenants in a shared database, one of which will move."""

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from lily import wiring
from lily.events.observations import AssetSeen
from lily.identity.actor import Actor
from lily.settings import load
from lily.store import feed, moves, moving
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.types import Isolation, Tenant
from lily.wiring import Core
from lily.wiring import core as build_core
from lily.workers.move import Pace, work
from tests.callers import tenant_with_admin
from tests.flow.corridor import Corridor, append
from tests.flow.lineage import join

PACE = Pace(drain=5, ends=20, caches=0)
ADMIN = Actor("boss", "move")
_numbers = itertools.count(1)

EVERYWHERE = """
SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'lily'::regnamespace AND c.relkind = 'r'
"""


class Place(msgspec.Struct):
    """Two tenants in a shared database, one of which will move."""

    server: Server
    core: Core
    system: Core
    corridor: Corridor
    tenant: Tenant
    other: Tenant
    canary: str

    def say(self, tenant: Tenant, *names: str, **more: Any) -> None:
        append(self.core, tenant, *(AssetSeen(qualified_name=name, **more) for name in names))
        self.corridor.run(tenant.cell)

    def away(self) -> str:
        return self.server.create_database(f"own{next(_numbers)}")

    def begin(self, to: Isolation, url: str | None = None) -> moves.Move:
        return moves.begin(self.core.database, self.core.seal, self.now, to, url, ADMIN)

    def move(self, to: Isolation, url: str | None = None) -> Tenant:
        self.begin(to, url)
        work(self.system, Event(), PACE)
        return self.now

    @property
    def now(self) -> Tenant:
        return self.core.database.tenant(self.tenant.number)

    def state(self, tenant: Tenant) -> dict[str, Any]:
        """What its cell holds of a tenant."""
        with moving.owner(self.core.database.url_of(tenant.cell)) as conn:
            return dict(moving.state(conn, moving.tables(conn), tenant.number))

    def left(self, url: str, text: str) -> list[str]:
        """Tables of a database in which a text is."""
        found = []
        with psycopg.connect(url) as conn:
            for (name,) in conn.execute(EVERYWHERE).fetchall():
                asked = sql.SQL("SELECT count(*) FROM {} t WHERE t::text LIKE %s")
                row = conn.execute(
                    asked.format(sql.Identifier("lily", name)), [f"%{text}%"]
                ).fetchone()
                if row and row[0]:
                    found.append(name)
        return found


@contextmanager
def shared(server: Server, home: Path, lake: str) -> Iterator[tuple[Core, Core]]:
    """A Lily for the API's role and the system's."""
    url = server.create_database(f"moving{next(_numbers)}")
    migrate(url)
    settings = load(home=home, database=url, lake=lake)
    both = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    yield both
    for each in both:
        each.close()


@contextmanager
def two_tenants(server: Server, core: Core, system: Core) -> Iterator[Place]:
    corridor = Corridor(system)
    two = tenant_with_admin(core), tenant_with_admin(core)
    made = Place(server, core, system, corridor, *two, canary=f"canary-{two[0].name}")
    names = ("db/people", "db/orders", "db/orders/id")
    made.say(made.tenant, *names, description=made.canary, tags=["PII"])
    append(core, made.tenant, join("db/people", "db/orders"))
    append(core, made.tenant, AssetSeen(qualified_name="", description=made.canary))  # dies
    corridor.run()
    made.say(made.other, "db/people", description="of somebody else")
    yield made
    corridor.close()


def killed(place: Place, folder: Path, moment: str) -> None:
    """A worker carries the tenant, and is killed when it gets there."""
    saved = folder / "settings.json"
    wiring.save(place.system.settings, saved)
    died = subprocess.run(
        [sys.executable, "-m", "tests.flow.killed_move", str(saved), moment], timeout=60
    )
    assert died.returncode == -signal.SIGKILL
    assert moves.find(place.core.database, place.tenant) is not None


def goes_on_after(place: Place, folder: Path, moment: str) -> None:
    before, others = place.state(place.tenant), place.state(place.other)
    place.begin("dedicated", place.away())
    killed(place, folder, moment)
    work(place.system, Event(), PACE)
    assert (place.now.isolation, place.now.state) == ("dedicated", "active")
    same_but_for_the_news(before, place.state(place.now))
    verifies(place, place.now)
    assert place.left(place.core.database.url_of("home"), place.canary) == []
    assert place.state(place.other) == others


def verifies(place: Place, tenant: Tenant) -> None:
    with place.core.database.unit(tenant) as unit:
        assert feed.check(unit) is None


def same_but_for_the_news(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Equal, but for the one fact that tells of the move."""
    assert after["fact"].rows == before["fact"].rows + 1
    for told in ("fact", "feed_head"):
        before, after = ({k: v for k, v in s.items() if k != told} for s in (before, after))
    assert after == before
