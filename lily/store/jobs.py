"""Jobs: files of assets on their way in, what became of them, and who works on them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
import psycopg

from lily.errors import Conflict, NotFound
from lily.store.database import Database, Unit

State = Literal["queued", "running", "succeeded", "partial", "failed", "cancelled"]
STALE = "10 seconds"  # a runner that was silent for so long is gone
KEPT = "7 days"  # so long a failed or cancelled job can be resumed
ABANDONED = "1 day"  # an upload that old will not end any more

_FIELDS = (
    "tenant, id, state, stage, format, name, bytes, lines, by, traceparent, core_offset,"
    " fields_offset, reason, accepted_at, started_at, finished_at, runner"
)
READ = f"SELECT {_FIELDS} FROM job WHERE tenant = %s AND id = %s"
PAGE = (
    f"SELECT {_FIELDS} FROM job WHERE tenant = %(tenant)s"
    " AND (%(at)s::timestamptz IS NULL OR (accepted_at, id) < (%(at)s, %(id)s))"
    " AND (%(state)s::text IS NULL OR state = %(state)s)"
    " ORDER BY accepted_at DESC, id DESC LIMIT %(limit)s"
)
OPEN = (
    "INSERT INTO job (tenant, id, format, name, by, traceparent, accepted_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s)"
)
QUEUE = (
    "UPDATE job SET stage = 'waiting', bytes = %s, lines = %s, beat_at = NULL"
    " WHERE tenant = %s AND id = %s AND state = 'queued'"
)
COUNTS = (
    "SELECT coalesce(sum(accepted), 0), coalesce(sum(rejected), 0), coalesce(sum(created), 0),"
    " coalesce(sum(updated), 0), coalesce(sum(unchanged), 0)"
    " FROM job_chunk WHERE tenant = %s AND job = %s"
)
ERRORS = (
    "SELECT line, reason FROM job_error WHERE tenant = %s AND job = %s AND line > %s"
    " ORDER BY line LIMIT %s"
)
CANCEL = (
    "UPDATE job SET state = 'cancelled', finished_at = %s, reason = %s"
    " WHERE tenant = %s AND id = %s AND state IN ('queued', 'running')"
)
RESUME = (
    "UPDATE job SET state = 'queued', stage = 'waiting', finished_at = NULL, reason = '',"
    " runner = NULL, beat_at = NULL"
    " WHERE tenant = %s AND id = %s AND state IN ('failed', 'cancelled') AND stage <> 'receiving'"
)
CLAIM = f"""
UPDATE job SET state = 'running', runner = %s, beat_at = now(),
               started_at = coalesce(started_at, now())
 WHERE (tenant, id) = (
   SELECT tenant, id FROM job
    WHERE (state = 'queued' AND stage <> 'receiving')
       OR (state = 'running' AND beat_at < now() - interval '{STALE}')
    ORDER BY accepted_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {_FIELDS}
"""
WAITING = f"""
SELECT EXISTS (SELECT FROM job WHERE state = 'queued'
   OR (state = 'running' AND beat_at < now() - interval '{STALE}'))
"""
ABANDON = f"""
UPDATE job SET state = 'failed', finished_at = now(),
               reason = 'The upload never ended; send it again.'
 WHERE state = 'queued' AND stage = 'receiving' AND accepted_at < now() - interval '{ABANDONED}'
"""
NEEDED = f"""
SELECT id FROM job WHERE state IN ('queued', 'running')
   OR (state IN ('failed', 'cancelled') AND finished_at > now() - interval '{KEPT}')
"""
BEAT = (
    "UPDATE job SET beat_at = now() WHERE tenant = %s AND id = %s AND runner = %s"
    " AND state = 'running'"
)
STAGE = "UPDATE job SET stage = %s WHERE tenant = %s AND id = %s AND runner = %s"
RESERVE = """
UPDATE job SET lines = %(lines)s, core_offset = r.core, fields_offset = r.fields
  FROM reserve_offsets(%(lines)s) r
 WHERE tenant = %(tenant)s AND id = %(id)s AND runner = %(runner)s
RETURNING core_offset, fields_offset
"""
FINISH = (
    "UPDATE job SET state = %s, stage = %s, reason = %s, finished_at = now()"
    " WHERE tenant = %s AND id = %s AND runner = %s AND state = 'running'"
)
RELEASE = (
    "UPDATE job SET state = 'queued', runner = NULL, beat_at = NULL"
    " WHERE tenant = %s AND id = %s AND runner = %s AND state = 'running'"
)
REFUSE = (
    "UPDATE job SET state = 'failed', reason = %s, bytes = %s, finished_at = %s"
    " WHERE tenant = %s AND id = %s AND state = 'queued'"
)


class Job(msgspec.Struct):
    tenant: int
    id: UUID
    state: State
    stage: str
    format: str
    name: str
    bytes: int
    lines: int | None
    by: str
    traceparent: str
    core_offset: int
    fields_offset: int
    reason: str
    accepted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    runner: UUID | None


class Counts(msgspec.Struct, frozen=True):
    accepted: int = 0
    rejected: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0

    @property
    def read(self) -> int:
        return self.accepted + self.rejected


class Refused(msgspec.Struct, frozen=True):
    line: int
    reason: str


# For the API ----------------------------------------------------------------------------------


def begin(
    unit: Unit, id: UUID, format: str, name: str, by: str, traceparent: str, now: datetime
) -> None:
    """The first byte is here: somebody may already prepare to work on it."""
    unit.conn.execute(OPEN, [unit.tenant.number, id, format, name, by, traceparent, now])


def queue(unit: Unit, id: UUID, size: int, lines: int | None) -> None:
    """The last byte is safe on disk."""
    unit.conn.execute(QUEUE, [size, lines, unit.tenant.number, id])


def refuse(unit: Unit, id: UUID, size: int, reason: str, now: datetime) -> None:
    """The upload was no good; the job says why, and stores nothing."""
    unit.conn.execute(REFUSE, [reason, size, now, unit.tenant.number, id])


def get(unit: Unit, id: UUID) -> Job:
    row = unit.conn.execute(READ, [unit.tenant.number, id]).fetchone()
    if row is None:
        raise NotFound("job", id)
    return Job(*row)


def page(
    unit: Unit, after: tuple[datetime, UUID] | None, limit: int, state: str | None = None
) -> list[Job]:
    """Newest first."""
    at, id = after or (None, None)
    values = {"tenant": unit.tenant.number, "at": at, "id": id, "state": state, "limit": limit}
    return [Job(*row) for row in unit.conn.execute(PAGE, values)]


def counts(unit: Unit, id: UUID) -> Counts:
    row = unit.conn.execute(COUNTS, [unit.tenant.number, id]).fetchone()
    assert row is not None
    return Counts(*map(int, row))


def errors(unit: Unit, id: UUID, after: int, limit: int) -> list[Refused]:
    """Refused lines behind a line, in order."""
    rows = unit.conn.execute(ERRORS, [unit.tenant.number, id, after, limit])
    return [Refused(*row) for row in rows]


def cancel(unit: Unit, id: UUID, by: str, now: datetime) -> Job:
    """What is stored stays; nothing more is begun."""
    done = unit.conn.execute(CANCEL, [now, f"Cancelled by {by}.", unit.tenant.number, id])
    job = get(unit, id)
    if done.rowcount == 0 and job.state != "cancelled":
        raise Conflict(f"The job has {job.state}; there is nothing left to cancel.")
    return job


def resume(unit: Unit, id: UUID) -> Job:
    """Go on behind the last chunk that was stored."""
    done = unit.conn.execute(RESUME, [unit.tenant.number, id])
    job = get(unit, id)
    if done.rowcount == 0:
        if job.stage == "receiving" and job.state in ("failed", "cancelled"):
            raise Conflict("The file never arrived whole; send it again.")
        raise Conflict(f"The job is {job.state}; only a failed or cancelled one can be resumed.")
    return job


def refuse_resume(unit: Unit, id: UUID) -> None:
    """Its file was deleted with its end, or never was here."""
    job = get(unit, id)
    if job.state in ("failed", "cancelled"):
        raise Conflict("The file of the job is gone; send it again.")


# For the runner -------------------------------------------------------------------------------


class Board:
    """The jobs of all tenants, for whoever works on them."""

    def __init__(self, database: Database, runner: UUID) -> None:
        self._database = database
        self._runner = runner

    def waiting(self) -> bool:
        """Whether there is work now, or soon: an upload that has begun counts."""
        for cell, tenants in self._cells().items():
            with self._database.cell(cell, tenants) as conn:
                row = conn.execute(WAITING).fetchone()
                if row and row[0]:
                    return True
        return False

    def claim(self) -> Job | None:
        """The oldest job that nobody works on; also one whose runner is silent."""
        for cell, tenants in self._cells().items():
            with self._database.cell(cell, tenants) as conn:
                conn.execute(ABANDON)
                row = conn.execute(CLAIM, [self._runner]).fetchone()
            if row is not None:
                return Job(*row)
        return None

    def needed(self) -> set[str]:
        """The jobs whose files somebody may still want."""
        found: set[str] = set()
        for cell, tenants in self._cells().items():
            with self._database.cell(cell, tenants) as conn:
                found |= {str(id) for (id,) in conn.execute(NEEDED)}
        return found

    def beat(self, cell: str, job: Job) -> bool:
        """False when the job is no longer ours: cancelled, or taken over."""
        with self._database.cell(cell, [job.tenant]) as conn:
            return conn.execute(BEAT, [job.tenant, job.id, self._runner]).rowcount == 1

    def stage(self, cell: str, job: Job, stage: str) -> None:
        with self._database.cell(cell, [job.tenant]) as conn:
            conn.execute(STAGE, [stage, job.tenant, job.id, self._runner])
        job.stage = stage

    def reserve(self, cell: str, job: Job, lines: int) -> None:
        """Give its lines their places in the lanes, once."""
        if job.core_offset:
            return
        values = {"lines": lines, "tenant": job.tenant, "id": job.id, "runner": self._runner}
        with self._database.cell(cell, [job.tenant]) as conn:
            row = conn.execute(RESERVE, values).fetchone()
        if row is not None:
            job.lines, job.core_offset, job.fields_offset = lines, row[0], row[1]

    def finish(self, cell: str, job: Job, state: State, reason: str = "") -> None:
        stage = "done" if state in ("succeeded", "partial") else job.stage
        values = [state, stage, reason[:2000], job.tenant, job.id, self._runner]
        with self._database.cell(cell, [job.tenant]) as conn:
            conn.execute(FINISH, values)

    def release(self, cell: str, job: Job) -> None:
        """Give it back, for the next runner to go on."""
        with self._database.cell(cell, [job.tenant]) as conn:
            conn.execute(RELEASE, [job.tenant, job.id, self._runner])

    def counts(self, cell: str, job: Job) -> Counts:
        with self._database.cell(cell, [job.tenant]) as conn:
            return _counts(conn, job)

    def _cells(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for tenant in self._database.tenants():
            found.setdefault(tenant.cell, []).append(tenant.number)
        return found


def _counts(conn: psycopg.Connection, job: Job) -> Counts:
    row: Sequence[int] | None = conn.execute(COUNTS, [job.tenant, job.id]).fetchone()
    assert row is not None
    return Counts(*map(int, row))
