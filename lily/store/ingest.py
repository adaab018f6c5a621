"""A batch of observations becomes rows, facts and dead letters: one transaction per cell."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from uuid import UUID, uuid4

import msgspec
import psycopg

from lily.assets import fresh, renewed
from lily.assets.change import HOLDER, Context, Known, Message, take
from lily.assets.model import Asset
from lily.assets.names import as_guid, guid_of
from lily.assets.view import FoldTags, own_name
from lily.errors import Fenced
from lily.events.facts import Fact
from lily.events.lanes import lane_of
from lily.events.observations import AssetSeen
from lily.lineage.edges import PLACEHOLDER, EdgeMessage
from lily.store import assets, other_names, runs
from lily.store.assets import Key
from lily.store.database import bind_many
from lily.store.definitions import Definitions
from lily.store.edge_merge import EdgeMerge, Place
from lily.store.outcome import Outcome
from lily.store.runs import RunMessage
from lily.store.signals import Heard, hear_all
from lily.tags.effective import own
from lily.types import Lane, Tenant

ADVANCE = (
    "UPDATE applied SET position = %s, batch = %s, at = now(), observed = coalesce(%s, observed),"
    " epoch = coalesce(%s, epoch)"
    " WHERE lane = %s AND part = %s AND position = %s AND epoch <= coalesce(%s, epoch)"
)
WHERE = "SELECT position, batch, epoch FROM applied WHERE lane = %s AND part = %s"
PART = 500  # observations that are decided while the database takes in those before
LIGHT = 2  # so many times as many edges, because one is less work
FIRST_USE = "first-use"  # who defines a tag that nobody defined
BURY = (
    "INSERT INTO dead_letter (tenant, id, cause, lane, log_offset, at, stage, plugin, reason,"
    " key, source, raw) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (tenant, cause) DO NOTHING"
)

Said = tuple[int, Message]  # tenant, and what a source says of an asset


class Span(msgspec.Struct, frozen=True):
    """A stretch of the log that a batch covers: behind `start`, up to and with `end`."""

    lane: Lane
    start: int
    end: int
    newest: datetime | None = None
    part: int = 0


class Incoming(msgspec.Struct):
    """An observation that passed decoding, rules and hooks."""

    tenant: int
    lane: Lane
    offset: int
    message: Message | EdgeMessage | RunMessage
    raw: str = ""  # only where the merge itself may refuse it


class DeadLetter(msgspec.Struct):
    tenant: int
    cause: str
    lane: Lane
    offset: int
    stage: str
    reason: str
    raw: str
    key: str = ""
    source: str = ""
    plugin: str = ""


class Tally(msgspec.Struct):
    """What observations did to the assets they are about."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    refused: list[tuple[Incoming, str]] = []


class Batch(msgspec.Struct):
    id: UUID
    spans: list[Span]
    incoming: list[Incoming]
    dead: list[DeadLetter]
    heard: list[Heard] = []
    epoch: int | None = None  # of whoever leads; without one only the position is guarded


