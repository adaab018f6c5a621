"""Files of assets: send one, follow its job, see what was refused, cancel, resume."""

import csv
import io
import re
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID, uuid4, uuid5

import msgspec
import openpyxl
from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from lily import telemetry
from lily.api.deps import Limit, Segment, ServicesDep, guarded, requires, services_of, uuid_of
from lily.api.fields import Page
from lily.api.limits import BULK_PATH
from lily.api.rest.bulk_operations import UPLOAD
from lily.api.rest.pages import mark, unmark
from lily.api.upload import Upload
from lily.errors import LilyError, NotFound
from lily.formats import columns as formats
from lily.formats.sheets import SHEET
from lily.store import jobs
from lily.store.jobs import Counts, Job, Refused, State
from lily.store.spool import Folder
from lily.types import Caller
from lily.wiring import Services

router = APIRouter(prefix=BULK_PATH, tags=["bulk"])

Ingester = Annotated[Caller, requires("assets:ingest")]
SHOWN_ERRORS = 10
END = 2**62
XLSX = next(media for media, format in formats.TYPES.items() if format == "xlsx")
_FILE_NAME = re.compile(r'filename="?([^";]+)"?')


class ShownCounts(BaseModel):
    read: int
    accepted: int
    rejected: int
    created: int
    updated: int
    unchanged: int


class ShownError(BaseModel):
    line: int
    reason: str


class ShownJob(BaseModel):
    """`rate` is lines a second; `errors` are the first ones, `errors_url` leads to all of them."""

    job_id: UUID
    state: State
    stage: str
    format: str
    name: str
    by: str
    bytes: int
    lines: int | None
    counts: ShownCounts
    rate: float
    eta_seconds: float | None
    reason: str
    errors: list[ShownError]
    errors_url: str
    accepted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@guarded("assets:ingest", UPLOAD)
async def upload(request: HttpRequest, caller: Caller) -> Response:
    """Take a file of assets of any size; a job loads it."""
    services = services_of(request)
    name = _name(request)
    headers = request.headers
    kind = formats.kind_of(
        headers.get("content-type", ""), name, headers.get("content-encoding", "")
    )
    id = _job_id(caller, headers.get("idempotency-key"))
    known = await run_in_threadpool(_known, services, caller, id)
    if known is not None:
        return _accepted(known, replayed=True)
    await run_in_threadpool(_begin, services, caller, id, kind.format, name)
    settings = services.core.settings
    taken = Upload(settings.home / "spool", id, kind, settings.bulk_limit)
    try:
        await taken.take(request.stream())
    except LilyError as wrong:
        await run_in_threadpool(_refuse, services, caller, id, taken.bytes, str(wrong))
        raise
    job = await run_in_threadpool(_queue, services, caller, id, taken.bytes, taken.lines)
    return _accepted(job)


@router.get("", summary="List jobs, newest first")
def listed(
    caller: Ingester,
    services: ServicesDep,
    limit: Limit = 100,
    after: Annotated[str | None, Query(description="`next` of the page before.")] = None,
    state: State | None = None,
) -> Page[ShownJob]:
    key = unmark(after, tuple[datetime, UUID])
    with services.core.database.unit(caller.tenant) as unit:
        found = jobs.page(unit, key, limit + 1, state)
        more, found = len(found) > limit, found[:limit]
        items = [_shown(services, job, jobs.counts(unit, job.id), []) for job in found]
    following = mark(found[-1].accepted_at, found[-1].id) if more else None
    return Page(items=items, next=following)


@router.get("/status/{job_id}", summary="How far a job has come")
def status(job_id: Segment, caller: Ingester, services: ServicesDep) -> ShownJob:
    return _read(services, caller, uuid_of("job", job_id))


@router.get("/status/{job_id}/errors", summary="All refused lines of a job")
def errors(
    job_id: Segment,
    caller: Ingester,
    services: ServicesDep,
    limit: Limit = 100,
    after: Annotated[str | None, Query(description="`next` of the page before.")] = None,
) -> Page[ShownError]:
    line = unmark(after, tuple[int])
    with services.core.database.unit(caller.tenant) as unit:
        job = jobs.get(unit, uuid_of("job", job_id))
        found = jobs.errors(unit, job.id, min(line[0], END) if line else 0, limit + 1)
    more, found = len(found) > limit, found[:limit]
    items = [ShownError(line=each.line, reason=each.reason) for each in found]
    return Page(items=items, next=mark(found[-1].line) if more else None)


@router.post("/{job_id}/cancel", summary="Cancel a job; what is stored stays")
def cancel(job_id: Segment, caller: Ingester, services: ServicesDep) -> ShownJob:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        jobs.cancel(unit, uuid_of("job", job_id), caller.name, core.clock.now())
    return _read(services, caller, uuid_of("job", job_id))


