"""A dead letter's way back into the log."""

from datetime import datetime
from uuid import UUID, uuid5

import msgspec

from lily.errors import Invalid
from lily.events.envelope import Envelope, decode
from lily.events.observations import AnyObservation, Nothing


def readable(raw: str) -> Envelope | None:
    try:
        return decode(raw)
    except (msgspec.DecodeError, ValueError):
        return None


def again(
    id: UUID, tenant: int, raw: str, source: str, at: datetime, by: str, fix: AnyObservation | None
) -> Envelope:
    """The envelope to send for a dead letter; `fix` takes the place of what was in it.

    Its id follows from the letter's, so that one letter has one effect. It speaks of the time it
    was first seen: what is known since then stays.
    """
    found = readable(raw)
    observation = fix or (found.observation if found else None)
    if observation is None or isinstance(observation, Nothing):
        raise Invalid("cannot be read as it is; send the observation it should be", "observation")
    observed = (found.observed_at if found else None) or at
    if fix is not None:
        observed = min(observed, at)  # a time in the future is one of the things to fix
    return Envelope(
        id=uuid5(id, "replay"),
        tenant=tenant,
        source=(found.source if found else source) or by,
        by=found.by if found and fix is None else by,
        observation=observation,
        observed_at=observed,
        request=found.request if found else "",
        traceparent=found.traceparent if found else "",
    )
