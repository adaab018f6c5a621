"""Groups and roles: names that policies speak of, with the users who belong to them."""

from collections import defaultdict
from datetime import datetime
from typing import Literal

import msgspec

from lily.errors import NotFound, Stale
from lily.events.facts import Fact
from lily.identity.actor import Actor
from lily.store import feed
from lily.store.database import Unit

CircleKind = Literal["group", "role"]

COLUMNS = "kind, name, description, members, revision, created_at, updated_at"
SAVE = (
    f"INSERT INTO circle (tenant, {COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (tenant, kind, name) DO UPDATE SET description = excluded.description,"
    " members = excluded.members, revision = excluded.revision, updated_at = excluded.updated_at"
)


class Circle(msgspec.Struct, frozen=True):
    kind: CircleKind
    name: str
    description: str
    members: list[str]
    revision: int
    created_at: datetime
    updated_at: datetime


class Memberships:
    """Who belongs to what, for a whole tenant."""

    def __init__(self, circles: list[Circle]) -> None:
        self._groups: dict[str, set[str]] = defaultdict(set)
        self._roles: dict[str, set[str]] = defaultdict(set)
        for circle in circles:
            of = self._groups if circle.kind == "group" else self._roles
            for member in circle.members:
                of[member].add(circle.name)

    def groups(self, user: str) -> frozenset[str]:
        return frozenset(self._groups.get(user, ()))

    def roles(self, user: str) -> frozenset[str]:
        return frozenset(self._roles.get(user, ()))


def page(unit: Unit, kind: CircleKind, after: str | None, limit: int) -> list[Circle]:
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM circle WHERE tenant = %s AND kind = %s"
        " AND (%s::text IS NULL OR name > %s) ORDER BY name LIMIT %s",
        [unit.tenant.number, kind, after, after, limit],
    )
    return [Circle(*row) for row in rows]


def memberships(unit: Unit) -> Memberships:
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM circle WHERE tenant = %s", [unit.tenant.number]
    )
    return Memberships([Circle(*row) for row in rows])


def exists(unit: Unit, kind: CircleKind, name: str) -> bool:
    return _find(unit, kind, name) is not None


def get(unit: Unit, kind: CircleKind, name: str) -> Circle:
    found = _find(unit, kind, name)
    if found is None:
        raise NotFound(kind, name)
    return found


def put(
    unit: Unit,
    wanted: Circle,
    expected: int | None,
    actor: Actor,
) -> Circle:
    """Make a circle, or replace what it is; the same again changes nothing."""
    before = _find(unit, wanted.kind, wanted.name)
    if before is not None and expected is not None and expected != before.revision:
        raise Stale(
            f"The {wanted.kind} is at revision {before.revision};"
            " read it again and repeat the change."
        )
    members = sorted(set(wanted.members))
    if before is not None and (before.description, before.members) == (wanted.description, members):
        return before
    after = msgspec.structs.replace(
        wanted,
        members=members,
        revision=before.revision + 1 if before else 1,
        created_at=before.created_at if before else wanted.created_at,
    )
    unit.conn.execute(SAVE, [unit.tenant.number, *msgspec.structs.astuple(after)])
    _record(unit, actor, after.updated_at, before, after)
    return after


def delete(unit: Unit, kind: CircleKind, name: str, actor: Actor, now: datetime) -> None:
    before = get(unit, kind, name)
    unit.conn.execute(
        "DELETE FROM circle WHERE tenant = %s AND kind = %s AND name = %s",
        [unit.tenant.number, kind, name],
    )
    _record(unit, actor, now, before, None)


def _find(unit: Unit, kind: CircleKind, name: str) -> Circle | None:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM circle WHERE tenant = %s AND kind = %s AND name = %s FOR UPDATE",
        [unit.tenant.number, kind, name],
    ).fetchone()
    return Circle(*row) if row else None


def _record(
    unit: Unit, actor: Actor, now: datetime, before: Circle | None, after: Circle | None
) -> None:
    fact = Fact(
        kind="CircleChanged",
        at=now,
        by=actor.name,
        cause=actor.cause,
        before=_shown(before),
        after=_shown(after),
        traceparent=actor.traceparent,
    )
    feed.record(unit, [fact])


def _shown(circle: Circle | None) -> dict[str, object] | None:
    if circle is None:
        return None
    return {"kind": circle.kind, "name": circle.name, "members": circle.members}
