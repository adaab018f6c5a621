"""From bytes in the log to observations that may be applied; a bad record becomes a dead letter."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from lily.assets.change import Message
from lily.assets.claims import when
from lily.assets.hooks import HookFailure, NamedHook, run_hooks
from lily.assets.names import canonical
from lily.assets.rules import problems
from lily.events import envelope as envelopes
from lily.events.envelope import Envelope
from lily.events.lineage import (
    EDGE_OBSERVATIONS,
    EdgeGone,
    EdgeObservation,
    EdgeSeen,
    LineageStated,
)
from lily.events.observations import AssetSeen, Nothing, Observation, RunSeen
from lily.events.signals import SignalSeen
from lily.lineage.edges import EdgeMessage
from lily.lineage.labels import CONTAINS
from lily.lineage.openlineage import problems as run_problems
from lily.lineage.rules import problems as edge_problems
from lily.store.ingest import DeadLetter, Incoming
from lily.store.runs import RunMessage
from lily.store.signals import Heard
from lily.types import Lane

FUTURE = timedelta(minutes=5)

Row = tuple[int, int, datetime, str, str]  # offset, tenant, at, key, value
Hooks = Mapping[int, Sequence[NamedHook]]
Result = Incoming | Heard | DeadLetter | None


class Decoded(msgspec.Struct):
    incoming: list[Incoming] = []
    dead: list[DeadLetter] = []
    heard: list[Heard] = []


def decode(cell: str, lane: Lane, rows: Sequence[Row], hooks: Hooks, into: Decoded) -> None:
    """Decode, run the tenant's hooks, check the rules; in the order of the log."""
    for row in rows:
        result = _decode(cell, lane, row, hooks)
        if isinstance(result, DeadLetter):
            into.dead.append(result)
        elif isinstance(result, Heard):
            into.heard.append(result)
        elif result is not None:
            into.incoming.append(result)


def _decode(cell: str, lane: Lane, row: Row, hooks: Hooks) -> Result:
    offset, tenant, at, key, value = row
    try:
        envelope = envelopes.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as cause:
        place = f"{cell}/{lane}/{offset}"
        return DeadLetter(tenant, place, lane, offset, "decode", str(cause), value, key)
    if isinstance(envelope.observation, Nothing):
        return None

    def dead(stage: str, reason: str, plugin: str = "") -> DeadLetter:
        return DeadLetter(
            tenant, str(envelope.id), lane, offset, stage, reason, value, key, envelope.source,
            plugin,
        )  # fmt: skip

    if envelope.tenant != tenant:
        return dead("validate", "the envelope names another tenant than the log")
    if envelope.observed_at is not None and envelope.observed_at > at + FUTURE:
        return dead("validate", "observed_at: is more than 5 minutes in the future")
    if isinstance(envelope.observation, SignalSeen):
        return Heard(
            tenant, offset, envelope.observation, envelope.source, envelope.by, str(envelope.id),
            when(envelope.observed_at or at, offset), value, envelope.traceparent,
        )  # fmt: skip
    seen = envelope.observation
    if isinstance(seen, EDGE_OBSERVATIONS):
        if isinstance(seen, LineageStated) or seen.relationship_type != CONTAINS:
            return _edge(envelope, seen, row, lane, dead)
        envelope.observation = _placed(seen)
    if isinstance(seen, RunSeen):
        return _run(envelope, seen, row, lane, hooks.get(tenant, ()), dead)
    return _hooked(envelope, row, lane, hooks.get(tenant, ()), dead)


def _edge(
    envelope: Envelope, seen: EdgeObservation, row: Row, lane: Lane, dead: Any
) -> Incoming | DeadLetter:
    """Hooks see assets only."""
    offset, tenant, at, _, value = row
    if wrong := edge_problems(seen):
        invalid: DeadLetter = dead("validate", f"{wrong[0].field}: {wrong[0].message}")
        return invalid
    message = EdgeMessage(
        seen, envelope.source, envelope.by, str(envelope.id),
        when(envelope.observed_at or at, offset), envelope.traceparent,
    )  # fmt: skip
    return Incoming(tenant, lane, offset, message, value)


def _run(
    envelope: Envelope, seen: RunSeen, row: Row, lane: Lane, hooks: Sequence[NamedHook], dead: Any
) -> Incoming | DeadLetter:
    """Hooks see the assets that an event of a run speaks of, now rather than when they count."""
    offset, tenant, at, _, value = row
    kept: list[Observation] = []
    for each in seen.assets:
        outcome = run_hooks(hooks, each) if hooks else each
        if isinstance(outcome, HookFailure):
            refused: DeadLetter = dead("hook", outcome.reason, outcome.plugin)
            return refused
        if outcome is not None:
            outcome.qualified_name = canonical(outcome.qualified_name)
            kept.append(outcome)
    seen.assets = kept
    if wrong := [*run_problems(seen), *(e for each in kept for e in problems(each))]:
        invalid: DeadLetter = dead("validate", f"{wrong[0].field}: {wrong[0].message}")
        return invalid
    message = RunMessage(
        seen, envelope.source, envelope.by, str(envelope.id),
        when(envelope.observed_at or at, offset), envelope.traceparent,
    )  # fmt: skip
    return Incoming(tenant, lane, offset, message, value)


def _placed(seen: EdgeSeen | EdgeGone) -> AssetSeen:
    """`contains` is no lineage: it says where an asset lies."""
    parent = None if isinstance(seen, EdgeGone) else seen.from_name
    return AssetSeen(qualified_name=seen.to_name, parent_id=parent, partial=True)


def _hooked(
    envelope: Envelope, row: Row, lane: Lane, hooks: Sequence[NamedHook], dead: Any
) -> Incoming | DeadLetter | None:
    offset, tenant, at, _, _ = row
    seen: Observation | None = envelope.observation  # type: ignore[assignment]
    if hooks and seen is not None:
        outcome = run_hooks(hooks, seen)
        if isinstance(outcome, HookFailure):
            refused: DeadLetter = dead("hook", outcome.reason, outcome.plugin)
            return refused
        seen = outcome
    if seen is None:
        return None  # a hook dropped it on purpose
    if wrong := problems(seen):
        invalid: DeadLetter = dead("validate", f"{wrong[0].field}: {wrong[0].message}")
        return invalid
    seen.qualified_name = canonical(seen.qualified_name)
    observed = envelope.observed_at or at
    message = Message(
        seen, envelope.source, envelope.by, str(envelope.id), when(observed, offset),
        envelope.traceparent,
    )  # fmt: skip
    return Incoming(tenant, lane, offset, message)
