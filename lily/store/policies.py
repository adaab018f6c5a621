"""Policies as rows, and the built-in ones that no row stands for."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from lily.access.defaults import default_policies
from lily.access.model import Mask, Policy, Resource, Subject
from lily.errors import NotFound, Stale
from lily.events.facts import Fact, FactKind
from lily.identity.actor import Actor
from lily.store import feed
from lily.store.database import Unit

_FIELDS = (
    "id, name, effect, action, subjects, resource_kind, resource_id, conditions, mask,"
    " row_filter, exempt_groups, enabled"
)
COLUMNS = f"{_FIELDS}, gone, revision, created_by, created_at, updated_at"
SELECT = f"SELECT {COLUMNS} FROM policy WHERE tenant = %s"
INSERT = (
    f"INSERT INTO policy (tenant, {COLUMNS})"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
# A built-in policy has no row before it is first changed.
REPLACE = (
    f"{INSERT} ON CONFLICT (tenant, id)"
    f" DO UPDATE SET ({_FIELDS}, gone, revision, updated_at) = ROW("
    + ", ".join(f"excluded.{name.strip()}" for name in _FIELDS.split(","))
    + ", excluded.gone, excluded.revision, excluded.updated_at)"
)
BUILT_IN = "lily"
EVER = datetime(2026, 1, 1, tzinfo=UTC)  # when the built-in ones say that they were made


class Kept(msgspec.Struct, frozen=True):
    """A policy with what is known of its making."""

    policy: Policy
    revision: int
    created_by: str
    created_at: datetime
    updated_at: datetime
    gone: bool = False


def load(unit: Unit, ids: Iterable[UUID] | None = None) -> list[Kept]:
    """All policies in force for the tenant, or those of the given ids that exist."""
    asked = None if ids is None else list(ids)
    found = unit.conn.execute(
        f"{SELECT} AND (%s::uuid[] IS NULL OR id = ANY(%s))", [unit.tenant.number, asked, asked]
    )
    rows = {row[0]: _kept(row) for row in found}
    for kept in _built_in(unit):
        if asked is None or kept.policy.id in asked:
            rows.setdefault(kept.policy.id, kept)
    return [kept for kept in rows.values() if not kept.gone]


def get(unit: Unit, id: UUID) -> Kept:
    found = load(unit, [id])
    if not found:
        raise NotFound("policy", id)
    return found[0]


def about(unit: Unit, resources: Iterable[tuple[str, str]]) -> list[Kept]:
    """The policies on any of these resources, oldest first."""
    wanted = set(resources)
    kinds, ids = [k for k, _ in wanted], [i for _, i in wanted]
    rows = unit.conn.execute(
        f"{SELECT} AND NOT gone AND (resource_kind, resource_id) IN"
        " (SELECT * FROM unnest(%s::text[], %s::text[]))",
        [unit.tenant.number, kinds, ids],
    )
    found = [_kept(row) for row in rows]
    rewritten = {
        id
        for (id,) in unit.conn.execute(
            "SELECT id FROM policy WHERE tenant = %s AND id = ANY(%s)",
            [unit.tenant.number, [kept.policy.id for kept in _built_in(unit)]],
        )
    }
    found += [
        kept
        for kept in _built_in(unit)
        if kept.policy.id not in rewritten
        and (kept.policy.resource.kind, kept.policy.resource.id) in wanted
    ]
    return sorted(found, key=lambda kept: (kept.created_at, kept.policy.id))


def page(unit: Unit, after: UUID | None, limit: int) -> list[Kept]:
    """By id; the built-in ones have ids like all others."""
    rows = unit.conn.execute(
        f"{SELECT} AND (%s::uuid IS NULL OR id > %s) ORDER BY id LIMIT %s",
        [unit.tenant.number, after, after, limit + len(list(_built_in(unit)))],
    )
    found = {row[0]: _kept(row) for row in rows}
    for kept in _built_in(unit):
        if after is None or kept.policy.id > after:
            found.setdefault(kept.policy.id, kept)
    return [found[id] for id in sorted(found) if not found[id].gone][:limit]


def create(unit: Unit, policy: Policy, actor: Actor, now: datetime) -> Kept:
    kept = Kept(policy, 1, actor.name, now, now)
    unit.conn.execute(INSERT, _values(unit, kept))
    _record(unit, "PolicyCreated", actor, now, None, policy)
    return kept


def create_many(unit: Unit, made: Sequence[Policy], by: str, now: datetime) -> None:
    """Several at once, each with its fact."""
    with unit.conn.cursor() as cursor:
        cursor.executemany(INSERT, [_values(unit, Kept(each, 1, by, now, now)) for each in made])
    feed.record(
        unit,
        [Fact(kind="PolicyCreated", at=now, by=by, cause="many", after=shown(p)) for p in made],
    )


def change(unit: Unit, after: Policy, expected: int | None, actor: Actor, now: datetime) -> Kept:
    """Replace a policy; what changes nothing makes no revision and no fact."""
    before = _locked(unit, after.id, expected)
    if before.policy == after:
        return before
    kept = msgspec.structs.replace(
        before, policy=after, revision=before.revision + 1, updated_at=now
    )
    unit.conn.execute(REPLACE, _values(unit, kept))
    _record(unit, "PolicyChanged", actor, now, before.policy, after)
    return kept


def delete(unit: Unit, id: UUID, actor: Actor, now: datetime) -> None:
    before = _locked(unit, id, None)
    if any(kept.policy.id == id for kept in _built_in(unit)):
        hidden = msgspec.structs.replace(before, gone=True, updated_at=now)
        unit.conn.execute(REPLACE, _values(unit, hidden))
    else:
        unit.conn.execute(
            "DELETE FROM policy WHERE tenant = %s AND id = %s", [unit.tenant.number, id]
        )
    _record(unit, "PolicyDeleted", actor, now, before.policy, None)


def shown(policy: Policy) -> dict[str, Any]:
    """As it is told in facts."""
    plain: dict[str, Any] = msgspec.to_builtins(policy)
    plain["id"] = str(policy.id)
    return plain


def _locked(unit: Unit, id: UUID, expected: int | None) -> Kept:
    unit.conn.execute(
        "SELECT FROM policy WHERE tenant = %s AND id = %s FOR UPDATE", [unit.tenant.number, id]
    )
    found = get(unit, id)
    if expected is not None and expected != found.revision:
        raise Stale(
            f"The policy is at revision {found.revision}; read it again and repeat the change."
        )
    return found


def _values(unit: Unit, kept: Kept) -> list[Any]:
    policy = kept.policy
    return [
        unit.tenant.number, policy.id, policy.name, policy.effect, policy.action,
        Jsonb(msgspec.to_builtins(policy.subjects)), policy.resource.kind, policy.resource.id,
        Jsonb(policy.conditions), Jsonb(msgspec.to_builtins(policy.mask)), policy.row_filter,
        list(policy.exempt_groups), policy.enabled, kept.gone, kept.revision, kept.created_by,
        kept.created_at, kept.updated_at,
    ]  # fmt: skip


def _kept(row: tuple[Any, ...]) -> Kept:
    id, name, effect, action, subjects, kind, about, conditions, mask, where, exempt, on = row[:12]
    policy = Policy(
        id=id, name=name, effect=effect, action=action,
        subjects=msgspec.convert(subjects, tuple[Subject, ...]), resource=Resource(kind, about),
        conditions=conditions, mask=msgspec.convert(mask, Mask | None), row_filter=where,
        exempt_groups=tuple(exempt), enabled=on,
    )  # fmt: skip
    gone, revision, by, created_at, updated_at = row[12:]
    return Kept(policy, revision, by, created_at, updated_at, gone)


def _built_in(unit: Unit) -> Iterable[Kept]:
    for policy in default_policies(unit.tenant.id):
        yield Kept(policy, 1, BUILT_IN, EVER, EVER)


def _record(
    unit: Unit,
    kind: FactKind,
    actor: Actor,
    at: datetime,
    before: Policy | None,
    after: Policy | None,
) -> None:
    fact = Fact(
        kind=kind,
        at=at,
        by=actor.name,
        cause=actor.cause,
        before=shown(before) if before else None,
        after=shown(after) if after else None,
        traceparent=actor.traceparent,
    )
    feed.record(unit, [fact])
