"""Runs of jobs: events fold into a row, and what a run says is released when it completes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from lily.assets.change import Message
from lily.assets.claims import When
from lily.assets.names import guid_of
from lily.clock import from_micros
from lily.errors import NotFound
from lily.events.lineage import LineageStated
from lily.events.observations import RunSeen
from lily.lineage.edges import EdgeMessage
from lily.lineage.names import job as job_name
from lily.lineage.openlineage_runs import Held, Part, Told, hold, lineage, tell
from lily.store import assets
from lily.store.database import SIGHT, Unit

LOCK = (
    "SELECT tenant, id, said FROM run WHERE tenant = ANY(%s) AND id = ANY(%s)"
    " ORDER BY tenant, id FOR UPDATE"
)
SAVE = """
INSERT INTO run (tenant, id, job_namespace, job_name, state, started_at, ended_at, updated_at,
                 parent, facets, inputs, outputs, error, said)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant, id) DO UPDATE SET
  job_namespace = excluded.job_namespace, job_name = excluded.job_name, state = excluded.state,
  started_at = excluded.started_at, ended_at = excluded.ended_at,
  updated_at = excluded.updated_at, parent = excluded.parent, facets = excluded.facets,
  inputs = excluded.inputs, outputs = excluded.outputs, error = excluded.error,
  said = excluded.said
"""
COLUMNS = (
    "id, job_namespace, job_name, state, started_at, ended_at, updated_at, parent, facets, inputs,"
    " outputs, error"
)
GET = f"SELECT {COLUMNS} FROM run WHERE tenant = %s AND id = %s"
PAGE = f"""
SELECT {COLUMNS} FROM run
 WHERE tenant = %(tenant)s
   AND (%(namespace)s::text IS NULL OR job_namespace = %(namespace)s)
   AND (%(name)s::text IS NULL OR job_name = %(name)s)
   AND (%(state)s::text IS NULL OR state = %(state)s)
   AND (%(at)s::timestamptz IS NULL OR (updated_at, id) < (%(at)s, %(id)s::uuid))
 ORDER BY updated_at DESC, id DESC LIMIT %(limit)s
"""


class RunMessage(msgspec.Struct, frozen=True):
    """An event of a run on its way in, with who sends it and where it stands in the log."""

    seen: RunSeen
    source: str
    by: str
    cause: str
    when: When
    traceparent: str = ""


class Run(msgspec.Struct, frozen=True):
    """A run as everybody sees it; `updated_at` is the time of its latest event."""

    id: UUID
    job_namespace: str
    job_name: str
    state: str
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime
    parent: dict[str, Any] | None
    facets: dict[str, Any]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    error: str | None


Key = tuple[int, UUID]
Released = tuple[int, Message | EdgeMessage]  # tenant, what counts now


def take(conn: psycopg.Connection, events: Sequence[tuple[int, RunMessage]]) -> list[Released]:
    """Fold events into their runs; returns what those say that have completed."""
    known = _load(conn, {(tenant, each.seen.run) for tenant, each in events})
    last: dict[Key, tuple[int, RunMessage]] = {}
    released: list[Released] = []
    for tenant, message in events:
        told = known[tenant, message.seen.run]
        tell(told, message.seen, message.when)
        held = [
            Held(message.when, message.source, message.by, message.cause, each)
            for each in message.seen.assets
        ]
        released += [(tenant, _message(each, message)) for each in hold(told, held)]
        last[tenant, message.seen.run] = (tenant, message)
    for key, (tenant, message) in last.items():
        if (stated := _stated(known[key], message)) is not None:
            released.append((tenant, stated))
    _save(conn, known, last)
    return released


def get(unit: Unit, id: UUID) -> Run:
    row = unit.conn.execute(GET, [unit.tenant.number, id]).fetchone()
    found = visible(unit, [Run(*row)]) if row is not None else []
    if not found:
        raise NotFound("run", id)
    return found[0]


def visible(unit: Unit, found: Sequence[Run]) -> list[Run]:
    """What the caller may see: runs of jobs, and of those the datasets, that are not hidden."""
    if not SIGHT.get():
        return list(found)
    named = {job_name(run.job_namespace, run.job_name) for run in found}
    named |= {each["qualified_name"] for run in found for each in (*run.inputs, *run.outputs)}
    guids = {guid_of(unit.tenant.id, name): name for name in named}
    seen = assets.names(unit.conn, [unit.tenant.number], list(guids))
    names = {guids[guid] for guid in seen}
    return [
        msgspec.structs.replace(
            run,
            inputs=[each for each in run.inputs if each["qualified_name"] in names],
            outputs=[each for each in run.outputs if each["qualified_name"] in names],
        )
        for run in found
        if job_name(run.job_namespace, run.job_name) in names
    ]


def page(
    unit: Unit,
    namespace: str | None,
    name: str | None,
    state: str | None,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Run]:
    """The latest first."""
    at, id = after or (None, None)
    rows = unit.conn.execute(
        PAGE,
        {
            "tenant": unit.tenant.number, "namespace": namespace, "name": name, "state": state,
            "at": at, "id": id, "limit": limit,
        },
    )  # fmt: skip
    return [Run(*row) for row in rows]


def _load(conn: psycopg.Connection, keys: Iterable[Key]) -> dict[Key, Told]:
    wanted = sorted(keys)
    known = {key: Told() for key in wanted}
    rows = conn.execute(LOCK, [sorted({t for t, _ in wanted}), [id for _, id in wanted]])
    for tenant, id, said in rows:
        if (tenant, id) in known:
            known[tenant, id] = msgspec.convert(said, Told)
    return known


def _save(
    conn: psycopg.Connection,
    known: Mapping[Key, Told],
    last: Mapping[Key, tuple[int, RunMessage]],
) -> None:
    with conn.cursor() as cur:
        cur.executemany(SAVE, [_row(known[key], *last[key]) for key in sorted(last)])


def _row(told: Told, tenant: int, message: RunMessage) -> tuple[Any, ...]:
    seen = message.seen
    latest = max(told.events.values())
    parent = told.parent[1] if told.parent else None
    return (
        tenant, seen.run, seen.job_namespace, seen.job_name, told.state, told.started_at,
        told.ended_at, from_micros(latest[0]), Jsonb(parent) if parent else None,
        Jsonb({name: facet for name, (_, facet) in told.facets.items()}),
        Jsonb(_shown(told.inputs)), Jsonb(_shown(told.outputs)),
        told.error[1] if told.error else None, Jsonb(msgspec.to_builtins(told)),
    )  # fmt: skip


def _shown(parts: Mapping[str, Part]) -> list[dict[str, Any]]:
    return [
        {"qualified_name": name, **({"facets": part.facets} if part.facets else {})}
        for name, part in sorted(parts.items())
    ]


def _message(held: Held, event: RunMessage) -> Message:
    return Message(held.seen, held.source, held.by, held.cause, held.at, event.traceparent)


def _stated(told: Told, message: RunMessage) -> EdgeMessage | None:
    """What the job says of lineage, as of its completion; a late event of the run restates it."""
    seen, completed = message.seen, told.completed
    edges = lineage(told, seen.job_namespace, seen.job_name)
    if completed is None or edges is None:
        return None
    when = (completed[0], max(completed[1], message.when[1]))
    stated = LineageStated(job=f"{seen.job_namespace}/{seen.job_name}", edges=edges)
    source = job_name(seen.job_namespace, seen.job_name)
    return EdgeMessage(stated, source, message.by, message.cause, when, message.traceparent)
