"""Definitions of tags and terms: made, changed, deleted, each with its fact."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg.errors import UniqueViolation

from lily.assets.edits import Who
from lily.assets.query import parse
from lily.clock import Clock
from lily.errors import Conflict, NotFound
from lily.events.facts import Fact, FactKind
from lily.store import feed
from lily.store.database import Database, Unit
from lily.store.search import search
from lily.tags.definitions import SAID, Definition, Kind, Unknown
from lily.types import Tenant

_COLUMNS = ", ".join(Definition.__struct_fields__)
PAGE = f"SELECT {_COLUMNS} FROM {{}} WHERE tenant = %s AND name > %s ORDER BY name LIMIT %s"
ONE = f"SELECT {_COLUMNS} FROM {{}} WHERE tenant = %s AND name = %s"
_STORED = (*SAID, "first_use", "version", "created_at", "created_by", "updated_at")
INSERT = (
    f"INSERT INTO {{}} (tenant, {', '.join(_STORED)}) VALUES (%s{', %s' * len(_STORED)})"
)  # fmt: skip
# A built-in tag has no row before it is first changed.
REPLACE = f"{INSERT} ON CONFLICT (tenant, name) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in _STORED if name != "name"
)
DELETE = "DELETE FROM {} WHERE tenant = %s AND name = %s"
ASSIGNED = (
    "SELECT count(DISTINCT guid) FROM tag_assignment"
    " WHERE tenant = %s AND kind = %s AND tag = %s AND state NOT IN ('rejected', 'expired')"
)
REVISE = (
    "INSERT INTO tag_settings (tenant) VALUES (%s)"
    " ON CONFLICT (tenant) DO UPDATE SET revision = tag_settings.revision + 1"
)
# An asset with two of these may have to show another one of them.
REFOLD = """
UPDATE tag_settings SET refold_cause = %(cause)s, refold = ARRAY(
  SELECT unnest(coalesce(refold, '{}') || %(names)s::text[])
   UNION SELECT name FROM tag_definition
          WHERE tenant = %(tenant)s AND exclusive_group = ANY(%(groups)s))
 WHERE tenant = %(tenant)s
