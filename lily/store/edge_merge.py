"""A batch of words on edges becomes rows and facts, inside the transaction of its assets."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
import psycopg

from lily.events.facts import Fact
from lily.events.lineage import Edge, EdgeGone, LineageStated
from lily.lineage.edges import JOB, EdgeMessage, Ends, Known, When, Word, stated, take
from lily.lineage.labels import CONTAINS
from lily.store import assets, edges
from lily.store.edge_ends import End, EndBook
from lily.store.edges import Key

Arrival = tuple[int, EdgeMessage]  # tenant, message
Job = tuple[int, str]  # tenant, source


class Place(msgspec.Struct, frozen=True):
    """An asset that nobody has seen yet, and the message that speaks of it."""

    tenant: int
    end: End
    message: EdgeMessage


class Decided(NamedTuple):
    """Some edges as they are now, and what is told of them, by tenant, in the order of the log."""

    edges: list[Known]
    facts: dict[int, list[Fact]]


class EdgeMerge:
    """Look up, make room for unknown ends, load, decide, save: in this order."""

    def __init__(
        self,
        conn: psycopg.Connection,
        tenant_id: Callable[[int], UUID],
        arrivals: Sequence[Arrival],
        here: Collection[assets.Key],
    ) -> None:
        self._conn = conn
        self._arrivals = arrivals
        self._book = EndBook(conn, tenant_id, here)
        self._jobs: dict[Job, When] = {}
        self._restated: dict[Job, When] = {}
        self._words: list[tuple[int, list[tuple[Ends, bool, Edge | None]]]] = []
        self._known: dict[Key, Known] = {}
        self._claimed: dict[Job, set[UUID]] = {}
        self.refused: list[tuple[int, str]] = []  # index of the arrival, and why

    def places(self) -> list[Place]:
        """Find every end; returns the assets that have to be made first."""
        self._look_up_jobs()
        living = [
            (index, arrival)
            for index, arrival in enumerate(self._arrivals)
            if self._is_news(*arrival)
        ]
        self._book.look_up(
            {
                (tenant, name)
                for _, (tenant, message) in living
                for edge in _edges(message)
                for name in (edge.from_name, edge.to_name)
            }
        )
        wanted: list[Place] = []
        for index, (tenant, message) in living:
            wanted += self._read(index, tenant, message)
        return wanted

    def load(self) -> None:
        """Read all that is known of the edges: from here on the connection is not needed."""
        wanted: dict[Key, Ends | None] = {}
        for index, words in self._words:
            tenant = self._arrivals[index][0]
            for ends, _, _ in words:
                wanted[tenant, ends.id] = ends
        self._claimed = self._of_jobs()
        for (tenant, _), ids in self._claimed.items():
            for id in ids:
                wanted.setdefault((tenant, id), None)
        self._known = edges.load(self._conn, wanted) if wanted else {}

    def decide(self, now: datetime, size: int) -> Iterator[Decided]:
        """So many words at a time; an edge may be in several parts."""
        for start in range(0, len(self._words), size):
            moved: dict[Key, Known] = {}
            facts: dict[int, list[Fact]] = defaultdict(list)
            for index, words in self._words[start : start + size]:
                tenant, message = self._arrivals[index]
                facts[tenant] += self._take(tenant, message, words, moved, now)
            yield Decided(list(moved.values()), facts)

    def save(self) -> None:
        """Write what does not live in the rows: claims, and when jobs last spoke."""
        edges.save_claims(self._conn, self._known.values())
        if self._restated:
            edges.save_jobs(self._conn, self._restated)

    def _look_up_jobs(self) -> None:
        jobs = sorted({(t, m.source) for t, m in self._arrivals if m.source.startswith(JOB)})
        if jobs:
            self._jobs = edges.jobs(
                self._conn, sorted({t for t, _ in jobs}), [source for _, source in jobs]
            )

    def _is_news(self, tenant: int, message: EdgeMessage) -> bool:
        """A job's complete statement makes everything older that it said pointless."""
        job = (tenant, message.source)
        last = self._jobs.get(job)
        if last is not None and message.when <= last:
            return False
        if isinstance(message.seen, LineageStated):
            self._jobs[job] = self._restated[job] = message.when
        return True

    def _read(self, index: int, tenant: int, message: EdgeMessage) -> list[Place]:
        gone = isinstance(message.seen, EdgeGone)
        words: list[tuple[Ends, bool, Edge | None]] = []
        ends: dict[UUID, End] = {}
        for edge in _edges(message):
            start = self._book.end(tenant, edge.from_name)
            end = self._book.end(tenant, edge.to_name)
            if start is None or end is None:
                if not gone:
                    self.refused.append((index, _unknown(edge, start is None)))
                return []
            found = self._book.ends(tenant, start, end, edge.relationship_type)
            words.append((found, gone, edge if isinstance(edge, Edge) else None))
            ends[start.guid], ends[end.guid] = start, end
        self._words.append((index, words))
        return [] if gone else self._missing(tenant, message, ends)

    def _missing(self, tenant: int, message: EdgeMessage, ends: Mapping[UUID, End]) -> list[Place]:
        found: list[Place] = []
        for end in ends.values():
            if end.is_field and not self._book.exists(tenant, end.top):
                table = End(end.top, end.name.partition("#")[0], end.top, str(end.top), False)
                self._make_room(tenant, table, message, found)
            self._make_room(tenant, end, message, found)
        return found

    def _make_room(self, tenant: int, end: End, message: EdgeMessage, found: list[Place]) -> None:
        if not self._book.exists(tenant, end.guid):
            self._book.note(tenant, end.guid)
            found.append(Place(tenant, end, message))

    def _of_jobs(self) -> dict[Job, set[UUID]]:
        """The edges of the jobs that state everything anew."""
        claimed: dict[Job, set[UUID]] = defaultdict(set)
        if self._restated:
            tenants = sorted({tenant for tenant, _ in self._restated})
            sources = sorted({source for _, source in self._restated})
            for tenant, source, id in edges.of_jobs(self._conn, tenants, sources):
                claimed[tenant, source].add(id)
        return claimed

    def _take(
        self,
        tenant: int,
        message: EdgeMessage,
        words: Sequence[tuple[Ends, bool, Edge | None]],
        moved: dict[Key, Known],
        now: datetime,
    ) -> list[Fact]:
        facts: list[Fact] = []
        job = (tenant, message.source)
        own = self._claimed[job] if message.source.startswith(JOB) else set()
        for ends, gone, edge in words:
            said = None
            if not gone and edge is not None:
                said = stated(edge.process, edge.transformation, edge.masking, edge.properties)
                own.add(ends.id)
            known = moved[tenant, ends.id] = self._known[tenant, ends.id]
            facts += take(known, _word(message, said), now)
        if isinstance(message.seen, LineageStated):
            kept = {ends.id for ends, _, _ in words}
            for id in sorted(own - kept):
                known = moved[tenant, id] = self._known[tenant, id]
                facts += take(known, _word(message, None), now)
                if known.claims[message.source].gone:  # or else it said so later than this
                    own.discard(id)
        return facts


def _word(message: EdgeMessage, said: dict[str, object] | None) -> Word:
    return Word(message.source, message.by, message.cause, message.when, said, message.traceparent)


def _edges(message: EdgeMessage) -> Iterator[Edge | EdgeGone]:
    seen = message.seen
    if isinstance(seen, LineageStated):
        yield from (edge for edge in seen.edges if edge.relationship_type != CONTAINS)
    else:
        yield seen


def _unknown(edge: Edge | EdgeGone, at_start: bool) -> str:
    field, name = ("from_name", edge.from_name) if at_start else ("to_name", edge.to_name)
    return f"{field}: is an id that no asset has ({name}); give its qualified name"