@router.post("/{job_id}/resume", summary="Go on with a failed or cancelled job")
def resume(job_id: Segment, caller: Ingester, services: ServicesDep) -> ShownJob:
    id = uuid_of("job", job_id)
    with services.core.database.unit(caller.tenant) as unit:
        jobs.get(unit, id)
        if not Folder(services.core.settings.home / "spool", id).path.exists():
            jobs.refuse_resume(unit, id)
        jobs.resume(unit, id)
    return _read(services, caller, id)


@router.get(
    "/template.csv",
    summary="An example of a table of assets, as CSV",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "The file."}},
)
def csv_template(caller: Ingester) -> Response:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(formats.TEMPLATE)
    writer.writerows(formats.EXAMPLES)
    return _attached(out.getvalue().encode(), "csv", "text/csv")


@router.get(
    "/template.xlsx",
    summary="An example of a table of assets, as XLSX",
    response_class=Response,
    responses={200: {"content": {XLSX: {}}, "description": "The file."}},
)
def xlsx_template(caller: Ingester) -> Response:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = SHEET
    for row in (formats.TEMPLATE, *formats.EXAMPLES):
        sheet.append(list(row))
    out = io.BytesIO()
    book.save(out)
    return _attached(out.getvalue(), "xlsx", XLSX)


def _attached(body: bytes, ending: str, media: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="assets.{ending}"'}
    return Response(body, headers=headers, media_type=media)


ROUTE = Route(BULK_PATH, upload, methods=["POST"])


def _read(services: Services, caller: Caller, id: UUID) -> ShownJob:
    with services.core.database.unit(caller.tenant) as unit:
        job = jobs.get(unit, id)
        found = jobs.errors(unit, id, 0, SHOWN_ERRORS)
        return _shown(services, job, jobs.counts(unit, id), found)


def _shown(services: Services, job: Job, counts: Counts, found: list[Refused]) -> ShownJob:
    end = job.finished_at or services.core.clock.now()
    seconds = (end - job.started_at).total_seconds() if job.started_at else 0.0
    rate = counts.read / seconds if seconds > 0 else 0.0
    eta = None
    if job.state == "running" and job.lines is not None and rate > 0:
        eta = round(max(0, job.lines - counts.read) / rate, 1)
    return ShownJob(
        job_id=job.id,
        counts=ShownCounts(read=counts.read, **msgspec.structs.asdict(counts)),
        rate=round(rate, 1),
        eta_seconds=eta,
        errors=[ShownError(line=each.line, reason=each.reason) for each in found],
        errors_url=f"{BULK_PATH}/status/{job.id}/errors",
        **{name: getattr(job, name) for name in _SAME},
    )


_SAME = (
    "state", "stage", "format", "name", "by", "bytes", "lines", "reason", "accepted_at",
    "started_at", "finished_at",
)  # fmt: skip


def accepted_job(id: UUID, state: str) -> Response:
    """202, and where to look."""
    where = f"{BULK_PATH}/status/{id}"
    body: dict[str, Any] = {"job_id": id, "state": state, "status_url": where}
    headers = {"Location": where}
    return Response(msgspec.json.encode(body), 202, headers, "application/json")


def _accepted(job: Job, replayed: bool = False) -> Response:
    response = accepted_job(job.id, job.state)
    if replayed:
        response.headers["Idempotent-Replayed"] = "true"
        response.headers["Connection"] = "close"  # the body is not read
    return response


def _name(request: HttpRequest) -> str:
    given = request.query_params.get("name", "")
    found = _FILE_NAME.search(request.headers.get("content-disposition", ""))
    name = given or (found[1] if found else "")
    return name.replace("\0", "").rpartition("/")[2][:255]


def _job_id(caller: Caller, key: str | None) -> UUID:
    """The same key is the same job."""
    return uuid5(caller.tenant.id, f"bulk/{caller.subject}/{key}") if key else uuid4()


def _known(services: Services, caller: Caller, id: UUID) -> Job | None:
    with services.core.database.unit(caller.tenant) as unit:
        try:
            return jobs.get(unit, id)
        except NotFound:
            return None


def _begin(services: Services, caller: Caller, id: UUID, format: str, name: str) -> None:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        now, trace = core.clock.now(), telemetry.traceparent.get()
        jobs.begin(unit, id, format, name, caller.name, trace, now)


def _refuse(services: Services, caller: Caller, id: UUID, size: int, reason: str) -> None:
    core = services.core
    with core.database.unit(caller.tenant) as unit:
        jobs.refuse(unit, id, size, reason, core.clock.now())


def _queue(services: Services, caller: Caller, id: UUID, size: int, lines: int | None) -> Job:
    with services.core.database.unit(caller.tenant) as unit:
        jobs.queue(unit, id, size, lines)
        return jobs.get(unit, id)
