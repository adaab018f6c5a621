"""What an answer means, once and for everybody; and when to try again."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec

Outcome = Literal["ok", "throttled", "transient", "permanent", "gone"]

# Published: the wait before each further attempt. After the last one a delivery is dead.
SCHEDULE: tuple[timedelta, ...] = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
ATTEMPTS = len(SCHEDULE) + 1
JITTER = 0.2  # of the wait, added by chance: many that failed together do not return together

TRANSIENT = frozenset({408, 425, 500, 502, 503, 504})
LONGEST_PAUSE = timedelta(days=1)
DEFAULT_PAUSE = timedelta(seconds=30)
PATIENCE = timedelta(days=7)  # after so long even a throttled delivery is dead

# A target that fails so often in a row is left alone for a while, then tried with one at a time.
FAILURES = 10
FIRST_BREAK = timedelta(seconds=30)
LONGEST_BREAK = timedelta(minutes=5)


class Verdict(msgspec.Struct, frozen=True):
    """`after` is how long the other side wants to be left alone."""

    outcome: Outcome
    reason: str = ""
    after: timedelta | None = None
    status: int | None = None
    unsure: bool = False


class Next(msgspec.Struct, frozen=True):
    """What becomes of a delivery: tried again then, or not."""

    state: Literal["delivered", "waiting", "dead"]
    due_at: datetime
    counted: bool


def of_status(status: int, headers: Mapping[str, str], now: datetime) -> Verdict:
    """Of an HTTP answer. Redirects are not followed, so they are refusals."""
    after = retry_after(headers.get("retry-after"), now)
    if 200 <= status < 300:
        return Verdict("ok", status=status)
    if status == 429 or (status == 503 and after is not None):
        return Verdict("throttled", f"answered {status}", after or DEFAULT_PAUSE, status)
    if status == 410:
        return Verdict("gone", "answered 410: it is gone", status=status)
    if status in TRANSIENT or status >= 500:
        return Verdict("transient", f"answered {status}", status=status)
    if 300 <= status < 400:
        return Verdict("permanent", f"answered {status}: redirects are not followed", status=status)
    return Verdict("permanent", f"answered {status}", status=status)


def retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Seconds or a date; None for what is neither. Never negative, never for ever."""
    if not value:
        return None
    try:
        wait = timedelta(seconds=min(float(value), LONGEST_PAUSE.total_seconds()))
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, TypeError):
            return None
        wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    return max(timedelta(0), min(wait, LONGEST_PAUSE))


def following(
    verdict: Verdict, attempts: int, created_at: datetime, now: datetime, chance: float
) -> Next:
    """The next step after an attempt; `attempts` counted before it, `chance` is in [0, 1)."""
    if verdict.outcome == "ok":
        return Next("delivered", now, True)
    if verdict.outcome == "throttled":
        if now - created_at > PATIENCE:
            return Next("dead", now, False)
        return Next("waiting", now + (verdict.after or DEFAULT_PAUSE), False)
    if verdict.outcome in ("permanent", "gone") or attempts >= len(SCHEDULE):
        return Next("dead", now, True)
    wait = SCHEDULE[attempts]
    return Next("waiting", now + wait + wait * JITTER * chance, True)


def pause(failures: int) -> timedelta | None:
    """How long to leave a target alone that failed so often in a row."""
    if failures < FAILURES:
        return None
    doubled: int = 2 ** min(failures - FAILURES, 10)
    return min(FIRST_BREAK * doubled, LONGEST_BREAK)
