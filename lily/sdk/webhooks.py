"""What comes in from tools that call us. The host verifies nothing: the plug-in knows how."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from lily.events.observations import AssetGone, AssetSeen
from lily.events.signals import SignalSeen

ARRIVED_AT = "lily-received-at"


class PersonLeft(msgspec.Struct, frozen=True):
    """Somebody may no longer get in: sessions and tokens end at once.

    `logins` are the names under which Lily may know them.
    """

    logins: tuple[str, ...]
    reason: str = ""


Arrived = AssetSeen | AssetGone | SignalSeen | PersonLeft


class Webhook(Protocol):
    """A tool that calls us. One per connection; the address is made by the host."""

    def receive(self, headers: Mapping[str, str], body: bytes) -> Sequence[Arrived]:
        """Prove that the call is genuine, then say what it means; nothing is a fine answer.

        Names of headers are in lower case; `lily-received-at` is set by the host: Unix seconds.
        Raise Reject when the call is not proven, before anything else of it is looked at, and
        Unreadable when it is genuine and makes no sense. Both store nothing.
        """


@runtime_checkable
class Greets(Protocol):
    """A tool that first asks with a GET whether we are who it thinks."""

    def greet(self, headers: Mapping[str, str]) -> bytes:
        """The JSON to answer with. Raise Reject when the question is not genuine."""


@runtime_checkable
class Claims(Protocol):
    """A tool that may call one address for everybody, because its body names an account."""

    def account(self) -> str:
        """The account that this connection is for; empty for none."""

    @staticmethod
    def account_in(body: bytes) -> str:
        """The account that a body claims to come from; empty when it names none."""
