"""Tags and terms on assets: what people assign, accept and choose, one asset or many."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from lily.assets import edits as rules
from lily.assets import labels
from lily.assets.change import Context, Known
from lily.assets.edits import PERSON, Edit, Outcome, Who
from lily.assets.labels import RULE, Label
from lily.assets.model import Asset
from lily.assets.query import Query, unmark
from lily.errors import Conflict, Invalid
from lily.store import assets, rights
from lily.store.database import Database, Unit
from lily.store.edits import Edits, patiently
from lily.store.search import search
from lily.tags import effective
from lily.tags.definitions import Kind
from lily.types import Lane, Tenant

CHUNK = 100

SUGGESTED = """
SELECT a.guid, a.lane, a.qualified_name, t.tag, t.by, t.reason, t.at
  FROM tag_assignment t JOIN asset a ON a.tenant = t.tenant AND a.guid = t.guid
 WHERE t.tenant = %(tenant)s AND t.state = 'suggested' AND a.deleted_by IS NULL
   AND (t.guid, t.tag, t.by) > (%(guid)s, %(tag_after)s, %(by_after)s)
   AND (%(tag)s::text IS NULL OR t.tag = %(tag)s) AND (%(by)s::text IS NULL OR t.by = %(by)s)
 ORDER BY t.guid, t.tag, t.by LIMIT %(limit)s
"""

Versions = frozenset[int] | None
Decide = Callable[[Unit, Known, Context], Outcome]


class Suggested(msgspec.Struct, frozen=True):
    """A tag that a rule proposes and nobody has decided on."""

    guid: UUID
    qualified_name: str
    tag: str
    by: str
    reason: str
    at: datetime


class Place(msgspec.Struct, frozen=True):
    """Behind which suggestion a page begins."""

    guid: UUID = UUID(int=0)
    tag: str = ""
    by: str = ""


class Change(msgspec.Struct, frozen=True):
    """What is done to every asset of a search."""

    add_tags: Sequence[str] = ()
    remove_tags: Sequence[str] = ()
    add_terms: Sequence[str] = ()
    remove_terms: Sequence[str] = ()
    owner: str | None = None


class Done(msgspec.Struct):
    """How far it is: `next` goes on where this ended."""

    matched: int = 0
    changed: int = 0
    total: int = 0
    total_is_exact: bool = True
    next: str | None = None


class Labels:
    """What a person may do with the labels of a tenant's assets."""

    def __init__(self, database: Database, edits: Edits) -> None:
        self._database = database
        self._edits = edits

    def assign(
        self, tenant: Tenant, given: str, kind: Kind, wanted: Sequence[Label], who: Who,
        versions: Versions = None,
    ) -> Asset:  # fmt: skip
        """Say these too."""

        def decide(_: Unit, known: Known, context: Context) -> Outcome:
            check(wanted, context)
            return labels.assign(known, kind, wanted, who, context)

        return self._edits.change(tenant, given, decide, versions)

    def replace(
        self, tenant: Tenant, given: str, kind: Kind, wanted: Sequence[Label], who: Who,
        versions: Versions = None,
    ) -> Asset:  # fmt: skip
        """Say these and nothing else; what others say stays."""

        def decide(_: Unit, known: Known, context: Context) -> Outcome:
            check(wanted, context)
            return labels.replace(known, kind, wanted, who, context)

        return self._edits.change(tenant, given, decide, versions)

    def withdraw(
        self, tenant: Tenant, given: str, kind: Kind, tag: str, by: str | None, who: Who,
        versions: Versions = None,
    ) -> Asset:  # fmt: skip
        """Take back what a person said."""
        return self._edits.change(
            tenant, given,
            lambda _, known, context: labels.withdraw(known, kind, tag, by, who, context), versions,
        )  # fmt: skip

    def resolve(
        self, tenant: Tenant, given: str, tag: str, reason: str, who: Who,
        versions: Versions = None,
    ) -> Asset:  # fmt: skip
        """Choose between tags of one exclusive group."""

        def decide(_: Unit, known: Known, context: Context) -> Outcome:
            group = (context.groups or effective.BUILT_IN).of.get(tag)
            if group is None:
                raise Invalid("is in no exclusive group, so there is nothing to choose", "tag")
            among = sorted(assigned(known, context).intersection(group.tags))
            if tag not in among:
                choice = ", ".join(among) or "none"
                raise Invalid(f"is not assigned here; of its group there is: {choice}", "tag")
            if len(among) == 1:
                raise Conflict(f"Nobody says anything but {tag}; there is nothing to resolve.")
            return labels.resolve(known, tag, among, group.name, reason, who, context)

        return self._edits.change(tenant, given, decide, versions)

    def settle(
        self, tenant: Tenant, given: str, tags: Sequence[str] | None, accept: bool,
        by: str | None, who: Who, versions: Versions = None,
    ) -> Asset:  # fmt: skip
        """Accept or reject what rules propose for one asset."""
        return self._edits.change(
            tenant, given,
            lambda _, known, context: labels.settle_suggestions(
                known, tags, accept, by, who, context
            ),
            versions,
        )  # fmt: skip

    def suggested(
        self, tenant: Tenant, after: Place, limit: int, tag: str | None, by: str | None
    ) -> list[Suggested]:
        """What waits for a decision, by asset."""
        with self._database.unit(tenant) as unit:
            return [
                Suggested(guid, name, *rest)
                for guid, _, name, *rest in _waiting(unit, after, limit, tag, by)
            ]

    def settle_many(
        self, tenant: Tenant, accept: bool, tag: str | None, by: str | None, limit: int, who: Who
    ) -> int:
        """Accept or reject what waits, at most so many; how many were decided."""
        decided = 0
        while decided < limit:
            count = min(CHUNK, limit - decided)
            step = patiently(partial(self._settle, tenant, accept, tag, by, count, who))
            if not step:
                break
            decided += step
        return decided

    def _settle(
        self, tenant: Tenant, accept: bool, tag: str | None, by: str | None, count: int, who: Who
    ) -> int:
        with self._database.unit(tenant) as unit:
            rows = _waiting(unit, Place(), count, tag, by)
            wanted = {guid: (lane, name) for guid, lane, name, *_ in rows}
            named = {guid: [r[3] for r in rows if r[0] == guid] for guid in wanted}

            def decide(_: Unit, known: Known, context: Context) -> Outcome:
                tags = named[known.guid]
                return labels.settle_suggestions(known, tags, accept, by, who, context)

            self._each(unit, wanted, decide)
            return len(rows)

    def change_found(
        self, tenant: Tenant, query: Query, change: Change, most: int, dry: bool, who: Who
    ) -> Done:
        """Do the same to everything that a search finds, in chunks; at most so many assets."""
        done = Done()
        while done.matched < most:
            size = min(CHUNK, most - done.matched)
            page = msgspec.structs.replace(query, limit=size)
            step = partial(self._change_page, tenant, page, change, dry, who, done)
            done.next = patiently(step)
            if done.next is None:
                break
            query = unmark(done.next, query)
        return done

    def _change_page(
        self, tenant: Tenant, query: Query, change: Change, dry: bool, who: Who, done: Done
    ) -> str | None:
        with self._database.unit(tenant) as unit:
            found = search(unit, query)
            wanted = {a.guid: (a.lane, a.qualified_name) for a in found.assets}

            def decide(_: Unit, known: Known, context: Context) -> Outcome:
                return changed(known, change, who, context)

            count = self._each(unit, wanted, decide, dry)
        done.matched += len(found.assets)
        done.changed += count
        done.total, done.total_is_exact = found.total, found.total_is_exact
        return found.next

    def _each(
        self, unit: Unit, wanted: dict[UUID, tuple[Lane, str]], decide: Decide, dry: bool = False
    ) -> int:
        """Decide on those that may be changed, in one transaction; how many changed."""
        number = unit.tenant.number
        context = self._edits.context(unit)
        allowed = rights.permitted("WRITE", [str(guid) for guid in wanted])
        places = {(number, guid): at for guid, at in wanted.items() if str(guid) in allowed}
        found = assets.load(unit.conn, places)
        count = 0
        for known in found.values():
            if known.asset is not None:
                outcome = (
                    decide(unit, known, context)
                    if dry
                    else self._edits.settle(unit, known, context, decide)
                )
                count += bool(outcome.changed or outcome.facts)
        return count


