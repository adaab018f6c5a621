"""Observations that could not be applied, parked with their reason."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from lily.errors import Conflict, NotFound
from lily.events.facts import Fact, FactKind
from lily.identity.actor import Actor
from lily.store import feed
from lily.store.database import Unit
from lily.types import Lane

State = Literal["parked", "replayed", "dropped"]
Stage = Literal["decode", "validate", "hook", "merge"]

COLUMNS = (
    "id, cause, lane, log_offset, at, stage, plugin, reason, key, source, state,"
    " settled_at, settled_by, raw"
)
MATCH = (
    " tenant = %(tenant)s"
    " AND (%(state)s::text IS NULL OR state = %(state)s)"
    " AND (%(stage)s::text IS NULL OR stage = %(stage)s)"
    " AND (%(plugin)s::text IS NULL OR plugin = %(plugin)s)"
    " AND (%(source)s::text IS NULL OR source = %(source)s)"
    " AND (%(key)s::text IS NULL OR starts_with(key, %(key)s))"
    " AND (%(since)s::timestamptz IS NULL OR at >= %(since)s)"
)


class DeadLetter(msgspec.Struct, frozen=True):
    """`plugin` is the connection that refused, `cause` the observation's id, `raw` its envelope."""

    id: UUID
    cause: str
    lane: Lane
    log_offset: int
    at: datetime
    stage: str
    plugin: str
    reason: str
    key: str
    source: str
    state: State
    settled_at: datetime | None
    settled_by: str | None
    raw: str


class Filter(msgspec.Struct, frozen=True):
    """What is not given matches everything; `key` is the beginning of a qualified name."""

    state: State | None = None
    stage: Stage | None = None
    plugin: str | None = None
    source: str | None = None
    key: str | None = None
    since: datetime | None = None


def page(
    unit: Unit, wanted: Filter, after: tuple[datetime, UUID] | None, limit: int
) -> list[DeadLetter]:
    """Newest first."""
    at, id = after or (None, None)
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM dead_letter WHERE {MATCH}"
        " AND (%(at)s::timestamptz IS NULL OR (at, id) < (%(at)s, %(id)s::uuid))"
        " ORDER BY at DESC, id DESC LIMIT %(limit)s",
        {**_bound(unit, wanted), "at": at, "id": id, "limit": limit},
    ).fetchall()
    return [DeadLetter(*row) for row in rows]


def get(unit: Unit, id: UUID) -> DeadLetter:
    row = unit.conn.execute(
        f"SELECT {COLUMNS} FROM dead_letter WHERE tenant = %s AND id = %s",
        [unit.tenant.number, id],
    ).fetchone()
    if row is None:
        raise NotFound("dead letter", id)
    return DeadLetter(*row)


def claim(unit: Unit, id: UUID) -> DeadLetter:
    """A letter that is still parked, kept from anybody else until the end of the transaction."""
    rows = _claim(unit, "id = %(id)s", {"tenant": unit.tenant.number, "id": id}, 1)
    if rows:
        return rows[0]
    state = get(unit, id).state
    raise Conflict(f"Dead letter {id} was already {state}; nothing is left to do with it.")


def claim_ids(unit: Unit, ids: Sequence[UUID]) -> list[DeadLetter]:
    """Those of the named that are still parked."""
    bound = {"tenant": unit.tenant.number, "ids": list(ids)}
    return _claim(unit, "id = ANY(%(ids)s)", bound, len(ids))


def claim_matching(unit: Unit, wanted: Filter, limit: int) -> list[DeadLetter]:
    """The oldest parked letters that match: observations go back in the order they came."""
    return _claim(unit, MATCH, _bound(unit, wanted), limit)


def settle(
    unit: Unit, letters: Sequence[DeadLetter], state: State, actor: Actor, at: datetime
) -> None:
    unit.conn.execute(
        "UPDATE dead_letter SET state = %s, settled_at = %s, settled_by = %s"
        " WHERE tenant = %s AND id = ANY(%s)",
        [state, at, actor.name, unit.tenant.number, [letter.id for letter in letters]],
    )


def record(
    unit: Unit,
    kind: FactKind,
    actor: Actor,
    at: datetime,
    settled: Sequence[tuple[DeadLetter, dict[str, Any]]],
) -> None:
    """One fact a letter: what it was, and what became of it."""
    feed.record(unit, [_fact(kind, actor, at, letter, after) for letter, after in settled])


def _fact(
    kind: FactKind, actor: Actor, at: datetime, letter: DeadLetter, after: dict[str, Any]
) -> Fact:
    before = {"stage": letter.stage, "plugin": letter.plugin, "reason": letter.reason}
    return Fact(
        kind=kind,
        at=at,
        by=actor.name,
        cause=actor.cause,
        before={**before, "cause": letter.cause},
        after={"dead_letter": str(letter.id), "key": letter.key, **after},
        traceparent=actor.traceparent,
    )


def _claim(unit: Unit, where: str, bound: dict[str, Any], limit: int) -> list[DeadLetter]:
    rows = unit.conn.execute(
        f"SELECT {COLUMNS} FROM dead_letter WHERE tenant = %(tenant)s AND state = 'parked'"
        f" AND {where} ORDER BY at, id LIMIT %(limit)s FOR UPDATE",
        {**bound, "limit": limit},
    ).fetchall()
    return [DeadLetter(*row) for row in rows]


def _bound(unit: Unit, wanted: Filter) -> dict[str, Any]:
    return {"tenant": unit.tenant.number, **msgspec.structs.asdict(wanted)}
