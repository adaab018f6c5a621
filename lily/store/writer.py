"""Applies batches to cells and does not give up while the database comes back."""

from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic

import msgspec
import psycopg

from lily.clock import Clock
from lily.errors import Unavailable
from lily.store import takeover
from lily.store.copying import by_key
from lily.store.database import HOME, Database
from lily.store.ingest import Batch, DeadLetter, Incoming, Ingest
from lily.telemetry import logger

PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
PATIENCE = 120.0
# A tenant's own database may stay away for long; then we start over without it, for the others.
PATIENCE_ELSEWHERE = 10.0

Raw = Callable[[Incoming], str]


class Writer:
    """One connection a cell, kept open; a batch is retried until it is in, fenced, or data."""

    def __init__(self, database: Database, ingest: Ingest, clock: Clock, stop: Event) -> None:
        self._database = database
        self._ingest = ingest
        self._clock = clock
        self._stop = stop
        self._connections: dict[str, psycopg.Connection] = {}

    def apply(self, cell: str, batch: Batch, raw: Raw) -> bool:
        """False if this very batch had been committed before. Raises Fenced or Unavailable."""
        began, attempt = monotonic(), 0
        while True:
            try:
                return self._ingest.apply(self._connection(cell), batch, self._clock.now())
            except (psycopg.OperationalError, psycopg.errors.UniqueViolation, Unavailable) as cause:
                patience = PATIENCE if cell == HOME else PATIENCE_ELSEWHERE
                if monotonic() - began > patience or (self._stop.is_set() and attempt > 5):
                    raise Unavailable(f"cell {cell} cannot be written: {cause}") from cause
                logger(__name__).warning(
                    "batch will be tried again", cell=cell, reason=str(cause).strip()
                )
                self._recover(cell)
                self._stop.wait(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1
            except psycopg.Error as cause:
                batch = self._without_culprits(cell, batch, raw, cause)

    def rehearse(self, cell: str) -> None:
        """As far as it goes without writing anything. Raises Unavailable."""
        try:
            with self._connection(cell).transaction(force_rollback=True):
                pass
        except psycopg.OperationalError as cause:
            self._recover(cell)
            raise Unavailable(f"cell {cell} does not answer: {cause}") from cause

    def close(self) -> None:
        for conn in self._connections.values():
            conn.close()

    def _without_culprits(self, cell: str, batch: Batch, raw: Raw, cause: psycopg.Error) -> Batch:
        """Find the records that the database refuses, and park them instead."""
        culprits = self._culprits(cell, batch.incoming)
        if not culprits:
            raise cause  # not the data's fault: a bug, which may crash
        bad = {id(incoming) for incoming, _ in culprits}
        dead = [
            DeadLetter(i.tenant, i.message.cause, i.lane, i.offset, "merge", reason, raw(i),
                       i.message.seen.qualified_name, i.message.source)
            for i, reason in culprits
        ]  # fmt: skip
        good = [i for i in batch.incoming if id(i) not in bad]
        return msgspec.structs.replace(batch, incoming=good, dead=batch.dead + dead)

    def _culprits(self, cell: str, incoming: Sequence[Incoming]) -> list[tuple[Incoming, str]]:
        try:
            self._ingest.rehearse(self._connection(cell), incoming, self._clock.now())
        except psycopg.OperationalError:
            raise
        except psycopg.Error as cause:
            if len(incoming) == 1:
                return [(incoming[0], str(cause).strip())]
            half = len(incoming) // 2
            return self._culprits(cell, incoming[:half]) + self._culprits(cell, incoming[half:])
        return []

    def _connection(self, cell: str) -> psycopg.Connection:
        conn = self._connections.get(cell)
        if conn is None or conn.closed:
            conn = psycopg.connect(
                self._database.role_url(cell), autocommit=True, connect_timeout=5,
                application_name=takeover.INGEST,
            )  # fmt: skip
            by_key(conn)
            self._connections[cell] = conn
        return conn

    def _recover(self, cell: str) -> None:
        conn = self._connections.get(cell)
        if conn is not None and (conn.broken or conn.closed):
            self._connections.pop(cell).close()
