"""One try to tell a notice: asks the target, does what it asks for, and judges the answers."""

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec

from lily.assets.hooks import reason_of
from lily.errors import Reject, Retry
from lily.notify import verdicts
from lily.notify.verdicts import Verdict
from lily.sdk.targets import Answer, Call, Gone, Notice, Record, Refused, Target
from lily.workers.unreached import Unreached

MOST_CALLS = 12
MOST_REASON = 500

Caller = Callable[[Call | Record], Awaitable[Answer]]


class Tried(msgspec.Struct, frozen=True):
    """What a try came to. `calls` say what was done, without any secret."""

    verdict: Verdict
    handle: Any
    calls: list[dict[str, Any]]
    seconds: float


async def attempt(
    target: Target, notice: Notice, call: Caller, now: datetime, hidden: tuple[str, ...]
) -> Tried:
    """Send it once. Whatever the target or the other side does, it returns."""
    began = time.perf_counter()
    done: list[dict[str, Any]] = []
    handle = None
    status: int | None = None
    try:
        handle = await _converse(target, notice, call, done)
        status = done[-1]["status"] if done else None
        verdict = Verdict("ok", status=status)
    except Refused as refusal:
        verdict = _of_answer(refusal.answer, now)
    except Unreached as silence:
        verdict = Verdict("transient", str(silence), unsure=silence.unsure)
    except Gone as end:
        verdict = Verdict("gone", str(end), status=_last(done))
    except Retry as later:
        verdict = _later(later, _last(done))
    except Reject as refusal:
        verdict = Verdict("permanent", str(refusal), status=_last(done))
    except Exception as cause:  # noqa: BLE001  a target's bug must not stop the others
        verdict = Verdict("permanent", f"the target broke: {reason_of(cause)}", status=_last(done))
    return Tried(_quiet(verdict, hidden), handle, done, time.perf_counter() - began)


async def _converse(
    target: Target, notice: Notice, call: Caller, done: list[dict[str, Any]]
) -> Any:
    """Calls and answers until the target returns its handle."""
    sending = target.send(notice)
    try:
        wanted = next(sending)
        while True:
            if len(done) >= MOST_CALLS:
                raise Reject(f"the target made {MOST_CALLS} calls and was not done")
            answer = await _called(call, wanted, done)
            if 200 <= answer.status < 300:
                wanted = sending.send(answer)
            else:
                wanted = sending.throw(Refused(answer))
    except StopIteration as end:
        return end.value
    finally:
        sending.close()


async def _called(call: Caller, wanted: Call | Record, done: list[dict[str, Any]]) -> Answer:
    began = time.perf_counter()
    told: dict[str, Any] = {**_shown(wanted), "status": None}
    done.append(told)
    try:
        answer = await call(wanted)
    finally:
        told["millis"] = round((time.perf_counter() - began) * 1e3, 2)
    told["status"] = answer.status
    return answer


def _shown(wanted: Call | Record) -> dict[str, Any]:
    """What people may see of it."""
    if isinstance(wanted, Record):
        return {"call": f"kafka {wanted.topic}", "bytes": len(wanted.value)}
    label = wanted.label or f"{wanted.method} {_host(wanted.url)}"
    return {"call": label, "bytes": len(wanted.body)}


def _of_answer(answer: Answer, now: datetime) -> Verdict:
    verdict = verdicts.of_status(answer.status, answer.headers, now)
    said = " ".join(answer.text()[:300].split())
    if said and verdict.outcome in ("permanent", "gone", "transient"):
        return msgspec.structs.replace(verdict, reason=f"{verdict.reason}: {said}")
    return verdict


def _later(later: Retry, status: int | None) -> Verdict:
    """With a time it is patience that is asked for; without, it is a failure like others."""
    if later.after is None:
        return Verdict("transient", str(later), status=status)
    return Verdict("throttled", str(later), timedelta(seconds=max(0.0, later.after)), status)


def _quiet(verdict: Verdict, hidden: tuple[str, ...]) -> Verdict:
    reason = verdict.reason
    for secret in hidden:
        reason = reason.replace(secret, "********")
    return msgspec.structs.replace(verdict, reason=reason.replace("\0", " ")[:MOST_REASON])


def _last(done: list[dict[str, Any]]) -> int | None:
    return done[-1]["status"] if done else None


def _host(url: str) -> str:
    """Paths and queries of webhooks are secrets."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
