"""Observations that are no single asset: appended together, and waited for if that is wanted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec

from lily import telemetry
from lily.api.intake import reached
from lily.events.envelope import Envelope
from lily.events.observations import AnyObservation
from lily.log.postgres import record_of
from lily.store.reads import Question
from lily.types import Caller
from lily.wiring import Services


class Sending(msgspec.Struct, frozen=True):
    """An observation, who claims it, and when it was true."""

    seen: AnyObservation
    source: str
    at: datetime | None = None


class Sent(msgspec.Struct, frozen=True):
    """`causes` are the ids of the observations in order; `refused` says why, by their ids."""

    causes: list[str]
    applied: bool
    refused: dict[str, str] = {}


async def send(
    services: Services, caller: Caller, sendings: Sequence[Sending], seconds: float
) -> Sent:
    """Into the log, all or none; then wait so long at most until the pipeline has applied them."""
    request, trace = telemetry.request_id.get(), telemetry.traceparent.get()
    envelopes = [
        Envelope(
            id=uuid4(), tenant=caller.tenant.number, source=each.source, by=caller.name,
            observation=each.seen, observed_at=each.at, request=request, traceparent=trace,
        )
        for each in sendings
    ]  # fmt: skip
    names: list[Any] = [each.seen.qualified_name for each in sendings]  # type: ignore[union-attr]
    records = [record_of(each, name) for each, name in zip(envelopes, names, strict=True)]
    causes = [str(each.id) for each in envelopes]
    if not records:
        return Sent([], True)
    hot = await services.hot(caller.tenant.cell)
    places = await hot.appender.append(records)
    limit = min(seconds, services.core.settings.wait_limit)
    if limit <= 0 or not await reached(hot, places, limit):
        return Sent(causes, False)
    answer = await hot.reads.ask(caller.tenant.number, Question(causes=causes))
    return Sent(causes, True, {cause: refusal.reason for cause, refusal in answer.dead.items()})
