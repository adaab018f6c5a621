"""Documents that came in one body but are too many to wait for: spooled, and loaded by a job."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec
from starlette.responses import Response

from lily import telemetry
from lily.api.limits import BULK_PATH
from lily.store import jobs
from lily.store.spool import Cutter, Folder
from lily.types import Caller
from lily.wiring import Services


def documents_job(
    services: Services, caller: Caller, documents: Sequence[dict[str, Any]]
) -> Response:
    """202, with the job's id beside what the documents promise."""
    core, id = services.core, uuid4()
    folder = Folder(core.settings.home / "spool", id)
    folder.create()
    growing = folder.growing()
    cutter = Cutter(growing, lined=False)
    body = b"\n".join(map(msgspec.json.encode, documents)) + b"\n"
    cutter.write(body)
    lines = cutter.close()
    folder.finish(growing)
    with core.database.unit(caller.tenant) as unit:
        trace = telemetry.traceparent.get()
        jobs.begin(unit, id, "ndjson", "", caller.name, trace, core.clock.now())
        jobs.queue(unit, id, len(body), lines)
    where = f"{BULK_PATH}/status/{id}"
    answer = {
        "status": "success",
        "message": "Bulk metadata accepted; a job loads it.",
        "job_id": id,
        "status_url": where,
    }
    return Response(msgspec.json.encode(answer), 202, {"Location": where}, "application/json")
