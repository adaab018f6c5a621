"""The definitions that decisions need, kept per process and read again when they change."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import cast
from weakref import WeakKeyDictionary

import psycopg

from lily.assets.model import Asset
from lily.events.observations import AssetSeen
from lily.store.database import Database, Unit
from lily.tags.definitions import Book, Definition, Unknown, groups_of

_COLUMNS = ", ".join(Definition.__struct_fields__)
SETTINGS = (
    "SELECT tenant, revision, unknown_tags, unknown_terms FROM tag_settings WHERE tenant = ANY(%s)"
)
# Of a tenant that has no feed yet the view shows nothing, so the built-in ones are read beside it.
TAGS = f"SELECT tenant, {_COLUMNS} FROM tag_definition WHERE tenant = ANY(%s)"
BUILT_IN = f"SELECT {_COLUMNS.replace(', builtin', ', true')} FROM tag_builtin"
TERMS = "SELECT tenant, name, propagates FROM term_def WHERE tenant = ANY(%s)"
FIRST_USE = (
    "INSERT INTO {} (tenant, name, first_use, created_at, created_by, updated_at)"
    " SELECT %(tenant)s, name, true, %(now)s, %(by)s, %(now)s FROM unnest(%(names)s::text[]) name"
    "{} ON CONFLICT DO NOTHING"
)
NOT_BUILT_IN = " WHERE name NOT IN (SELECT name FROM tag_builtin)"
KNOWN = "SELECT name FROM {} WHERE tenant = %s AND name = ANY(%s)"


class Definitions:
    """A book per tenant. What first use defines is learnt once it is committed."""

    def __init__(self) -> None:
        self._books: dict[int, Book] = {}
        self._made: dict[int, tuple[set[str], set[str]]] = {}

    def refresh(self, conn: psycopg.Connection, tenants: Sequence[int]) -> None:
        """Look whether anything has changed; one small query if not."""
        rows = conn.execute(SETTINGS, [list(tenants)], prepare=True).fetchall()
        found = {tenant: rest for tenant, *rest in rows}
        stale = []
        for tenant in tenants:
            revision = found[tenant][0] if tenant in found else 0
            book = self._books.get(tenant)
            if book is None or book.revision != revision:
                stale.append(tenant)
            elif tenant in self._made:
                self._learn(conn, tenant, book)
        if stale:
            self._read(conn, stale, found)

    def book(self, tenant: int) -> Book:
        return self._books.get(tenant) or Book()

    def define(
        self, conn: psycopg.Connection, tenant: int, labels: Sequence[Iterable[str]],
        by: str, now: datetime,
    ) -> None:  # fmt: skip
        """Tags and terms that are used for the first time get a definition of their own.

        Call it when the tenant's feed is locked: then two writers never wait for each other's.
        """
        book = self.book(tenant)
        made = self._made.setdefault(tenant, (set(), set()))
        for table, used, known, fresh in zip(
            ("tag_def", "term_def"), labels, (book.tags, book.terms), made, strict=True
        ):
            names = sorted(set(used) - known)
            if names:
                values = {"tenant": tenant, "now": now, "by": by, "names": names}
                conn.execute(
                    FIRST_USE.format(table, NOT_BUILT_IN if table == "tag_def" else ""), values
                )
                fresh.update(names)
        if not any(made):
            self._made.pop(tenant, None)

    def define_used(
        self, conn: psycopg.Connection, used: Iterable[Asset], by: str, now: datetime
    ) -> None:
        """The same for whole assets, whose tenants' feeds are locked."""
        found: dict[int, tuple[set[str], set[str]]] = {}
        for asset in used:
            if asset.tags or asset.business_terms:
                tags, terms = found.setdefault(asset.tenant, (set(), set()))
                tags.update(asset.tags)
                terms.update(asset.business_terms)
        for tenant, labels in found.items():
            book = self.book(tenant)
            if not (labels[0] <= book.tags and labels[1] <= book.terms):
                self.define(conn, tenant, labels, by, now)

    def _learn(self, conn: psycopg.Connection, tenant: int, book: Book) -> None:
        made = self._made.pop(tenant, (set(), set()))  # another thread may have been quicker
        for table, names, known in zip(
            ("tag_def", "term_def"), made, (book.tags, book.terms), strict=True
        ):
            if names:
                rows = conn.execute(KNOWN.format(table), [tenant, sorted(names)])
                known.update(name for (name,) in rows)

    def _read(
        self, conn: psycopg.Connection, tenants: Sequence[int], settings: dict[int, list[object]]
    ) -> None:
        tags: dict[int, list[Definition]] = {tenant: [] for tenant in tenants}
        terms: dict[int, dict[str, bool]] = {tenant: {} for tenant in tenants}
        for tenant, *rest in conn.execute(TAGS, [list(tenants)]):
            tags[tenant].append(Definition(*rest))
        if not all(tags.values()):
            builtin = [Definition(*row) for row in conn.execute(BUILT_IN)]
            tags = {tenant: found or builtin for tenant, found in tags.items()}
        for tenant, name, propagates in conn.execute(TERMS, [list(tenants)]):
            terms[tenant][name] = propagates
        for tenant in tenants:
            revision, *unknown = settings.get(tenant, [0, "create", "create"])
            self._books[tenant] = bound(cast(int, revision), tags[tenant], terms[tenant], unknown)


def bound(
    revision: int, tags: Sequence[Definition], terms: Mapping[str, bool], unknown: Sequence[object]
) -> Book:
    """All that is defined, bound into a book."""
    return Book(
        revision,
        groups_of(tags),
        {each.name for each in tags},
        set(terms),
        frozenset(each.name for each in tags if each.propagates),
        frozenset(name for name, propagates in terms.items() if propagates),
        *cast(Sequence[Unknown], unknown),
    )


def unknown_in(book: Book, seen: object) -> str | None:
    """Why a tenant refuses what an observation says: the field, and the cure."""
    if not isinstance(seen, AssetSeen):
        return None
    return book.refused(seen.tags or (), seen.business_terms or ())


_shared: WeakKeyDictionary[Database, Definitions] = WeakKeyDictionary()


def of(database: Database) -> Definitions:
    """The one that everybody in this process shares."""
    return _shared.setdefault(database, Definitions())


def book(database: Database, unit: Unit) -> Book:
    """A tenant's definitions, as they are now."""
    number = unit.tenant.number
    (found := of(database)).refresh(unit.conn, [number])
    return found.book(number)
