"""Follows a tenant's feed: a page of facts, the notices that come of it, and the position."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any
from uuid import UUID, uuid5

import msgspec
from msgspec import structs

from lily.clock import Clock
from lily.events.chain import Link
from lily.events.facts import Fact
from lily.notify import documents, words
from lily.notify.match import Match, Subject, interested, matches
from lily.store import consumers, feed, notices, subscriptions
from lily.store.database import Database, Unit
from lily.store.history import told
from lily.store.notices import Made
from lily.store.subscriptions import Subscription
from lily.types import Tenant

NAME = "notify"
PAGE = 500
MOST = 2_000  # notices in a transaction; the next step goes on behind their facts
MOST_OWNERS = 200
NOWHERE = UUID(int=0)  # the connection of what names none that exists

NEXT = f"""
SELECT {feed.COLUMNS} FROM fact
 WHERE tenant = %(tenant)s AND position > %(after)s AND position <= %(head)s
   AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s)
        OR (kind IN ('AssetCreated', 'AssetChanged')
            AND strpos(payload, '"downstream_notifications"') > 0))
 ORDER BY position LIMIT %(limit)s
"""
CONNECTIONS = """
SELECT id, name, plugin, enabled AND 'target' = ANY(uses) FROM connection WHERE tenant = %s
 ORDER BY name
"""

Threads = Callable[[str], bool]
Told = list[tuple[int, Fact]]


class Connections(msgspec.Struct, frozen=True):
    """A tenant's targets: by id the plug-in, by name the id; and the plug-ins of all."""

    plugins: dict[UUID, str]
    names: dict[str, UUID]
    all: dict[str, str]

    def called(self, system: str) -> UUID | None:
        """A connection's name, else the only connection of that plug-in."""
        if (found := self.names.get(system)) is not None:
            return found
        same = [id for id, plugin in self.plugins.items() if plugin == system]
        return same[0] if len(same) == 1 else None

    def echoes(self, fact: Fact, connection: UUID) -> bool:
        """Whether a change came from the tool that it would be told to."""
        after = fact.after or {}
        origin = str(after.get("via") or after.get("source") or "")
        plugin = self.plugins.get(connection)
        same_tool = plugin is not None and plugin in (origin, self.all.get(origin))
        return fact.kind.startswith("Incident") and (origin == str(connection) or same_tool)


