"""Chunks of a file become rows, facts, counts and refused lines: a short transaction each.

Most chunks of a first load hold only assets that nobody knew. Those are staged before anything is
locked and inserted as they are; when it turns out that one of them is known, the chunk goes the
way of every observation instead.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Event
from uuid import UUID

import msgspec
import psycopg

from lily.assets import fresh
from lily.assets.change import Context, Message
from lily.assets.model import Asset
from lily.assets.names import guid_of
from lily.errors import Fenced, Unavailable
from lily.events.chain import forge
from lily.events.facts import Fact
from lily.store import assets, bulk_rows, feed, scrapers
from lily.store.bulk_rows import Rows, rows_of
from lily.store.copying import by_key
from lily.store.database import bind_many
from lily.store.definitions import unknown_in
from lily.store.ingest import (
    FIRST_USE,
    Incoming,
    Ingest,
    Tally,
    fields_created,
    is_quiet,
)
from lily.store.jobs import Refused
from lily.store.outcome import LINKS, write_links
from lily.store.scrapers import Bounds
from lily.tags.definitions import Book
from lily.telemetry import logger
from lily.types import Lane, Tenant

CHUNK = 3_000  # a job that is under way must be taken up with the same number
ATTEMPTS = 8
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

GUARD = """
INSERT INTO job_chunk (tenant, job, lane, part, chunk, at)
SELECT %(tenant)s, %(job)s, %(lane)s, %(part)s, %(chunk)s, %(at)s
 WHERE EXISTS (SELECT FROM job WHERE tenant = %(tenant)s AND id = %(job)s AND runner = %(runner)s
                 AND state = 'running')
