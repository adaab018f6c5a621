"""The ingest job: one micro-batch of the log becomes one transaction per cell."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock
from time import monotonic
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame

from lily.errors import NotFound, Unavailable
from lily.pipeline.behind import Behind
from lily.pipeline.decode import Decoded, Row, decode
from lily.pipeline.hooks import HookCache, load_hooks
from lily.pipeline.pace import LARGE
from lily.pipeline.source import REHEARSAL, unpack
from lily.store import scrapers
from lily.store.database import HOME
from lily.store.definitions import unknown_in
from lily.store.ingest import Batch, DeadLetter, Incoming, Ingest, Span
from lily.store.scrapers import Bounds
from lily.store.writer import Writer
from lily.tags.effective import effective
from lily.telemetry import logger
from lily.types import Lane, Tenant
from lily.wiring import Core

TURN = 0.25
PRESSED = 3.0  # seconds after a large batch
REHEARSALS = 5


class Piece(NamedTuple):
    """A stretch of one part of a lane: behind `start`, up to and with `end`."""

    cell: str
    lane: Lane
    start: int
    end: int
    part: int = 0


Stretches = dict[Piece, list[Row]]
Raws = dict[tuple[Lane, int], str]  # what stands in the log, by lane and offset


class Ready(NamedTuple):
    """A cell's part of a batch, decoded."""

    cell: str
    batch: Batch
    raws: Raws


class Gathered(NamedTuple):
    """A batch by cell, and what of it was refused before it was looked into."""

    cells: dict[str, Stretches]
    dead: dict[str, list[DeadLetter]]


