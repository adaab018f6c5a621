"""How an observation travels: the same bytes in PostgreSQL and in Kafka."""

from datetime import datetime
from uuid import UUID

import msgspec

from lily.events.observations import AnyObservation


class Envelope(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An observation with everything the pipeline needs to know about it.

    `id` names this one observation and is the cause of the facts it makes; `request` groups
    those that came together; `source` is who claims; `by` is who sent it.
    """

    id: UUID
    tenant: int
    source: str
    by: str
    observation: AnyObservation
    observed_at: datetime | None = None
    request: str = ""
    traceparent: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Envelope).decode


def encode(envelope: Envelope) -> bytes:
    return _encode(envelope)


def decode(data: bytes | str) -> Envelope:
    """Raises msgspec.DecodeError or ValidationError, which name the place."""
    return _decode(data)