ON CONFLICT DO NOTHING
"""
OURS = "SELECT FROM job WHERE tenant = %s AND id = %s AND runner = %s AND state = 'running'"
COUNT = (
    "UPDATE job_chunk SET accepted = %s, rejected = %s, created = %s, updated = %s, unchanged = %s"
    " WHERE tenant = %s AND job = %s AND lane = %s AND part = %s AND chunk = %s"
)
DONE = "SELECT chunk FROM job_chunk WHERE tenant = %s AND job = %s AND lane = %s AND part = %s"
REFUSE = (
    "INSERT INTO job_error (tenant, job, line, reason)"
    " SELECT %s, %s, * FROM unnest(%s::bigint[], %s::text[]) ON CONFLICT DO NOTHING"
)
HAS_LAYERS = (
    "SELECT EXISTS (SELECT FROM asset_source WHERE tenant = %(tenant)s),"
    " EXISTS (SELECT FROM tombstone WHERE tenant = %(tenant)s)"
)
LAYERED = (
    "SELECT guid FROM asset_source WHERE tenant = %(tenant)s AND guid = ANY(%(guids)s)"
    " UNION SELECT guid FROM tombstone WHERE tenant = %(tenant)s AND guid = ANY(%(guids)s)"
)
STORED = (
    "SELECT guid FROM asset WHERE tenant = %(tenant)s AND lane = %(lane)s AND guid = ANY(%(guids)s)"
)


class Place(msgspec.Struct, frozen=True):
    """Which chunk: the same lines under the same number, however often a job is taken up."""

    tenant: Tenant
    job: UUID
    runner: UUID
    lane: Lane
    part: int


class Chunk(msgspec.Struct):
    number: int
    messages: list[Message] = []
    refused: list[Refused] = []
    dropped: int = 0  # by a hook, on purpose


New = tuple[Asset, Message]


class _Ready(msgspec.Struct):
    """New assets as COPY text, and the facts that they exist."""

    rows: Rows
    facts: list[Fact]


class Loader:
    """Applies chunks of one job on one connection."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection],
        ingest: Ingest,
        now: Callable[[], datetime],
        stop: Event,
    ) -> None:
        self._connect = connect
        self._ingest = ingest
        self._now = now
        self._stop = stop
        self._conn: psycopg.Connection | None = None
        self._bounds = Bounds({})
        self._hopeful = True  # until something of this job turns out to be known

    def done(self, place: Place) -> set[int]:
        """The chunks of a part that were applied before."""
        with (conn := self._connection()).transaction():
            bind_many(conn, [place.tenant.number])
            self._ingest.definitions.refresh(conn, [place.tenant.number])
            found = scrapers.bounds(conn, [place.tenant.number])
            self._bounds = found.get(place.tenant.number, Bounds({}))
            values = [place.tenant.number, place.job, place.lane, place.part]
            return {number for (number,) in conn.execute(DONE, values)}

    def apply(self, place: Place, chunk: Chunk) -> Tally | None:
        """Commit the chunk whole, once; None if it had been committed. Raises Fenced when the
        job was cancelled or taken over."""
        chunk = _defined(chunk, self._ingest.definitions.book(place.tenant.number))
        chunk = _inside(chunk, self._bounds)
        attempt = 0
        while True:
            try:
                return self._store(place, chunk)
            except psycopg.errors.UniqueViolation as cause:
                if not self._hopeful:  # somebody else was quicker than we could look
                    self._again(cause, attempt)
                    attempt += 1
                self._hopeful = False
            except (psycopg.OperationalError, Unavailable) as cause:
                self._again(cause, attempt)
                attempt += 1
            except psycopg.Error as cause:
                chunk = self._without_culprits(place, chunk, cause)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _store(self, place: Place, chunk: Chunk) -> Tally | None:
        """New assets as they are, everything else the way of every observation."""
        number, now = place.tenant.number, self._now()
        context = self._ingest.context(number, now)
        new, rest = _sorted(place.tenant, chunk.messages, context)
        ready = _ready(new, context) if self._hopeful else None
        with (conn := self._connection()).transaction():
            if not self._begin(conn, place, chunk, now):
                return None
            known = _known(conn, place, new, look=not self._hopeful)
            if known:
                rest += [message for asset, message in new if asset.guid in known]
                rest.sort(key=lambda message: message.when[1])
                new = [each for each in new if each[0].guid not in known]
            self._hopeful = not known
            ready = ready if ready and not known else _ready(new, context)
            if new:
                bulk_rows.stage(conn, ready.rows)
            # From here on the tenant's other writers wait.
            tally = self._ingest.merge(conn, _incoming(place, rest), now)
            if new:
                position, previous = feed.take_head(conn, number)
                bulk_rows.insert(conn, number, position, now)
                assets.save_aliases(conn, _aliases(new))
                self._ingest.definitions.define_used(
                    conn, (asset for asset, _ in new), FIRST_USE, now
                )
                if rest:  # its facts are staged still
                    conn.execute(LINKS.make)
                    conn.execute(LINKS.empty)
                write_links(conn, forge(number, position, previous, ready.facts))
            tally.created += len(new)
            tally.unchanged += chunk.dropped
            _count(conn, place, chunk, tally)
        return tally

    def _begin(self, conn: psycopg.Connection, place: Place, chunk: Chunk, now: datetime) -> bool:
        number = place.tenant.number
        bind_many(conn, [number])
        guard = {
            "tenant": number, "job": place.job, "lane": place.lane, "part": place.part,
            "chunk": chunk.number, "at": now, "runner": place.runner,
        }  # fmt: skip
        if conn.execute(GUARD, guard).rowcount == 0:
            if conn.execute(OURS, [number, place.job, place.runner]).rowcount == 0:
                raise Fenced("the job was cancelled, or another runner has taken it over")
            return False
        if chunk.refused:
            lines = [each.line for each in chunk.refused]
            reasons = [each.reason.replace("\0", " ")[:2000] for each in chunk.refused]
            conn.execute(REFUSE, [number, place.job, lines, reasons])
        return True

    # When the database does not want it -------------------------------------------------------

    def _again(self, cause: Exception, attempt: int) -> None:
        if attempt >= ATTEMPTS or self._stop.is_set():
            raise Unavailable(f"the chunk cannot be stored: {cause}") from cause
        reason = str(cause).strip()
        logger(__name__).warning("chunk will be tried again", reason=reason)
        if self._conn is not None and (self._conn.broken or self._conn.closed):
            self.close()
        self._stop.wait(PAUSES[min(attempt, len(PAUSES) - 1)])

    def _without_culprits(self, place: Place, chunk: Chunk, cause: psycopg.Error) -> Chunk:
        """Find the lines that the database refuses, and refuse them."""
        culprits = self._culprits(place, chunk.messages)
        if not culprits:
            raise cause  # not the data's fault: a bug, which may crash
        bad = {id(message) for message, _ in culprits}
        refused = [
            Refused(int(message.cause.rpartition("/")[2]), reason) for message, reason in culprits
        ]
        good = [message for message in chunk.messages if id(message) not in bad]
        return Chunk(chunk.number, good, chunk.refused + refused, chunk.dropped)

    def _culprits(self, place: Place, messages: Sequence[Message]) -> list[tuple[Message, str]]:
        try:
            self._ingest.rehearse(self._connection(), _incoming(place, messages), self._now())
        except psycopg.OperationalError:
            raise
        except psycopg.Error as cause:
            if len(messages) == 1:
                return [(messages[0], str(cause).strip())]
            half = len(messages) // 2
            return self._culprits(place, messages[:half]) + self._culprits(place, messages[half:])
        return []

    def _connection(self) -> psycopg.Connection:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
            by_key(self._conn)
        return self._conn


