"""The same check as at every send, when somebody says where to send to."""

import socket
from collections.abc import Sequence

from lily import plugins
from lily.errors import Invalid, Reject
from lily.notify import egress
from lily.sdk import Reaches
from lily.sdk.targets import Target


def reachable(allowed: Sequence[str], target: Target) -> None:
    """Refuse an address that would be refused later. A name that is not known yet may come."""
    try:
        if isinstance(target, Reaches):
            plugins.reach(target, allowed)
            return
        parts = egress.parts(target.address())
        try:
            found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return
        egress.allowed([str(info[4][0]) for info in found], egress.networks(allowed))
    except Reject as refusal:
        raise Invalid(f"the address {refusal}", "options") from None
