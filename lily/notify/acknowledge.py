"""A link that acknowledges an incident: sealed, so that nobody can make one, and soon over."""

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from lily.errors import LilyError, NotFound

ABOUT = b"acknowledge"
LIFE = timedelta(days=7)
PATH = "/n/ack"


class Ticket(msgspec.Struct, frozen=True):
    """Which incident, who was told of it, and until when the link is good."""

    tenant: int
    incident: UUID
    connection: UUID
    delivery: UUID
    until: datetime


def link(base_url: str, ticket: Ticket, seal: Callable[[bytes, bytes], bytes]) -> str:
    sealed = seal(msgspec.msgpack.encode(ticket), ABOUT)
    token = base64.urlsafe_b64encode(sealed).decode().rstrip("=")
    return f"{base_url}{PATH}?t={token}"


def read(token: str, open_: Callable[[bytes, bytes], bytes], now: datetime) -> Ticket:
    """The ticket; one that was never given, or is over, does not exist."""
    try:
        sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        ticket = msgspec.msgpack.decode(open_(sealed, ABOUT), type=Ticket)
    except (ValueError, LilyError, msgspec.MsgspecError):
        raise NotFound("link", "like this") from None
    if ticket.until < now:
        raise NotFound("link", "like this any more; it is too old")
    return ticket
