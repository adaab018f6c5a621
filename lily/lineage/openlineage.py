"""Events of OpenLineage as observations: assets, what jobs read and write, and runs.

A RunEvent becomes one RunSeen, whose assets and lineage count when the run completes. A JobEvent
and a DatasetEvent count at once. The job itself is an asset from its first event on.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from lily.errors import FieldError, Invalid
from lily.events.limits import NAME_LIMIT, mapping_problems, text_problems
from lily.events.lineage import LineageStated
from lily.events.observations import AssetGone, AssetSeen, RunDataset, RunSeen
from lily.lineage import rules
from lily.lineage.names import job as job_name
from lily.lineage.openlineage_columns import edges
from lily.lineage.openlineage_facets import (
    bare,
    integration,
    is_dropped,
    name_of,
    of_dataset,
    of_job,
    of_run,
)
from lily.lineage.openlineage_model import (
    Dataset,
    DatasetEvent,
    Event,
    Facets,
    JobEvent,
    RunEvent,
    converted,
    read,
)
from lily.lineage.openlineage_runs import tables

FUTURE = timedelta(minutes=5)
DATASETS_LIMIT = 2_000

Observed = AssetSeen | AssetGone | LineageStated | RunSeen


class Statement(msgspec.Struct, frozen=True):
    """An observation, who claims it, and when it was true."""

    seen: Observed
    source: str
    at: datetime


class ParentJob(msgspec.Struct):
    namespace: str
    name: str


class ParentRun(msgspec.Struct, rename="camel"):
    run_id: UUID


class Parent(msgspec.Struct):
    """Which job started this one."""

    job: ParentJob
    run: ParentRun | None = None


def statements(given: object, now: datetime) -> list[Statement]:
    """What an event states, or Invalid with the field that is wrong."""
    event = read(given)
    if event.event_time > now + FUTURE:
        raise Invalid("is more than 5 minutes in the future; check the clock", "eventTime")
    return _statements(event)


def _statements(event: Event) -> list[Statement]:
    at = event.event_time
    if isinstance(event, DatasetEvent):
        source = integration(None, event.producer)
        return [Statement(s, source, at) for s in of_dataset(event.dataset, "dataset")]
    source = integration(event.job, event.producer)
    inputs, outputs = event.inputs or [], event.outputs or []
    for field, each in (("inputs", inputs), ("outputs", outputs)):
        if len(each) > DATASETS_LIMIT:
            raise Invalid(f"has more than {DATASETS_LIMIT} datasets", field)
    assets = _assets(inputs, "inputs") + _assets(outputs, "outputs")
    if isinstance(event, JobEvent):
        job = Statement(of_job(event.job, None, source), source, at)
        claimed = job_name(event.job.namespace, event.job.name)
        stated = LineageStated(
            job=f"{event.job.namespace}/{event.job.name}", edges=_edges(inputs, outputs, claimed)
        )
        return [job, *(Statement(a, source, at) for a in assets), Statement(stated, claimed, at)]
    return _of_run(event, source, inputs, outputs, assets)


def _of_run(
    event: RunEvent,
    source: str,
    inputs: Sequence[Dataset],
    outputs: Sequence[Dataset],
    assets: list[AssetSeen | AssetGone],
) -> list[Statement]:
    process = job_name(event.job.namespace, event.job.name)
    facets = event.run.facets or {}
    parent = _parent(facets)
    above = job_name(parent.job.namespace, parent.job.name) if parent else None
    seen = RunSeen(
        run=event.run.run_id,
        job_namespace=event.job.namespace,
        job_name=event.job.name,
        event=event.event_type or "OTHER",
        producer=event.producer,
        parent=msgspec.to_builtins(parent) if parent else None,
        facets={name: bare(facet) for name, facet in facets.items() if facet is not None},
        error=_error(facets),
        inputs=[RunDataset(name=name_of(each), facets=of_run(each)) for each in inputs],
        outputs=[
            RunDataset(
                name=name_of(each),
                facets=of_run(each),
                edges=edges(each, f"outputs[{index}]", process) if _tells_columns(each) else None,
            )
            for index, each in enumerate(outputs)
            if not is_dropped(each)
        ],
        assets=assets,
    )
    job = Statement(of_job(event.job, above, source), source, event.event_time)
    return [job, Statement(seen, source, event.event_time)]


def _assets(datasets: Sequence[Dataset], field: str) -> list[AssetSeen | AssetGone]:
    return [s for i, each in enumerate(datasets) for s in of_dataset(each, f"{field}[{i}]")]


def _edges(inputs: Sequence[Dataset], outputs: Sequence[Dataset], process: str) -> list[Any]:
    written = [each for each in outputs if not is_dropped(each)]
    columns = [
        edge
        for index, each in enumerate(outputs)
        if not is_dropped(each)
        for edge in edges(each, f"outputs[{index}]", process)
    ]
    names = [name_of(each) for each in written]
    return [*tables([name_of(each) for each in inputs], names, process), *columns]


def _tells_columns(dataset: Dataset) -> bool:
    return (dataset.facets or {}).get("columnLineage") is not None


def _parent(facets: Facets) -> Parent | None:
    given = facets.get("parent", facets.get("parentRun"))
    return converted(given, Parent, "run.facets.parent") if given is not None else None


def _error(facets: Facets) -> str | None:
    given = facets.get("errorMessage")
    message = given.get("message") if isinstance(given, dict) else None
    return str(message) if message is not None else None


def problems(seen: RunSeen) -> list[FieldError]:
    """What is wrong with an event of a run, its assets aside, which have rules of their own."""
    found = text_problems(seen.qualified_name, "job.name", NAME_LIMIT)
    found += mapping_problems(seen.facets, "run.facets")
    for dataset in (*seen.inputs, *seen.outputs):
        found += text_problems(dataset.name, "name", NAME_LIMIT)
        found += mapping_problems(dataset.facets, "facets")
        for edge in dataset.edges or ():
            found += rules.of_edge(edge)
    return found[:100]