def changed(known: Known, change: Change, who: Who, context: Context) -> Outcome:
    """All that a change does to one asset, as one decision."""
    parts: list[Outcome] = []
    for kind, add, remove in (
        ("tag", change.add_tags, change.remove_tags),
        ("term", change.add_terms, change.remove_terms),
    ):
        parts.append(labels.assign(known, kind, [Label(name) for name in add], who, context))
        parts += [_taken(known, kind, name, who, context) for name in remove]
    if change.owner is not None:
        edit = Edit(fields={"asset_owner": change.owner or None})
        parts.append(rules.edit(known, edit, who, context))
    return Outcome(
        [fact for part in parts for fact in part.facts],
        any(part.changed for part in parts),
        [each for part in parts for each in part.assigned],
        [each for part in parts for each in part.withdrawn],
    )


def assigned(known: Known, context: Context) -> set[str]:
    """Every tag that anybody, or lineage, gives to the asset, before a group hides any."""
    tags = {tag for _, said in labels.by_source(known, context) for tag in said}
    brought = (each.name for each in known.propagated if each.field == "tag")
    return tags.union(known.labels.tags, brought)


def check(wanted: Sequence[Label], context: Context) -> None:
    """Raise Invalid for a validity that makes no sense."""
    for label in wanted:
        if label.valid_until is not None:
            if label.valid_until <= context.now:
                raise Invalid("is over already; give a time to come", "valid_until")
            if label.valid_from is not None and label.valid_from >= label.valid_until:
                raise Invalid("must be before valid_until", "valid_from")


def _taken(known: Known, kind: str, name: str, who: Who, context: Context) -> Outcome:
    """Take it off where it is the caller's, or an accepted suggestion; elsewhere leave it."""
    mine = [
        a for a in known.assignments
        if (a.kind, a.tag) == (kind, name)
        and ((a.origin, a.by) == (PERSON, who.name) or (a.origin, a.state) == (RULE, "active"))
    ]  # fmt: skip
    return labels.withdraw(known, kind, name, None, who, context) if mine else Outcome()


def _waiting(
    unit: Unit, after: Place, limit: int, tag: str | None, by: str | None
) -> list[tuple[Any, ...]]:
    values = {
        "tenant": unit.tenant.number, "guid": after.guid, "tag_after": after.tag,
        "by_after": after.by, "tag": tag, "by": by, "limit": limit,
    }  # fmt: skip
    return unit.conn.execute(SUGGESTED, values).fetchall()
