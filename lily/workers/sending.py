"""From what a source states to what goes into the log: differences, and what is gone."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec

from lily.assets.names import guid_of
from lily.events.envelope import Envelope
from lily.events.observations import AssetGone, Nothing, Observation
from lily.log.postgres import append_in
from lily.store.connections import Connection
from lily.store.crawl_seen import Seen, Stated
from lily.store.crawls import Run
from lily.types import Tenant
from lily.workers.reading import CHUNK, Chunk, fingerprint

SHOWN_REFUSALS = 5


class Counts(msgspec.Struct):
    """What became of everything that was read."""

    read: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    rejected: int = 0
    reasons: list[str] = []

    @classmethod
    def of(cls, stored: Mapping[str, int]) -> "Counts":
        """Those of the attempts before: a run that goes on keeps counting."""
        known = {name: stored[name] for name in cls.__struct_fields__ if name in stored}
        return msgspec.convert(known, cls)

    def shown(self) -> dict[str, int]:
        names = ("read", "new", "changed", "unchanged", "gone", "rejected")
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
            Stated(self._guid(each.qualified_name), fingerprint(each), each.qualified_name)
            for each in chunk.seen
        ]
        differing = seen.differing(stated) if stated else {}
        if stated:
            seen.mark(run, stated)
        self._count(chunk, differing)
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
            seen.forget([guid for guid, _ in unseen])
            self._counts.gone += len(unseen)
        return [self._envelope(AssetGone(qualified_name=name)) for _, name in unseen]

    def append(self, conn: Any, envelopes: Sequence[Envelope]) -> None:
        """Last in its transaction, for it holds back the log's reader until the commit."""
        if envelopes:
            append_in(conn, envelopes, [_key(envelope) for envelope in envelopes])

    def _withdrawn(self, seen: Seen, chunk: Chunk) -> list[Envelope]:
        """What the source itself says is gone, if it was ever there."""
        if not chunk.gone:
            return []
        guids = {self._guid(each.qualified_name): each for each in chunk.gone}
        known = seen.known(list(guids))
        seen.forget(list(known))
        self._counts.gone += len(known)
        return [self._envelope(each) for guid, each in guids.items() if guid in known]

    def _count(self, chunk: Chunk, differing: Mapping[UUID, bool]) -> None:
        counts, new = self._counts, sum(differing.values())
        counts.read += chunk.size
        counts.new += new
        counts.changed += len(differing) - new
        counts.unchanged += len(chunk.seen) - len(differing)
        counts.rejected += len(chunk.refused)
        room = SHOWN_REFUSALS - len(counts.reasons)
        counts.reasons += [f"{name[:200]}: {why}" for name, why in chunk.refused[:room]]

    def _guid(self, qualified_name: str) -> UUID:
        return guid_of(self._tenant.id, qualified_name)

    def _envelope(self, observation: Observation) -> Envelope:
        return Envelope(
            id=uuid4(),
            tenant=self._tenant.number,
            source=self._connection.name,
            by=self._run.by,
            observation=observation,
            observed_at=self._at,
            request=str(self._run.id),
        )


def _key(envelope: Envelope) -> str:
    seen = envelope.observation
    return "" if isinstance(seen, Nothing) else seen.qualified_name
