"""Scraper policies: which columns the sources of a group may speak of."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.errors import NotFound
from lily.events.facts import Fact
from lily.events.lineage import EdgeGone, EdgeSeen, LineageStated
from lily.events.observations import RunSeen
from lily.identity.actor import Actor
from lily.store import feed
from lily.store.database import Unit

COLUMNS = "id, scraper_group, allowed_columns, created_at"


class ScraperPolicy(msgspec.Struct, frozen=True):
    id: UUID
    scraper_group: str
    allowed_columns: list[str]
    created_at: datetime


class Bounds:
    """What each bound source of one tenant may speak of."""

    def __init__(self, allowed: dict[str, list[str]]) -> None:
        self._allowed = allowed

    def __bool__(self) -> bool:
        return bool(self._allowed)

    def refusal(self, source: str, qualified_name: str) -> str | None:
        """None if the source may speak of this asset; only columns are bound."""
        globs = self._allowed.get(source)
        if globs is None or "#" not in qualified_name:
            return None
        column = qualified_name.rpartition("#")[2]
        if any(fnmatchcase(qualified_name, glob) or fnmatchcase(column, glob) for glob in globs):
            return None
        return (
            f"source {source!r} may not speak of the column {column!r}: a scraper policy binds it"
        )

    def outside(self, source: str, seen: Any) -> str | None:
        """Why an observation may not come from this source; None if it may."""
        if source not in self._allowed:
            return None
        for name in _spoken_of(seen):
            if (reason := self.refusal(source, name)) is not None:
                return reason
        return None


def _spoken_of(seen: Any) -> Iterator[str]:
    """Every asset that an observation is about, columns of runs and edges included."""
    if isinstance(seen, EdgeSeen | EdgeGone):
        yield from (seen.from_name, seen.to_name)
    elif isinstance(seen, LineageStated):
        for edge in seen.edges:
            yield from (edge.from_name, edge.to_name)
    elif isinstance(seen, RunSeen):
        yield from (each.qualified_name for each in seen.assets)
    else:
        yield seen.qualified_name


def create(unit: Unit, policy: ScraperPolicy, actor: Actor) -> None:
    unit.conn.execute(
        f"INSERT INTO scraper_policy (tenant, {COLUMNS}) VALUES (%s, %s, %s, %s, %s)",
        [unit.tenant.number, *msgspec.structs.astuple(policy)],
    )
    _record(unit, actor, policy.created_at, None, policy)


def page(unit: Unit, after: UUID | None, limit: int) -> list[ScraperPolicy]:
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM scraper_policy WHERE tenant = %s"
        " AND (%s::uuid IS NULL OR id > %s) ORDER BY id LIMIT %s",
        [unit.tenant.number, after, after, limit],
    )
    return [ScraperPolicy(*row) for row in rows]


def get(unit: Unit, id: UUID) -> ScraperPolicy:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM scraper_policy WHERE tenant = %s AND id = %s",
        [unit.tenant.number, id],
    ).fetchone()
    if row is None:
        raise NotFound("scraper policy", id)
    return ScraperPolicy(*row)


def delete(unit: Unit, id: UUID, actor: Actor, now: datetime) -> None:
    before = get(unit, id)
    unit.conn.execute(
        "DELETE FROM scraper_policy WHERE tenant = %s AND id = %s", [unit.tenant.number, id]
    )
    _record(unit, actor, now, before, None)


def bounds(conn: psycopg.Connection, tenants: Sequence[int]) -> dict[int, Bounds]:
    """Per tenant: a source is bound by its own name, and as a member of a group of that name."""
    allowed: dict[int, dict[str, list[str]]] = {}
    rows = conn.execute(
        "SELECT p.tenant, p.scraper_group, p.allowed_columns, c.members FROM scraper_policy p"
        " LEFT JOIN circle c ON c.tenant = p.tenant AND c.kind = 'group'"
        " AND c.name = p.scraper_group WHERE p.tenant = ANY(%s)",
        [list(tenants)],
    )
    for tenant, group, globs, members in rows:
        for source in {group, *(members or ())}:
            allowed.setdefault(tenant, {}).setdefault(source, []).extend(globs)
    return {tenant: Bounds(sources) for tenant, sources in allowed.items()}


def _record(
    unit: Unit,
    actor: Actor,
    now: datetime,
    before: ScraperPolicy | None,
    after: ScraperPolicy | None,
) -> None:
    fact = Fact(
        kind="ScraperPolicyChanged",
        at=now,
        by=actor.name,
        cause=actor.cause,
        before=_shown(before),
        after=_shown(after),
        traceparent=actor.traceparent,
    )
    feed.record(unit, [fact])


def _shown(policy: ScraperPolicy | None) -> dict[str, object] | None:
    if policy is None:
        return None
    return {
        "id": str(policy.id),
        "scraper_group": policy.scraper_group,
        "allowed_columns": policy.allowed_columns,
    }