class Job:
    """What happens to each batch. Spark calls `apply`; everything else is plain Python."""

    def __init__(self, core: Core, stop: Event) -> None:
        self._core = core
        self._tenants: dict[int, Tenant] = {}
        self._priorities: Mapping[int, Mapping[str, int]] = {}
        self._ingest = Ingest(effective, self._tenant, self._priority)
        self._writer = Writer(core.database, self._ingest, core.clock, stop)
        self._hooks: dict[str, HookCache] = defaultdict(dict)
        self._behind = Behind("write")
        self._large_at = float("-inf")
        self._over = Event()
        self.epoch: int | None = None  # of the lease under which batches are written
        self.rehearsals: deque[float] = deque(maxlen=REHEARSALS)  # when the last ones were done
        self.batch = Lock()  # held while a batch is made ready; whoever takes it stops the next
        self.events = 0
        self.dead = 0
        self.seconds = 0.0

    def apply(self, frame: DataFrame, number: int) -> None:
        """One Arrow snapshot of the batch, one transaction per cell.

        Returns while a large one is being written, so that Spark prepares the next meanwhile. Its
        own checkpoint may then be ahead of the store: it is never asked where to go on.
        """
        self.take(lambda: Gathered(_by_cell(frame.toArrow()), {}))

    def take(self, gather: Callable[[], Gathered]) -> None:
        """Make ready and write what is gathered, behind everything that came before."""
        with self._turn():
            began, (cells, dead) = monotonic(), gather()
            if REHEARSAL in cells:
                self._rehearse(cells[REHEARSAL])
                return
            try:
                ready = [self._ready(*each, dead.get(each[0], ())) for each in cells.items()]
            except Unavailable:
                self._behind.settle()  # whoever is writing waits until the database is back
                ready = [self._ready(*each, dead.get(each[0], ())) for each in cells.items()]
            self._behind.submit(lambda: self._write_all(ready, began))
            if sum(len(each.raws) for each in ready) < LARGE:
                # The next would only be smaller still, and Spark takes as long to plan it.
                self._behind.settle()
            else:
                self._large_at = began

    @property
    def is_pressed(self) -> bool:
        """Whether large batches come one after the other."""
        return monotonic() - self._large_at < PRESSED

    def apply_cell(self, cell: str, stretches: Stretches) -> bool:
        return self._write(self._ready(cell, stretches))

    def check(self) -> None:
        """Raises what has gone wrong with a batch that was being written."""
        self._behind.check()

    def settle(self) -> None:
        """Until nothing is being written any more."""
        self._behind.settle()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One query at a time. Spark cannot end one that waits here, so in the end nobody does."""
        while not self.batch.acquire(timeout=TURN):
            if self._over.is_set():
                raise Unavailable("The pipeline stops.")
        try:
            yield
        finally:
            self.batch.release()

    def finish(self, seconds: float) -> None:
        """Let batches that have begun commit, and begin no other."""
        self._over.set()
        if self.batch.acquire(timeout=seconds):
            with suppress(TimeoutError):  # what is not committed stays in the log
                self._behind.settle(seconds)

    def _rehearse(self, stretches: Stretches) -> None:
        """Everything that a batch does, except for writing."""
        with suppress(Unavailable):  # the database is away, and whoever leads waits for it too
            self._ready(HOME, stretches)
            self._writer.rehearse(HOME)
            self.rehearsals.append(monotonic())

    def _write_all(self, ready: Sequence[Ready], began: float) -> None:
        for each in ready:
            self._write(each)
        self.seconds = monotonic() - began

    def _ready(self, cell: str, stretches: Stretches, dead: Sequence[DeadLetter] = ()) -> Ready:
        self._priorities = self._core.database.priorities()
        decoded, raws = self._decode(cell, stretches)
        spans = [
            Span(piece.lane, piece.start, piece.end, rows[-1][2] if rows else None, piece.part)
            for piece, rows in stretches.items()
        ]
        refused = [*dead, *decoded.dead]
        batch = Batch(uuid4(), spans, decoded.incoming, refused, decoded.heard, self.epoch)
        return Ready(cell, batch, raws)

    def _write(self, ready: Ready) -> bool:
        raws, dead = ready.raws, ready.batch.dead

        def raw(incoming: Incoming) -> str:
            return raws[incoming.lane, incoming.offset]

        applied = self._writer.apply(ready.cell, ready.batch, raw)
        self.events += len(raws)
        self.dead += len(dead)
        for letter in dead:
            logger(__name__).warning(
                "dead letter", cell=ready.cell, cause=letter.cause, stage=letter.stage,
                plugin=letter.plugin, reason=letter.reason,
            )  # fmt: skip
        return applied

    def close(self) -> None:
        self._behind.close()
        self._writer.close()

    def _decode(self, cell: str, stretches: Stretches) -> tuple[Decoded, Raws]:
        tenants = sorted({row[1] for rows in stretches.values() for row in rows if row[1]})
        with self._core.database.cell(cell, tenants) as conn:
            hooks = load_hooks(conn, tenants, self._core.seal.open, self._hooks[cell])
            self._ingest.definitions.refresh(conn, tenants)
            bounds = scrapers.bounds(conn, tenants)
        decoded = Decoded()
        raws: Raws = {}
        # Core first: its rows are merged, and its facts told, before those of fields.
        for (_, lane, *_), rows in sorted(stretches.items()):
            strange = {n for n in tenants if not self._is_known(n)}
            decoded.dead += [_unknown(cell, lane, row) for row in rows if row[1] in strange]
            decode(cell, lane, [row for row in rows if row[1] not in strange], hooks, decoded)
            raws.update(((lane, row[0]), row[4]) for row in rows)
        self._refuse_unknown(tenants, decoded, raws)
        if bounds:
            _refuse_outside(bounds, decoded, raws)
        return decoded, raws

    def _refuse_unknown(
        self, tenants: Sequence[int], decoded: Decoded, raws: Mapping[tuple[Lane, int], str]
    ) -> None:
        """Park what uses labels that nobody defined, where the tenant refuses those."""
        every = {number: self._ingest.definitions.book(number) for number in tenants}
        books = {number: book for number, book in every.items() if book.refuses}
        if not books:
            return
        good = []
        for each in decoded.incoming:
            book = books.get(each.tenant)
            reason = unknown_in(book, each.message.seen) if book is not None else None
            if reason is None:
                good.append(each)
            else:
                decoded.dead.append(_undefined(each, reason, raws[each.lane, each.offset]))
        decoded.incoming = good

    def _is_known(self, number: int) -> bool:
        try:
            self._tenant(number)
        except NotFound:
            return False
        return True

    def _tenant(self, number: int) -> Tenant:
        if number not in self._tenants:
            self._tenants[number] = self._core.database.tenant(number)
        return self._tenants[number]

    def _priority(self, number: int) -> Mapping[str, int]:
        return self._priorities.get(number, {})


def _by_cell(table: pa.Table) -> dict[str, Stretches]:
    """Records grouped by the stretch of the log that they came in."""
    cells: dict[str, Stretches] = defaultdict(lambda: defaultdict(list))
    for row in table.to_pylist():
        place = Piece(row["cell"], row["lane"], row["start"], row["end"])
        cells[row["cell"]][place] += unpack(row["records"])
    return cells


def _refuse_outside(bounds: Mapping[int, Bounds], decoded: Decoded, raws: Raws) -> None:
    """Park what a source says of columns that a scraper policy keeps from it."""
    good = []
    for each in decoded.incoming:
        bound = bounds.get(each.tenant)
        reason = bound.outside(each.message.source, each.message.seen) if bound else None
        if reason is None:
            good.append(each)
        else:
            decoded.dead.append(_undefined(each, reason, raws[each.lane, each.offset]))
    decoded.incoming = good


def _undefined(each: Incoming, reason: str, raw: str) -> DeadLetter:
    message = each.message
    return DeadLetter(
        each.tenant, message.cause, each.lane, each.offset, "validate", reason, raw,
        message.seen.qualified_name, message.source,
    )  # fmt: skip


def _unknown(cell: str, lane: Lane, row: Row) -> DeadLetter:
    offset, tenant, _, key, value = row
    place = f"{cell}/{lane}/{offset}"
    return DeadLetter(tenant, place, lane, offset, "validate", "no such tenant", value, key)