class Notifier:
    """Makes notices of facts, each once, in the transaction that moves the position."""

    def __init__(self, database: Database, clock: Clock, url: str, threads: Threads) -> None:
        self._database = database
        self._clock = clock
        self._url = url
        self._asked = threads
        self._known: dict[str, bool] = {}

    def step(self, tenant: Tenant) -> tuple[int, bool]:
        """One page; how many notices, and whether there is more to read."""
        with self._database.cell(tenant.cell, [tenant.number]) as conn:
            unit = Unit(conn, tenant)
            position = consumers.claim(conn, NAME, tenant)
            if position is None:
                return 0, False
            listening = subscriptions.listening(unit)
            facts, done, head = self._next(unit, position, listening)
            made: list[Made] = []
            for at, found in self._made(unit, facts, listening) if facts else ():
                made += found
                if len(made) >= MOST:
                    done = min(done, at)
                    break
            if made:
                notices.store(unit, made, self._clock.now())
            if done > position:
                consumers.move(conn, NAME, tenant, done)
            return len(made), done < head

    def _threads(self, plugin: str) -> bool:
        """Asked once for each plug-in: finding one is slow."""
        if plugin not in self._known:
            self._known[plugin] = self._asked(plugin)
        return self._known[plugin]

    def _next(
        self, unit: Unit, position: int, listening: Sequence[Subscription]
    ) -> tuple[Told, int, int]:
        kinds = interested([each.match for each in listening])
        head = feed.head(unit)
        values = {
            "tenant": unit.tenant.number,
            "after": position,
            "head": head,
            "kinds": None if kinds is None else sorted(kinds),
            "limit": PAGE,
        }
        rows = unit.conn.execute(NEXT, values).fetchall()
        links = [Link(*row) for row in rows]
        done = links[-1].position if len(links) == PAGE else max(head, position)
        return [(link.position, told(link)) for link in links], done, head

    def _made(
        self, unit: Unit, facts: Told, listening: Sequence[Subscription]
    ) -> Iterator[tuple[int, list[Made]]]:
        """The notices of each fact, with its position."""
        now = self._clock.now()
        connections = targets(unit)
        heard = [each for each in listening if not each.quiet(now)]
        guids = {fact.guid for _, fact in facts if fact.guid is not None}
        around = any(each.match.under is not None for each in heard)
        known = notices.subjects(unit, guids, around) if guids else {}
        reach = _reach(unit, [each.match for each in heard])
        muted = notices.muted(unit, now)
        for position, fact in facts:
            subject = known.get(fact.guid) if fact.guid is not None else None
            made = list(self._of_document(unit, fact, subject, connections))
            for each in heard:
                if position > each.since and matches(each.match, fact, subject, reach):
                    made += self._of_match(unit, position, fact, subject, each, connections, muted)
            yield position, made

    def _of_match(
        self,
        unit: Unit,
        position: int,
        fact: Fact,
        subject: Subject | None,
        wanted: Subscription,
        connections: Connections,
        muted: Set[tuple[str, str]],
    ) -> Iterator[Made]:
        if _about_itself(fact, wanted.connection):
            return
        id = notices.id_of(unit.tenant, wanted.id, position)
        notice = words.composed(fact, subject, str(id), self._url, wanted.template)
        if wanted.connection is not None:
            threads = self._threads(connections.plugins.get(wanted.connection, ""))
            if connections.echoes(fact, wanted.connection):
                notice = structs.replace(notice, echo=True)
            yield Made(notice, fact.guid, position, wanted.id, "", wanted.connection, "", threads)
        elif not _muted(muted, wanted.owner, notice.key, fact.kind):
            yield Made(notice, fact.guid, position, wanted.id, wanted.owner)
        if wanted.match.owners_downstream and fact.guid is not None:
            for owner in _owners(unit, fact.guid, wanted.match.owners_downstream):
                if not _muted(muted, owner, notice.key, fact.kind):
                    own = str(uuid5(id, owner))
                    yield Made(
                        structs.replace(notice, id=own), fact.guid, position, wanted.id, owner
                    )

    def _of_document(
        self, unit: Unit, fact: Fact, subject: Subject | None, connections: Connections
    ) -> Iterator[Made]:
        """What an ingested document asks to be told; each notification once."""
        for asked in documents.asked(fact):
            connection = connections.called(asked.system_name)
            id = uuid5(unit.tenant.id, f"notification:{asked.notification_id}")
            notice = documents.composed(asked, fact, subject, str(id), self._url)
            if connection is None:
                yield Made(
                    notice, fact.guid, 0, None, "", NOWHERE, asked.notification_id,
                    dead=documents.UNKNOWN,
                )  # fmt: skip
                continue
            threads = self._threads(connections.plugins[connection])
            yield Made(notice, fact.guid, 0, None, "", connection, asked.notification_id, threads)


def targets(unit: Unit) -> Connections:
    rows = unit.conn.execute(CONNECTIONS, [unit.tenant.number]).fetchall()
    return Connections(
        {id: plugin for id, _, plugin, target in rows if target},
        {name: id for id, name, _, target in rows if target},
        {str(id): plugin for id, _, plugin, _ in rows},
    )


def _reach(unit: Unit, wanted: Sequence[Match]) -> Mapping[UUID, Set[UUID]]:
    roots: dict[UUID, int] = {}
    for each in wanted:
        if each.downstream_of is not None:
            roots[each.downstream_of] = max(each.depth, roots.get(each.downstream_of, 0))
    return {root: notices.downstream(unit, root, depth) for root, depth in roots.items()}


def _owners(unit: Unit, guid: UUID, depth: int) -> list[str]:
    around = notices.downstream(unit, guid, depth)
    return notices.owners(unit, around)[:MOST_OWNERS] if around else []


def _about_itself(fact: Fact, connection: UUID | None) -> bool:
    """A channel is not told that it does not work."""
    if fact.kind not in ("DeliveryFailed", "TargetDisabled") or connection is None:
        return False
    after: Any = fact.after or {}
    return bool(after.get("connection") == str(connection))


def _muted(muted: Set[tuple[str, str]], recipient: str, key: str, kind: str) -> bool:
    return (recipient, key) in muted or (recipient, f"kind:{kind}") in muted