def _defined(chunk: Chunk, book: Book) -> Chunk:
    """Without the lines whose labels nobody defined, where the tenant refuses those."""
    if not book.refuses:
        return chunk
    return _without(chunk, lambda message: unknown_in(book, message.seen))


def _inside(chunk: Chunk, bounds: Bounds) -> Chunk:
    """Without the lines about columns that a scraper policy keeps from their source."""
    if not bounds:
        return chunk
    return _without(chunk, lambda message: bounds.outside(message.source, message.seen))


def _without(chunk: Chunk, wrong: Callable[[Message], str | None]) -> Chunk:
    good, refused = [], list(chunk.refused)
    for message in chunk.messages:
        if (reason := wrong(message)) is None:
            good.append(message)
        else:
            refused.append(Refused(int(message.cause.rpartition("/")[2]), reason))
    return Chunk(chunk.number, good, refused, chunk.dropped)


def _sorted(
    tenant: Tenant, messages: Sequence[Message], context: Context
) -> tuple[list[New], list[Message]]:
    """What may be new, as assets; and what needs a decision: of one asset twice, the order."""
    new: dict[UUID, New] = {}
    rest: list[Message] = []
    twice: set[UUID] = set()
    for message in messages:
        guid = guid_of(tenant.id, message.seen.qualified_name)
        if guid in twice or not fresh.suits(message):
            rest.append(message)
            twice.add(guid)
        elif guid in new:
            twice.add(guid)
            rest.append(message)
        else:
            new[guid] = (fresh.created(tenant.number, guid, message, context), message)
    if twice:
        rest += [new.pop(guid)[1] for guid in twice if guid in new]
        rest.sort(key=lambda message: message.when[1])
    return list(new.values()), rest


def _ready(new: Sequence[New], context: Context) -> _Ready:
    facts = _facts(new, context)
    return _Ready(rows_of(asset for asset, _ in new), facts)


def _facts(new: Sequence[New], context: Context) -> list[Fact]:
    """The facts of new assets; each row notes the number of its own, counted from one."""
    loud: list[Fact] = []
    quiet: dict[UUID, list[New]] = defaultdict(list)
    for asset, message in new:
        if is_quiet(asset):
            quiet[asset.parent or asset.guid].append((asset, message))
        else:
            loud.append(fresh.told(asset, message, context))
            asset.feed_position = len(loud)
    for parent, together in quiet.items():
        first, message = together[0]
        name, count = first.qualified_name, len(together)
        loud.append(fields_created(parent, message, name, count, context.now))
        for asset, _ in together:
            asset.feed_position = len(loud)
    return loud


def _known(conn: psycopg.Connection, place: Place, new: Sequence[New], look: bool) -> set[UUID]:
    """Which of them are not new after all: by an alias, a claim that came first, a tombstone, or,
    if we have to look, a row. Without looking the insert will tell."""
    number = place.tenant.number
    known: set[UUID] = set()
    own = {a.qualified_name: a.guid for a, _ in new if a.caller_id == a.qualified_name}
    if own:
        known |= {own[alias] for _, alias in assets.aliases(conn, [number], list(own))}
    row = conn.execute(HAS_LAYERS, {"tenant": number}).fetchone()
    values = {"tenant": number, "lane": place.lane, "guids": [asset.guid for asset, _ in new]}
    if row and any(row):
        known |= {guid for (guid,) in conn.execute(LAYERED, values)}
    if look and new:
        known |= {guid for (guid,) in conn.execute(STORED, values)}
    return known


def _aliases(new: Sequence[New]) -> list[tuple[int, str, UUID]]:
    return [
        (a.tenant, a.caller_id, a.guid)
        for a, _ in new
        if a.caller_id and a.caller_id != a.qualified_name
    ]


def _incoming(place: Place, messages: Sequence[Message]) -> list[Incoming]:
    return [Incoming(place.tenant.number, place.lane, m.when[1], m) for m in messages]


def _count(conn: psycopg.Connection, place: Place, chunk: Chunk, tally: Tally) -> None:
    accepted = len(chunk.messages) + chunk.dropped
    conn.execute(
        COUNT,
        [accepted, len(chunk.refused), tally.created, tally.updated, tally.unchanged,
         place.tenant.number, place.job, place.lane, place.part, chunk.number],
    )  # fmt: skip
