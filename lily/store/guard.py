"""Decisions in this process: policies, groups and assets in memory, never older than promised.

Each question first makes sure that the tenant's feed was looked at within the last half second;
what the feed says has changed is read again. When the feed cannot be read for two seconds,
there is no answer.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime
from threading import Lock
from time import monotonic
from uuid import UUID

import msgspec

from lily.access.decide import Index
from lily.access.model import Action, Decision, Principal, Situation, Target
from lily.access.sight import encoded, sight
from lily.assets.names import candidates
from lily.errors import Unavailable
from lily.store import circles, feed, policies, targets
from lily.store.circles import Memberships
from lily.store.database import Database, Unit
from lily.types import Tenant

FRESH = 0.5  # seconds between two looks at the feed
STALE = 2.0  # seconds without a look after which nothing is answered
CATCH_UP = 5_000  # facts behind which everything is read anew
TARGETS = 200_000  # assets remembered per tenant
SIGHTS = 10_000  # callers whose sight is remembered per tenant

UNKNOWN = Decision("deny", "there is no such asset")

_POLICIES = ("PolicyCreated", "PolicyChanged", "PolicyDeleted")
_CIRCLES = ("CircleChanged",)
ALIASES = "SELECT alias, guid FROM asset_alias WHERE tenant = %s AND alias = ANY(%s)"
# Of most facts it only matters whom they are about: a stream of assets is not to be fetched whole.
KINDS = (
    "SELECT position, kind, guid, CASE WHEN kind LIKE 'Policy%%' THEN payload END FROM fact"
    " WHERE tenant = %s AND position > %s"
)


class Snapshot:
    """One tenant as of a position of its feed."""

    def __init__(self) -> None:
        self.position = -1
        self.seen_at = float("-inf")
        self.index = Index()
        self.memberships = Memberships([])
        self._targets: OrderedDict[UUID, Target] = OrderedDict()
        self._below: dict[UUID, set[UUID]] = {}
        self._names: dict[str, UUID] = {}
        self._sights: dict[tuple[str, frozenset[str]], str] = {}
        self.lock = Lock()

    def refresh(self, unit: Unit) -> None:
        """Read what the feed says has changed."""
        head = feed.head(unit)
        if self.position < 0 or head - self.position > CATCH_UP:
            self._anew(unit)
        elif head > self.position:
            self._patch(unit)
        self.position = max(self.position, head)

    def target(self, guid: UUID) -> Target | None:
        return self._targets.get(guid)

    def named(self, name: str) -> Target | None:
        """The asset of an id that was asked for before, while it is known."""
        guid = self._names.get(name)
        return self._targets.get(guid) if guid is not None else None

    def call(self, name: str, guid: UUID) -> None:
        if len(self._names) >= TARGETS:
            self._names.clear()
        self._names[name] = guid

    def remember(self, found: Iterable[Target]) -> None:
        for target in found:
            self._targets[target.guid] = target
            for above in target.chain:
                self._below.setdefault(above, set()).add(target.guid)
        while len(self._targets) > TARGETS:
            self._drop(next(iter(self._targets)))

    def sight(self, user: str, roles: frozenset[str], situation: Situation) -> str:
        if (known := self._sights.get((user, roles))) is not None:
            return known
        all_roles = roles | self.memberships.roles(user)
        keys = Principal(user, all_roles, self.memberships.groups(user)).keys
        found, timeless = sight(self.index, keys, situation)
        text = encoded(found)
        if timeless and len(self._sights) < SIGHTS:
            self._sights[user, roles] = text
        return text

    def _anew(self, unit: Unit) -> None:
        self.index = Index(kept.policy for kept in policies.load(unit))
        self.memberships = circles.memberships(unit)
        self._targets.clear()
        self._below.clear()
        self._names.clear()
        self._sights.clear()

    def _patch(self, unit: Unit) -> None:
        changed: set[UUID] = set()
        for _, kind, guid, payload in unit.conn.execute(KINDS, [unit.tenant.number, self.position]):
            if kind in _POLICIES:
                changed.add(_policy_id(payload))
            elif kind in _CIRCLES:
                self.memberships = circles.memberships(unit)
                self._sights.clear()
            elif guid is not None:
                self._forget(guid)
        if changed:
            self._sights.clear()
            for id in changed:
                self.index.drop(id)
            for kept in policies.load(unit, changed):
                self.index.put(kept.policy)

    def _forget(self, guid: UUID) -> None:
        """An asset changed, and with it all that hangs below it."""
        for each in (*self._below.pop(guid, ()), guid):
            self._drop(each)

    def _drop(self, guid: UUID) -> None:
        target = self._targets.pop(guid, None)
        if target is None:
            return
        for above in target.chain:
            if (below := self._below.get(above)) is not None:
                below.discard(guid)
                if not below:
                    del self._below[above]


class Question(msgspec.Struct, frozen=True):
    principal: Principal
    action: Action
    guid: UUID


class Guard:
    """Answers for all tenants. Never says yes on what it could not confirm."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tenants: dict[int, Snapshot] = {}
        self._lock = Lock()

    def check(
        self, tenant: Tenant, questions: Sequence[Question], situation: Situation
    ) -> list[Decision]:
        """One decision per question, all on the same state."""
        snapshot = self.confirmed(tenant)
        with snapshot.lock:
            found = [snapshot.target(question.guid) for question in questions]
            if None in found:
                self._load(tenant, snapshot, {question.guid for question in questions})
                found = [snapshot.target(question.guid) for question in questions]
            decide = snapshot.index.decide_keys
            return [
                UNKNOWN
                if target is None
                else decide(asked.principal.keys, asked.action, target, situation)
                for asked, target in zip(questions, found, strict=True)
            ]

    def confirmed(self, tenant: Tenant) -> Snapshot:
        """The tenant's state, looked at lately. Raises Unavailable when that cannot be."""
        with self._lock:
            snapshot = self._tenants.get(tenant.number)
            if snapshot is None:
                snapshot = self._tenants[tenant.number] = Snapshot()
        if monotonic() - snapshot.seen_at < FRESH:
            return snapshot
        with snapshot.lock:
            began = monotonic()
            if began - snapshot.seen_at < FRESH:
                return snapshot
            try:
                with self._database.whole(tenant) as unit:
                    snapshot.refresh(unit)
            except Unavailable as cause:
                if monotonic() - snapshot.seen_at >= STALE:
                    raise Unavailable(
                        "The policies cannot be confirmed; nothing is allowed."
                    ) from cause
            else:
                snapshot.seen_at = began
        return snapshot

    def judge(
        self,
        tenant: Tenant,
        principal: Principal,
        action: Action,
        names: Sequence[str],
        situation: Situation,
    ) -> list[Decision]:
        """The same question of several assets, by whatever ids they are called."""
        snapshot, keys = self.confirmed(tenant), principal.keys
        with snapshot.lock:
            found = [snapshot.named(name) for name in names]
            if None in found:
                self._resolve(tenant, snapshot, names)
                found = [snapshot.named(name) for name in names]
            decide = snapshot.index.decide_keys
            return [
                UNKNOWN if target is None else decide(keys, action, target, situation)
                for target in found
            ]

    def filters(
        self, tenant: Tenant, principal: Principal, table: UUID, situation: Situation
    ) -> tuple[str, ...]:
        """What holds for each row of a table, whether said of it or of one of its columns."""
        guids = [table]
        if self.confirmed(tenant).index.filters_narrowly:
            with self._database.whole(tenant) as unit:
                guids += targets.fields(unit, table)
        asked = [Question(principal, "READ", guid) for guid in guids]
        found = self.check(tenant, asked, situation)
        return tuple(dict.fromkeys(each for one in found for each in one.filters))

    def changing(
        self,
        tenant: Tenant,
        principal: Principal,
        action: Action,
        names: Sequence[str],
        situation: Situation,
    ) -> list[Decision | None]:
        """Whether somebody may change assets; None for what they cannot see."""
        answers = self.judge(tenant, principal, action, names, situation)
        if all(answer.effect != "deny" for answer in answers):
            return list(answers)
        reads = self.judge(tenant, principal, "READ", names, situation)
        return [
            None if read.effect == "deny" else answer
            for answer, read in zip(answers, reads, strict=True)
        ]

    def locate(self, tenant: Tenant, names: Sequence[str]) -> list[UUID]:
        """The assets that ids mean; what does not exist gets a guid that nobody has."""
        snapshot = self.confirmed(tenant)
        with snapshot.lock:
            self._resolve(tenant, snapshot, names)
            found = [snapshot.named(name) for name in names]
        return [
            target.guid if target is not None else candidates(tenant, name)[0]
            for target, name in zip(found, names, strict=True)
        ]

    def _resolve(self, tenant: Tenant, snapshot: Snapshot, names: Sequence[str]) -> None:
        """Find out which assets are meant: by guid, by qualified name, then by alias."""
        unknown = {name: candidates(tenant, name) for name in names if snapshot.named(name) is None}
        self._load(tenant, snapshot, {guid for guids in unknown.values() for guid in guids})
        strange = []
        for name, guids in unknown.items():
            guid = next((guid for guid in guids if snapshot.target(guid)), None)
            if guid is None:
                strange.append(name)
            else:
                snapshot.call(name, guid)
        if strange:
            aliases = self._aliases(tenant, strange)
            self._load(tenant, snapshot, set(aliases.values()))
            for name, guid in aliases.items():
                snapshot.call(name, guid)

    def _aliases(self, tenant: Tenant, names: Sequence[str]) -> dict[str, UUID]:
        with self._database.whole(tenant) as unit:
            return dict(unit.conn.execute(ALIASES, [tenant.number, list(names)]).fetchall())

    def is_fresh(self, tenant: Tenant) -> bool:
        """Whether the next question of this tenant needs no look at the feed."""
        snapshot = self._tenants.get(tenant.number)
        return snapshot is not None and monotonic() - snapshot.seen_at < FRESH

    def sight(self, tenant: Tenant, user: str, roles: Iterable[str], now: datetime) -> str:
        """What somebody may see of all assets, as the store checks it."""
        snapshot = self.confirmed(tenant)
        with snapshot.lock:
            return snapshot.sight(user, frozenset(roles), Situation(now))

    def principal(
        self, tenant: Tenant, user: str, roles: Iterable[str] = (), groups: Iterable[str] = ()
    ) -> Principal:
        """With the groups and roles that Lily knows of, beside those that were named."""
        known = self.confirmed(tenant).memberships
        return Principal(user, known.roles(user) | set(roles), known.groups(user) | set(groups))

    def _load(self, tenant: Tenant, snapshot: Snapshot, guids: set[UUID]) -> None:
        missing = [guid for guid in guids if snapshot.target(guid) is None]
        if missing:
            with self._database.whole(tenant) as unit:
                snapshot.remember(targets.load(unit, missing).values())


def _policy_id(payload: str | None) -> UUID:
    told = msgspec.json.decode(payload or "{}")
    return UUID((told.get("after") or told.get("before"))["id"])
