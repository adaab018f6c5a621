"""A small graph in the store, changed by hand, and what should have arrived where."""

from collections.abc import Iterable, Iterator, Mapping
from threading import Event
from typing import Any
from uuid import UUID

import pytest

from lily import wiring
from lily.assets.edits import Who
from lily.assets.names import guid_of
from lily.events.facts import Fact
from lily.identity.actor import Actor
from lily.store import feed, propagation_blocks
from lily.store.edits import Edits
from lily.store.propagation import CONSUMER, Propagator, Stretch
from lily.store.propagation_feed import read
from lily.tags.effective import effective
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.apply import apply, seen
from tests.flow.people import Person

ANN = Who("ann", "request-1")
ACTOR = Actor("ann", "request-1")
ROWS = "SELECT guid, name, root, depth, via FROM propagated WHERE tenant = %s AND field = 'tag'"
ADD = """
INSERT INTO edge (tenant, id, upstream, downstream, type, level, up_top, down_top, implies,
  transformation, masking, origin, source, observed_at, log_offset, version, created_at, updated_at,
  cause, feed_position)
VALUES (%(tenant)s, %(id)s, %(up)s, %(down)s, %(type)s, %(level)s, %(up_top)s, %(down_top)s,
  %(implies)s, %(transformation)s, %(masking)s, 'source', 'test', now(), 0, 1, now(), now(), '', 0)
"""

Arrived = set[tuple[str, str, str, int, UUID]]  # asset, tag, root, depth, via