class Ingest:
    """Applies batches to one cell."""

    def __init__(
        self,
        fold_tags: FoldTags,
        tenant: Callable[[int], Tenant],
        priority: Callable[[int], Mapping[str, int]],
        part: int = PART,
    ) -> None:
        self._part = part
        self._fold_tags = fold_tags
        self._tenant = tenant
        self._priority = priority
        self.definitions = Definitions()

    def apply(self, conn: psycopg.Connection, batch: Batch, now: datetime) -> bool:
        """Commit the whole batch, or nothing. False if it had been committed before.

        Raises Fenced when somebody else moved the position: then this process must stop.
        """
        with conn.transaction():
            tenants = {i.tenant for i in batch.incoming} | {d.tenant for d in batch.dead}
            bind_many(conn, sorted(tenants | {h.tenant for h in batch.heard}))
            if not _advance(conn, batch):
                return False
            done = self.merge(conn, batch.incoming, now)
            # After the assets: an incident may be about one that came with it.
            unheard = hear_all(conn, batch.heard, self._tenant, now)
            refused = [_letter(*each) for each in done.refused]
            _bury(conn, [*batch.dead, *refused, *map(_unheard, unheard)], now)
            ends = ",".join(map(_told, batch.spans))
            conn.execute("SELECT pg_notify('lily_applied', %s)", [ends])
        return True

    def rehearse(
        self, conn: psycopg.Connection, incoming: Sequence[Incoming], now: datetime
    ) -> None:
        """Do all the work and take it back: raises what a commit would raise."""
        with conn.transaction(force_rollback=True):
            bind_many(conn, sorted({i.tenant for i in incoming}))
            self.merge(conn, incoming, now)

    def merge(self, conn: psycopg.Connection, incoming: Sequence[Incoming], now: datetime) -> Tally:
        """Inside the caller's transaction, which is bound to the tenants."""
        tally = Tally()
        if not incoming:
            return tally
        self.definitions.refresh(conn, sorted({each.tenant for each in incoming}))
        incoming = self._meant(conn, incoming)
        said = [(i.tenant, i.message) for i in incoming if isinstance(i.message, Message)]
        targets = self._targets(conn, said)
        known = assets.load(conn, _wanted(targets))
        edges = None
        with Outcome(conn) as outcome:
            if len(said) == len(incoming):
                self._in_parts(outcome, known, targets, said, now, tally)
            else:
                facts = self._decide(known, targets, said, now, tally)
                edges = self._edges(conn, incoming, known, facts, now, tally)
                outcome.put(known.values(), facts)
                for decided in edges.decide(now, LIGHT * self._part):
                    outcome.put_edges(decided)
        self.definitions.define_used(conn, outcome.shown, FIRST_USE, now)
        assets.save_layers(conn, known.values())
        assets.save_aliases(conn, _new_aliases(known.values()))
        if edges is not None:
            edges.save()
        outcome.move_heads()
        other_names.save(conn, self._id, said)
        return tally

    def _in_parts(
        self, outcome: Outcome, known: Mapping[Key, Known], targets: Sequence[tuple[Key, str]],
        said: Sequence[Said], now: datetime, tally: Tally,
    ) -> None:  # fmt: skip
        """Decide some while the database takes in those before; an asset may be in several."""
        for start in range(0, len(said), self._part):
            some = slice(start, start + self._part)
            facts = self._decide(known, targets[some], said[some], now, tally)
            keys = dict.fromkeys(key for key, _ in targets[some])
            outcome.put([known[key] for key in keys], facts)

    def _meant(self, conn: psycopg.Connection, incoming: Sequence[Incoming]) -> list[Incoming]:
        """Instead of events of runs what they make count; and names that are others' as theirs."""
        plain = [i for i in incoming if not isinstance(i.message, RunMessage)]
        if len(plain) < len(incoming):
            events = [(i.tenant, i.message) for i in incoming if isinstance(i.message, RunMessage)]
            plain += [
                Incoming(tenant, lane_of(each.seen.qualified_name), each.when[1], each)
                for tenant, each in runs.take(conn, events)
            ]
        meant = other_names.meant(conn, self._id, [(i.tenant, i.message) for i in plain])
        for each, (_, message) in zip(plain, meant, strict=True):
            each.message = message
        return plain

    def _id(self, number: int) -> UUID:
        return self._tenant(number).id

    def _edges(
        self, conn: psycopg.Connection, incoming: Sequence[Incoming], known: dict[Key, Known],
        facts: dict[int, list[Fact]], now: datetime, tally: Tally,
    ) -> EdgeMerge:  # fmt: skip
        """Edges, after the assets that came with them; unknown ends become placeholders."""
        about = [i for i in incoming if isinstance(i.message, EdgeMessage)]
        arrivals = [(i.tenant, i.message) for i in about if isinstance(i.message, EdgeMessage)]
        here = [key for key, each in known.items() if each.asset is not None]
        merge = EdgeMerge(conn, self._id, arrivals, here)
        places = merge.places()
        if places:
            said = [(place.tenant, _placeholder(place)) for place in places]
            targets = [((place.tenant, place.end.guid), place.end.name) for place in places]
            found = assets.load(conn, _wanted(targets))
            for tenant, told in self._decide(found, targets, said, now, Tally()).items():
                facts[tenant] += told
            known.update(found)
        merge.load()
        tally.refused += [(about[index], reason) for index, reason in merge.refused]
        return merge

    def _targets(self, conn: psycopg.Connection, said: Sequence[Said]) -> list[tuple[Key, str]]:
        """Which asset each observation is about; an own id may be another asset's alias."""
        by_id = [(t, m.seen) for t, m in said if m.seen.asset_id == m.seen.qualified_name]
        aliases = assets.aliases(
            conn, sorted({t for t, _ in by_id}), [seen.qualified_name for _, seen in by_id]
        )
        found = assets.names(conn, sorted({t for t, _ in aliases}), list(aliases.values()))
        targets = []
        for tenant, message in said:
            name = message.seen.qualified_name
            guid = aliases.get((tenant, name)) if aliases else None
            if guid is not None and guid in found and message.seen.asset_id == name:
                targets.append(((tenant, guid), found[guid]))
            else:
                guid = guid_of(self._tenant(tenant).id, name)
                targets.append(((tenant, guid), name))
        return targets

    def _decide(
        self,
        known: Mapping[Key, Known],
        targets: Sequence[tuple[Key, str]],
        said: Sequence[Said],
        now: datetime,
        tally: Tally,
    ) -> dict[int, list[Fact]]:
        contexts = {number: self.context(number, now) for number in {k[0] for k, _ in targets}}
        facts: dict[int, list[Fact]] = defaultdict(list)
        fields: dict[tuple[int, UUID], list[Message]] = defaultdict(list)
        for (_, message), (key, _) in zip(said, targets, strict=True):
            made = _take(known[key], message, contexts[key[0]])
            if not made:
                tally.unchanged += 1
            elif made[0].kind == "AssetCreated":
                tally.created += 1
            else:
                tally.updated += 1
            for fact in made:
                asset = known[key].asset
                if fact.kind == "AssetCreated" and asset and is_quiet(asset):
                    fields[key[0], asset.parent or asset.guid].append(message)
                else:
                    facts[key[0]].append(fact)
        for (tenant, parent), created in fields.items():
            name = created[0].seen.qualified_name
            facts[tenant].append(fields_created(parent, created[0], name, len(created), now))
        return facts

    def context(self, number: int, now: datetime) -> Context:
        tenant_id = self._tenant(number).id

        @lru_cache(maxsize=4096)  # the fields of a table all ask for the same parent
        def resolve(name: str) -> UUID:
            return as_guid(name) or guid_of(tenant_id, name)

        groups = self.definitions.book(number).groups
        return Context(now, self._fold_tags, resolve, self._priority(number), groups, own)


