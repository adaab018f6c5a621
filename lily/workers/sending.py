"""From what a source states to what goes into the log: differences, and what is gone."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec

from lily.assets.names import guid_of
from lily.events.envelope import Envelope
from lily.events.lineage import EdgeGone, EdgeSeen
from lily.events.observations import Nothing
from lily.log.postgres import append_in
from lily.store.connections import Connection
from lily.store.crawl_seen import Seen, Stated
from lily.store.crawls import Run
from lily.types import Tenant
from lily.workers.reading import (
    CHUNK,
    Chunk,
    Statement,
    ended,
    fingerprint,
    key_of,
    place_of,
)

SHOWN_REFUSALS = 5


class Counts(msgspec.Struct):
    """What became of everything that was read."""

    read: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    rejected: int = 0
    edges: int = 0  # told, because they came, changed or went; the others count assets
    reasons: list[str] = []

    @classmethod
    def of(cls, stored: Mapping[str, int]) -> "Counts":
        """Those of the attempts before: a run that goes on keeps counting."""
        known = {name: stored[name] for name in cls.__struct_fields__ if name in stored}
        return msgspec.convert(known, cls)

    def shown(self) -> dict[str, int]:
        names = ("read", "new", "changed", "unchanged", "gone", "rejected", "edges")
        return {name: getattr(self, name) for name in names}

    def refusals(self) -> str:
        return "\n".join(self.reasons)


class Sender:
    """Makes the envelopes of one run. All of it was true when the reading began."""

    def __init__(
        self, tenant: Tenant, connection: Connection, run: Run, counts: Counts, at: datetime
    ) -> None:
        self._tenant = tenant
        self._connection = connection
        self._run = run
        self._counts = counts
        self._at = at

    def differences(self, seen: Seen, run: int, chunk: Chunk) -> list[Envelope]:
        """What was not said like this before; the rest is only noted as seen."""
        stated = [
            Stated(self._guid(key_of(each)), fingerprint(each), place_of(each), _edge(each))
            for each in chunk.seen
        ]
        differing = seen.differing(stated) if stated else {}
        if stated:
            seen.mark(run, stated)
        edges = {each.guid for each in stated if each.edge is not None}
        self._count(chunk, differing, edges)
        if chunk.refused:
            seen.touch(run, [self._guid(name) for name, _ in chunk.refused])
        told = [
            self._envelope(each)
            for each, known in zip(chunk.seen, stated, strict=True)
            if known.guid in differing
        ]
        return told + self._withdrawn(seen, chunk)

    def gone(self, seen: Seen, run: int, scope: str | None) -> list[Envelope]:
        """A chunk of what the run did not see; it is forgotten in the same transaction."""
        unseen = seen.unseen(run, scope, CHUNK)
        if unseen:
            seen.forget([guid for guid, _, _ in unseen])
            self._count_gone([edge is not None for _, _, edge in unseen])
        return [self._envelope(ended(edge or name)) for _, name, edge in unseen]

    def append(self, conn: Any, envelopes: Sequence[Envelope]) -> None:
        """Last in its transaction, for it holds back the log's reader until the commit."""
        if envelopes:
            append_in(conn, envelopes, [_key(envelope) for envelope in envelopes])

    def _withdrawn(self, seen: Seen, chunk: Chunk) -> list[Envelope]:
        """What the source itself says is gone, if it was ever there."""
        if not chunk.gone:
            return []
        guids = {self._guid(key_of(each)): each for each in chunk.gone}
        known = seen.known(list(guids))
        seen.forget(list(known))
        gone = [each for guid, each in guids.items() if guid in known]
        self._count_gone([isinstance(each, EdgeGone) for each in gone])
        return [self._envelope(each) for each in gone]

    def _count_gone(self, are_edges: Sequence[bool]) -> None:
        self._counts.gone += are_edges.count(False)
        self._counts.edges += are_edges.count(True)

    def _count(self, chunk: Chunk, differing: Mapping[UUID, bool], edges: set[UUID]) -> None:
        counts = self._counts
        assets = [is_new for guid, is_new in differing.items() if guid not in edges]
        new = sum(assets)
        counts.read += chunk.size - len(edges)
        counts.new += new
        counts.changed += len(assets) - new
        counts.unchanged += len(chunk.seen) - len(edges) - len(assets)
        counts.edges += len(differing) - len(assets)
        counts.rejected += len(chunk.refused)
        room = SHOWN_REFUSALS - len(counts.reasons)
        counts.reasons += [f"{name[:200]}: {why}" for name, why in chunk.refused[:room]]

    def _guid(self, qualified_name: str) -> UUID:
        return guid_of(self._tenant.id, qualified_name)

    def _envelope(self, observation: Statement) -> Envelope:
        return Envelope(
            id=uuid4(),
            tenant=self._tenant.number,
            source=self._connection.name,
            by=self._run.by,
            observation=observation,
            observed_at=self._at,
            request=str(self._run.id),
        )


def _edge(seen: Statement) -> str | None:
    """An edge is remembered by its key, an asset by its name."""
    return key_of(seen) if isinstance(seen, EdgeSeen) else None


def _key(envelope: Envelope) -> str:
    seen = envelope.observation
    return "" if isinstance(seen, Nothing) else seen.qualified_name
