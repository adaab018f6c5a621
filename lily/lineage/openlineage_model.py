"""The events of OpenLineage 2-0-2 as they are sent; every mistake is named with its field."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from lily.errors import Invalid

Facets = dict[str, Any]
T = TypeVar("T")

_PLACE = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)
_KEY = re.compile(r"^(.*) - at `key` in `\$\.?(.*)`$", re.DOTALL)


class Dataset(msgspec.Struct, kw_only=True, rename="camel"):
    namespace: str
    name: str
    facets: Facets | None = None
    input_facets: Facets | None = None
    output_facets: Facets | None = None


class Job(msgspec.Struct, kw_only=True, rename="camel"):
    namespace: str
    name: str
    facets: Facets | None = None


class Run(msgspec.Struct, kw_only=True, rename="camel"):
    run_id: UUID
    facets: Facets | None = None


class RunEvent(msgspec.Struct, kw_only=True, rename="camel"):
    event_time: datetime
    run: Run
    job: Job
    event_type: str | None = None
    inputs: list[Dataset] | None = None
    outputs: list[Dataset] | None = None
    producer: str = ""


class JobEvent(msgspec.Struct, kw_only=True, rename="camel"):
    event_time: datetime
    job: Job
    inputs: list[Dataset] | None = None
    outputs: list[Dataset] | None = None
    producer: str = ""


class DatasetEvent(msgspec.Struct, kw_only=True, rename="camel"):
    event_time: datetime
    dataset: Dataset
    producer: str = ""


Event = RunEvent | JobEvent | DatasetEvent
KINDS: Mapping[str, type[RunEvent] | type[JobEvent] | type[DatasetEvent]] = {
    "run": RunEvent,
    "dataset": DatasetEvent,
    "job": JobEvent,
}
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
STATES = ("START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER")


def read(given: object) -> Event:
    """One event, told apart by what it has: a run, a dataset, or only a job."""
    if not isinstance(given, dict):
        raise Invalid("must be an OpenLineage event, a JSON object")
    kind = next((KINDS[key] for key in KINDS if given.get(key) is not None), None)
    if kind is None:
        raise Invalid("is missing; an event has a run, a job or a dataset", "job")
    event = converted(given, kind, "")
    if isinstance(event, RunEvent):
        state = event.event_type = (event.event_type or "OTHER").upper()
        if state not in STATES:
            raise Invalid(f"must be one of {', '.join(STATES)}", "eventType")
    for field, named in _named(event):
        for part in ("namespace", "name"):
            if not getattr(named, part).strip():
                raise Invalid("must not be empty", f"{field}.{part}")
    if event.event_time.tzinfo is None:
        event.event_time = event.event_time.replace(tzinfo=UTC)
    if event.event_time < EARLIEST:
        raise Invalid("is before 1970; check the clock", "eventTime")
    return event


def converted(given: object, kind: type[T], field: str) -> T:
    """As that type, or Invalid with the place below `field`."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as cause:
        message, place = _split(str(cause))
        joint = "." if field and place and not place.startswith("[") else ""
        raise Invalid(message, f"{field}{joint}{place}") from None


def _named(event: Event) -> list[tuple[str, Dataset | Job]]:
    if isinstance(event, DatasetEvent):
        return [("dataset", event.dataset)]
    found: list[tuple[str, Dataset | Job]] = [("job", event.job)]
    for field, each in (("inputs", event.inputs), ("outputs", event.outputs)):
        found += [(f"{field}[{index}]", dataset) for index, dataset in enumerate(each or ())]
    return found


def _split(text: str) -> tuple[str, str]:
    match = _KEY.match(text) or _PLACE.match(text)
    message, place = (match[1], match[2]) if match else (text, "")
    missing = re.match(r"^Object missing required field `(.+)`$", message)
    if missing:
        return "is missing", f"{place}.{missing[1]}" if place else missing[1]
    return message[:1].lower() + message[1:], place