def _take(known: Known, message: Message, context: Context) -> list[Fact]:
    """As `take`; what nobody knew, or one source alone renews, goes short ways to the same end."""
    if known.asset is None and not known.claims and known.buried is None and fresh.suits(message):
        known.asset = fresh.created(known.tenant, known.guid, message, context)
        known.touched = True
        return [fresh.told(known.asset, message, context)]
    if renewed.suits(known, message):
        return renewed.take(known, message, context)
    return take(known, message, context)


def _wanted(targets: Iterable[tuple[Key, str]]) -> dict[Key, tuple[Lane, str]]:
    wanted: dict[Key, tuple[Lane, str]] = {}
    for key, name in targets:
        wanted.setdefault(key, (lane_of(name), name))
    return wanted


def _placeholder(place: Place) -> Message:
    """Holds the place of an asset that only lineage speaks of."""
    name, said = place.end.name, place.message
    seen = AssetSeen(qualified_name=name, asset_name=own_name(name), asset_type=PLACEHOLDER)
    return Message(seen, HOLDER, said.by, said.cause, said.when, said.traceparent)


def _letter(refused: Incoming, reason: str) -> DeadLetter:
    message = refused.message
    return DeadLetter(
        refused.tenant, message.cause, refused.lane, refused.offset, "merge", reason, refused.raw,
        message.seen.qualified_name, message.source,
    )  # fmt: skip


def _told(span: Span) -> str:
    """As `log/applied.py` reads it."""
    return f"{span.lane}/{span.part}:{span.end}" if span.part else f"{span.lane}:{span.end}"


def _advance(conn: psycopg.Connection, batch: Batch) -> bool:
    for span in batch.spans:
        new = [span.end, batch.id, span.newest, batch.epoch]
        old = [span.lane, span.part, span.start, batch.epoch]
        moved = conn.execute(ADVANCE, [*new, *old])
        if moved.rowcount == 1:
            continue
        row = conn.execute(WHERE, [span.lane, span.part]).fetchone()
        if row is not None and row[1] == batch.id:
            return False  # our own commit, whose answer was lost
        if row is not None and row[2] > (batch.epoch or row[2]):
            raise Fenced("another pipeline has taken over")
        raise Fenced(
            f"the {span.lane} lane is at {row[0] if row else 'nowhere'}, not at {span.start}:"
            " another pipeline has moved it"
        )
    return True


def _bury(conn: psycopg.Connection, dead: Sequence[DeadLetter], now: datetime) -> None:
    if not dead:
        return
    with conn.cursor() as cur:
        cur.executemany(
            BURY,
            [(d.tenant, uuid4(), d.cause, d.lane, d.offset, now, d.stage, d.plugin,
              d.reason[:2000], d.key, d.source, d.raw) for d in dead],
        )  # fmt: skip


def _unheard(refused: tuple[Heard, str]) -> DeadLetter:
    each, reason = refused
    return DeadLetter(
        each.tenant, each.cause, "core", each.offset, "merge", reason, each.raw,
        each.signal.qualified_name, each.source,
    )  # fmt: skip


def is_quiet(asset: Asset) -> bool:
    """Untagged first creations of fields are counted per parent, not told one by one."""
    return asset.lane == "fields" and not asset.tags and asset.deleted_by is None


def fields_created(parent: UUID, first: Message, name: str, count: int, now: datetime) -> Fact:
    """One fact for the fields of a parent that came together."""
    return Fact(
        kind="FieldsCreated", at=now, by=first.by, cause=first.cause, guid=parent,
        qualified_name=name.rpartition("#")[0], after={"count": count},
        traceparent=first.traceparent,
    )  # fmt: skip


def _new_aliases(known: Iterable[Known]) -> list[tuple[int, str, UUID]]:
    found = []
    for each in known:
        asset = each.asset
        if asset and each.touched and asset.caller_id and asset.caller_id != asset.qualified_name:
            found.append((each.tenant, asset.caller_id, each.guid))
    return found
