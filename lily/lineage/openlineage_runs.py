"""A run as its events tell it, in any order: what they say together, and when it counts.

Events of a run add up. Until the run completes, what it says of assets is held back; a run that
failed says nothing. What is kept are registers won by the latest (time of the event, log offset).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from lily.clock import from_micros
from lily.events.lineage import Edge
from lily.events.observations import AssetGone, AssetSeen, RunDataset, RunSeen
from lily.lineage.edges import When
from lily.lineage.names import job as job_name

State = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"]
ENDS = ("COMPLETE", "FAIL", "ABORT")
EDGES_LIMIT = 10_000  # between the inputs and outputs of one job


class Part(msgspec.Struct, array_like=True):
    """What one event said of a dataset."""

    at: When
    facets: dict[str, Any] = {}
    edges_at: When | None = None
    edges: list[Edge] = []


class Held(msgspec.Struct, array_like=True):
    """A statement of an asset that waits for the run to complete, with who makes it."""

    at: When
    source: str
    by: str
    cause: str
    seen: AssetSeen | AssetGone


class Told(msgspec.Struct, omit_defaults=True):
    """All that the events of a run said so far."""

    events: dict[str, When] = {}
    first: When | None = None
    facets: dict[str, tuple[When, Any]] = {}
    parent: tuple[When, dict[str, Any]] | None = None
    error: tuple[When, str] | None = None
    inputs: dict[str, Part] = {}
    outputs: dict[str, Part] = {}
    held: dict[str, Held] = {}

    @property
    def completed(self) -> When | None:
        return self.events.get("COMPLETE")

    @property
    def state(self) -> str:
        ends = [(at, kind) for kind, at in self.events.items() if kind in ENDS]
        if ends:
            return max(ends)[1]
        for kind in ("RUNNING", "START"):
            if kind in self.events:
                return kind
        return "OTHER"

    @property
    def started_at(self) -> datetime | None:
        at = self.events.get("START") or self.first
        return from_micros(at[0]) if at else None

    @property
    def ended_at(self) -> datetime | None:
        ends = [at for kind, at in self.events.items() if kind in ENDS]
        return from_micros(max(ends)[0]) if ends else None


def tell(told: Told, seen: RunSeen, at: When) -> None:
    """Add what an event says; twice is once, and the order does not matter."""
    told.events[seen.event] = max(at, told.events.get(seen.event, at))
    told.first = min(at, told.first or at)
    for name, facet in seen.facets.items():
        if name not in told.facets or told.facets[name][0] < at:
            told.facets[name] = (at, facet)
    if seen.parent is not None and (told.parent is None or told.parent[0] < at):
        told.parent = (at, seen.parent)
    if seen.error is not None and (told.error is None or told.error[0] < at):
        told.error = (at, seen.error)
    for datasets, parts in ((seen.inputs, told.inputs), (seen.outputs, told.outputs)):
        for each in datasets:
            _add(parts, each, at)


def hold(told: Told, assets: Iterable[Held]) -> list[Held]:
    """Keep statements until the run completes; those that count now come back."""
    for each in assets:
        key = f"{each.source}\n{each.seen.qualified_name}"
        known = told.held.get(key)
        told.held[key] = each if known is None else _newer(known, each)
    if told.completed is None:
        return []
    released, told.held = list(told.held.values()), {}
    return released


def lineage(told: Told, namespace: str, name: str) -> list[Edge] | None:
    """What the job reads and writes; None where the run named no datasets at all."""
    if not told.inputs and not told.outputs:
        return None
    columns = [edge for part in told.outputs.values() for edge in part.edges]
    return [*tables(told.inputs, told.outputs, job_name(namespace, name)), *columns]


def tables(inputs: Iterable[str], outputs: Iterable[str], process: str) -> list[Edge]:
    """Every output comes from every input; a dataset does not come from itself."""
    outputs = list(outputs)
    found = [
        Edge(from_name=one, to_name=other, process=process)
        for one in dict.fromkeys(inputs)
        for other in dict.fromkeys(outputs)
        if one != other
    ]
    return found[:EDGES_LIMIT]


def _add(parts: dict[str, Part], said: RunDataset, at: When) -> None:
    part = parts.setdefault(said.name, Part(at))
    if at >= part.at:
        part.at, part.facets = at, {**part.facets, **said.facets}
    else:
        part.facets = {**said.facets, **part.facets}
    if said.edges is not None and (part.edges_at is None or part.edges_at < at):
        part.edges_at, part.edges = at, said.edges


def _newer(one: Held, other: Held) -> Held:
    """Two statements of the same source as one: what the later one does not say stays."""
    older, newer = (one, other) if one.at <= other.at else (other, one)
    if isinstance(older.seen, AssetGone) or isinstance(newer.seen, AssetGone):
        return newer
    said: dict[str, Any] = {}
    for each in (older.seen, newer.seen):
        for name, value in msgspec.structs.asdict(each).items():
            if value is UNSET or value is None:
                continue
            both = name == "metadata" and isinstance(said.get(name), Mapping)
            said[name] = {**said[name], **value} if both else value
    return msgspec.structs.replace(newer, seen=AssetSeen(**said))