class Graph:
    """Assets by short names; every change is a transaction with its fact, as in real life."""

    def __init__(self, core: Core, system: Core, tenant: Tenant, small: int = 5_000) -> None:
        self.core, self.system, self.tenant = core, system, tenant
        self.edits = Edits(core.database, core.clock, effective)
        self.propagator = Propagator(
            system.database, system.clock, Event(), small, wiring.enrichments()
        )
        self.tags: dict[str, set[str]] = {}
        self.edges: dict[UUID, tuple[str, str, str]] = {}  # upstream, downstream, type
        self.cut: set[UUID] = set()
        self.gone: set[str] = set()
        self.blocks: set[tuple[UUID, str]] = set()

    def guid(self, name: str) -> UUID:
        return guid_of(self.tenant.id, name)

    def asset(self, *names: str, **fields: Any) -> None:
        for name in names:
            seen(self.system, self.tenant, name, **fields)
            self.tags[name] = set(fields.get("tags", ()))

    def tag(self, name: str, *tags: str) -> None:
        """A person's tags become exactly these."""
        self.edits.edit(self.tenant, name, {"tags": list(tags)}, False, ANN)
        self.tags[name] = set(tags)

    def edge(
        self, up: str, down: str, type: str = "feeds", transformation: str | None = None,
        masking: bool = False,
    ) -> UUID:  # fmt: skip
        ends = (self.guid(up), self.guid(down))
        id = self._edge_id(*ends, type)
        tops = (self.guid(up.partition("#")[0]), self.guid(down.partition("#")[0]))
        column = "#" in up + down
        values = {
            "tenant": self.tenant.number, "id": id, "up": ends[0], "down": ends[1], "type": type,
            "level": "column" if column else "table", "up_top": tops[0], "down_top": tops[1],
            "implies": self._edge_id(*tops, type) if column else None,
            "transformation": transformation, "masking": masking,
        }  # fmt: skip
        with self.core.database.unit(self.tenant) as unit:
            unit.conn.execute(ADD, values)
            said = {"level": values["level"]}
            if transformation:
                said["transformation"] = transformation
            feed.record(unit, [self._fact("EdgeCreated", id, *ends, said)])
        self.edges[id] = (up, down, type)
        return id

    def cut_edge(self, id: UUID) -> None:
        self._mark(id, "EdgeDeleted", "person")
        self.cut.add(id)

    def mend(self, id: UUID) -> None:
        self._mark(id, "EdgeRestored", None)
        self.cut.discard(id)

    def delete(self, name: str) -> None:
        self.edits.delete(self.tenant, name, ANN)
        self.gone.add(name)

    def restore(self, name: str) -> None:
        self.edits.restore(self.tenant, name, ANN)
        self.gone.discard(name)

    def block(self, id: UUID, tag: str) -> None:
        with self.core.database.unit(self.tenant) as unit:
            now = self.core.clock.now()
            propagation_blocks.put(unit, id, tag, "", ACTOR, now)
        self.blocks.add((id, tag))

    def unblock(self, id: UUID, tag: str) -> None:
        with self.core.database.unit(self.tenant) as unit:
            propagation_blocks.lift(unit, id, tag, ACTOR, self.core.clock.now())
        self.blocks.discard((id, tag))

    def settle(self, propagator: Propagator | None = None) -> None:
        """Handle all facts that are there."""
        while (stretch := self.waiting()) is not None:
            (propagator or self.propagator).handle(stretch)

    def waiting(self) -> Stretch | None:
        with self.system.database.cell(self.tenant.cell, [self.tenant.number]) as conn:
            number = self.tenant.number
            query = "SELECT position FROM consumer WHERE name = %s AND tenant = %s"
            row = conn.execute(query, [CONSUMER, number]).fetchone()
            head = conn.execute("SELECT position FROM feed_head WHERE tenant = %s", [number])
            at, [upto] = row[0] if row else 0, head.fetchone() or [0]
            facts, end = read(conn, number, at, upto)
        return Stretch(self.tenant, at, end, facts) if end > at else None

    def arrived(self, living: bool = True) -> Arrived:
        names = {self.guid(name): name for name in self.tags}
        with self.core.database.unit(self.tenant) as unit:
            rows = unit.conn.execute(ROWS, [self.tenant.number]).fetchall()
        return {
            (names[guid], tag, names[root], depth, via)
            for guid, tag, root, depth, via in rows
            if not living or names[guid] not in self.gone
        }

    def shown(self) -> dict[str, list[str]]:
        with self.core.database.unit(self.tenant) as unit:
            query = "SELECT qualified_name, tags FROM asset WHERE tenant = %s"
            rows = unit.conn.execute(query, [self.tenant.number]).fetchall()
        return {name: tags for name, tags in rows if name in self.tags and name not in self.gone}

    def expected(self, travelling: Iterable[str] = ("PII", "GDPR", "PHI", "PCI")) -> Arrived:
        """From scratch, asset by asset: the nearest root, the smaller one, the smaller edge."""
        found: Arrived = set()
        guid = self.guid
        for tag in travelling:
            level = {n: guid(n) for n, own in self.tags.items() if tag in own}
            level = {n: root for n, root in level.items() if n not in self.gone}
            reached, depth = set(level), 0
            while level and depth < 100:
                depth += 1
                best: dict[str, tuple[UUID, UUID]] = {}
                for id, (up, down, type) in self.edges.items():
                    holds = id not in self.cut and type not in ("influences", "references")
                    if not holds or up not in level or down in reached or down in self.gone:
                        continue
                    if (id, tag) not in self.blocks:
                        best[down] = min(best.get(down, (level[up], id)), (level[up], id))
                names = {guid(n): n for n in self.tags}
                found |= {(n, tag, names[r], depth, via) for n, (r, via) in best.items()}
                reached |= set(best)
                level = {n: root for n, (root, _) in best.items()}
        return found

    def _edge_id(self, up: UUID, down: UUID, type: str) -> UUID:
        return guid_of(self.tenant.id, f"edge:{up}:{down}:{type}")

    def _mark(self, id: UUID, kind: Any, deleted_by: str | None) -> None:
        up, down = map(self.guid, self.edges[id][:2])
        with self.core.database.unit(self.tenant) as unit:
            unit.conn.execute(
                "UPDATE edge SET deleted_by = %s WHERE tenant = %s AND id = %s",
                [deleted_by, self.tenant.number, id],
            )
            feed.record(unit, [self._fact(kind, id, up, down)])

    def _fact(
        self, kind: Any, id: UUID, up: UUID, down: UUID, said: Mapping[str, Any] | None = None
    ) -> Fact:
        after = {"edge_id": id, "upstream": up, "downstream": down, **(said or {})}
        return Fact(
            kind=kind, at=self.core.clock.now(), by="ann", cause="request-1", guid=down, after=after
        )


def observe(graph: Graph, *names: str, **fields: Any) -> None:
    """Many assets at once, as a bulk file brings them."""
    from lily.events.observations import AssetSeen

    apply(graph.system, graph.tenant, [AssetSeen(qualified_name=n, **fields) for n in names])
    graph.tags.update((name, set(fields.get("tags", ()))) for name in names)


# A test of rules takes these as its own.


@pytest.fixture
def graph(core: Core, system: Core, boss: Person) -> Iterator[Graph]:
    made = Graph(core, system, boss.tenant)
    yield made
    made.propagator.close()