"""
SETTINGS = "SELECT unknown_tags, unknown_terms FROM tag_settings WHERE tenant = %s"
SET = "UPDATE tag_settings SET unknown_tags = %s, unknown_terms = %s WHERE tenant = %s"
TABLES: Mapping[Kind, str] = {"tag": "tag_def", "term": "term_def"}
VIEWS: Mapping[Kind, str] = {"tag": "tag_definition", "term": "term_definition"}
FOLDED = {"exclusive_group", "rank", "precedence"}  # what decides which tag of a group shows
FILTERS: Mapping[Kind, str] = {"tag": "tag", "term": "business_term"}


class Settings(msgspec.Struct, frozen=True):
    """What happens to a tag, or a term, that nobody defined."""

    unknown_tags: Unknown = "create"
    unknown_terms: Unknown = "create"


class TagDefinitions:
    """What a tenant's tags, or its terms, mean."""

    def __init__(self, database: Database, clock: Clock, kind: Kind) -> None:
        self._database = database
        self._clock = clock
        self._kind = kind
        self._table = TABLES[kind]
        self._view = VIEWS[kind]

    def page(self, tenant: Tenant, after: str, limit: int) -> list[Definition]:
        with self._database.unit(tenant) as unit:
            rows = unit.conn.execute(PAGE.format(self._view), [tenant.number, after, limit])
            return [Definition(*row) for row in rows]

    def find(self, tenant: Tenant, name: str) -> Definition:
        with self._database.unit(tenant) as unit:
            return self._find(unit, name)

    def create(self, tenant: Tenant, said: Mapping[str, Any], who: Who) -> Definition:
        """A definition of one's own; one that first use made is taken over."""
        now = self._clock.now()
        try:
            with self._database.unit(tenant) as unit:
                feed.take_head(unit.conn, tenant.number)
                old = self._seek(unit, said["name"])
                if old is not None and not old.first_use:
                    raise Conflict(f"There is already a {self._kind} {old.name}; change it.")
                made = _made(said, who, now)
                if old is not None:
                    made.version, made.created_at = old.version + 1, old.created_at
                self._save(unit, made)
                self._tell(unit, "TagDefined", who, now, None, _told(made))
                self._refold(unit, [made], who)
        except UniqueViolation as cause:
            raise Conflict(f"There is already a {self._kind} {said['name']}; change it.") from cause
        return self.find(tenant, made.name)

    def change(
        self, tenant: Tenant, name: str, said: Mapping[str, Any], who: Who
    ) -> Definition:  # fmt: skip
        """Only what is said. A name that something uses stays: see `rename` in the answer."""
        now = self._clock.now()
        with self._database.unit(tenant) as unit:
            feed.take_head(unit.conn, tenant.number)
            old = self._find(unit, name)
            new = msgspec.structs.replace(old, **said)
            changed = {n for n in SAID if getattr(new, n) != getattr(old, n)}
            if not changed:
                return old
            if new.name != name:
                self._refuse_used(unit, old, "renamed")
                if self._seek(unit, new.name) is not None:
                    raise Conflict(f"There is already a {self._kind} {new.name}.")
                unit.conn.execute(DELETE.format(self._table), [tenant.number, name])
            new.version, new.updated_at, new.first_use = old.version + 1, now, False
            self._save(unit, new)
            before = {"kind": self._kind, "name": name, **_only(old, changed)}
            after = {"kind": self._kind, "name": new.name, **_only(new, changed)}
            self._tell(unit, "TagDefinitionChanged", who, now, before, after)
            if changed & FOLDED:
                self._refold(unit, [old, new], who)
            return self._find(unit, new.name)

    def delete(self, tenant: Tenant, name: str, who: Who) -> None:
        """Only what nothing uses."""
        now = self._clock.now()
        with self._database.unit(tenant) as unit:
            feed.take_head(unit.conn, tenant.number)
            old = self._find(unit, name)
            self._refuse_used(unit, old, "deleted")
            unit.conn.execute(DELETE.format(self._table), [tenant.number, name])
            self._tell(unit, "TagDefinitionDeleted", who, now, _told(old), None)

    def _find(self, unit: Unit, name: str) -> Definition:
        if (found := self._seek(unit, name)) is None:
            raise NotFound(self._kind, name)
        return found

    def _seek(self, unit: Unit, name: str) -> Definition | None:
        values = [unit.tenant.number, name]
        row = unit.conn.execute(ONE.format(self._view), values).fetchone()
        return Definition(*row) if row else None

    def _save(self, unit: Unit, made: Definition) -> None:
        values = [getattr(made, name) for name in _STORED]
        unit.conn.execute(REPLACE.format(self._table), [unit.tenant.number, *values])

    def _refuse_used(self, unit: Unit, old: Definition, verb: str) -> None:
        """A clear answer instead of assets with a tag that means nothing."""
        if old.builtin:
            raise Conflict(f"{old.name} is built in and cannot be {verb}; change what it does.")
        found = search(unit, parse([(FILTERS[self._kind], old.name), ("deleted", "any")]))
        row = unit.conn.execute(ASSIGNED, [unit.tenant.number, self._kind, old.name]).fetchone()
        if used := max(found.total, row[0] if row else 0):
            some = "at least " if not found.total_is_exact else ""
            raise Conflict(
                f"{old.name} cannot be {verb}: {some}{used} assets have it. Take it off first, for"
                " a whole search by POST /api/v1/metadata/search/tags."
            )

    def _refold(self, unit: Unit, said: Sequence[Definition], who: Who) -> None:
        """Ask that assets with tags of these groups are folded again, in the background."""
        groups = [each.exclusive_group for each in said if each.exclusive_group is not None]
        if groups:
            values = {"tenant": unit.tenant.number, "groups": groups, "cause": who.cause,
                      "names": [each.name for each in said]}  # fmt: skip
            unit.conn.execute(REFOLD, values)

    def _tell(
        self, unit: Unit, kind: FactKind, who: Who, now: datetime,
        before: dict[str, Any] | None, after: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        unit.conn.execute(REVISE, [unit.tenant.number])
        for told in (before, after):
            if told is not None:
                told["kind"] = self._kind
        feed.record(
            unit,
            [Fact(kind=kind, at=now, by=who.name, cause=who.cause, before=before, after=after,
                  traceparent=who.traceparent)],
        )  # fmt: skip


def settings(database: Database, tenant: Tenant) -> Settings:
    with database.unit(tenant) as unit:
        row = unit.conn.execute(SETTINGS, [tenant.number]).fetchone()
    return Settings(*row) if row else Settings()


def set_settings(
    database: Database, clock: Clock, tenant: Tenant, wanted: Settings, who: Who
) -> Settings:
    """What happens to unknown names from now on; what is stored stays."""
    before = settings(database, tenant)
    if wanted == before:
        return wanted
    with database.unit(tenant) as unit:
        feed.take_head(unit.conn, tenant.number)
        unit.conn.execute(REVISE, [tenant.number])
        unit.conn.execute(SET, [wanted.unknown_tags, wanted.unknown_terms, tenant.number])
        told = Fact(
            kind="TenantChanged", at=clock.now(), by=who.name, cause=who.cause,
            before=msgspec.structs.asdict(before), after=msgspec.structs.asdict(wanted),
            traceparent=who.traceparent,
        )  # fmt: skip
        feed.record(unit, [told])
    return wanted


def _made(said: Mapping[str, Any], who: Who, now: datetime) -> Definition:
    plain: dict[str, Any] = {
        "description": "", "colour": None, "exclusive_group": None, "rank": 0,
        "propagates": False, "edge_kinds": None, "max_depth": None, "precedence": "source",
    }  # fmt: skip
    return Definition(
        **{**plain, **said}, first_use=False, version=1, created_at=now, created_by=who.name,
        updated_at=now, builtin=False,
    )  # fmt: skip


def _only(definition: Definition, names: set[str]) -> dict[str, Any]:
    return {name: getattr(definition, name) for name in SAID if name in names}


def _told(definition: Definition) -> dict[str, Any]:
    return _only(definition, set(SAID))
