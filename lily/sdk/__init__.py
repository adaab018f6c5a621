"""What a plug-in may rely on. Nothing else in Lily is a promise.

A plug-in is a class with a nested pydantic ``Options``, built as ``cls(options)``
once per tenant connection, that has one of the shapes below. Plain blocking code.
"""

from collections.abc import Iterator
from typing import Any, Protocol, Self, runtime_checkable

import msgspec

from lily.errors import Reject, Retry, Unreadable
from lily.events.lineage import EdgeGone, EdgeSeen
from lily.events.observations import AssetGone, AssetSeen, Observation, Suggestion
from lily.events.signals import Severity, SignalSeen, SignalState
from lily.sdk.queries import Queried, SqlPlace
from lily.sdk.targets import (
    About,
    Answer,
    Call,
    Cluster,
    Filter,
    Gone,
    Grant,
    Granted,
    Notice,
    Rate,
    Record,
    Refused,
    Sending,
    Target,
)
from lily.sdk.webhooks import Arrived, Claims, Greets, PersonLeft, Webhook


class Cursor(msgspec.Struct, frozen=True):
    """A place where reading may go on after a restart: any JSON that the source understands."""

    value: Any


class Regranted(msgspec.Struct, frozen=True):
    """Somebody changed rights in the engine: who enforces there should look again."""

    name: str  # the qualified name under which it happened


Change = str | Regranted | Cursor | None
"""What a capture yields: names under which something changed, changed rights, and cursors."""

Reading = Observation | EdgeSeen | EdgeGone | Cursor
"""What a source yields."""


class Hook(Protocol):
    def __call__(self, seen: Observation) -> Observation | None:
        """Return it, a changed copy, or None to drop it. Raise Reject to refuse it."""


class Source(Protocol):
    def read(self, cursor: Cursor | None) -> Iterator[Reading]:
        """Yield everything that is there, edges too; yield a cursor wherever a restart may resume.

        Reading to the end without an error means that what was not yielded does not exist.
        Raise Retry when the tool is busy, Reject when it can never work.
        """


class Enrichment(Protocol):
    """What a rule carries along lineage instead of the root's own value."""

    def __call__(self, root: AssetSeen) -> Any:
        """The value that everything behind this asset gets; None where it has nothing to give.

        Text for an owner or a description, any JSON for a key of metadata. The same for the same
        asset: it is asked again whenever that changes, and its answer is compared.
        """


@runtime_checkable
class Narrows(Protocol):
    """A source that can read a part of what it would read."""

    def within(self, scope: str) -> Self:
        """The same source for the asset of this qualified name and what lies below it."""


@runtime_checkable
class Reaches(Protocol):
    """A source that calls servers; the host checks where they are before it reads."""

    def hosts(self) -> list[str]:
        """Names or addresses of the servers; none for what is reached without a network."""


@runtime_checkable
class Captures(Protocol):
    """A source whose tool can tell at once what changed, once something is installed there."""

    def wants_capture(self) -> bool:
        """Whether its options ask for it: nothing is installed that nobody asked for."""

    def install(self) -> None:
        """Called again, change nothing."""

    def uninstall(self) -> None:
        """Leave nothing behind. Called again, change nothing."""

    def changes(self, cursor: Cursor | None) -> Iterator[Change]:
        """Qualified names under which something changed, and cursors; None at least every second.

        A None lets the host stop. Closing the iterator ends the listening.
        """


__all__ = [
    "About",
    "Answer",
    "Arrived",
    "AssetGone",
    "AssetSeen",
    "Call",
    "Captures",
    "Change",
    "Claims",
    "Cluster",
    "Cursor",
    "EdgeGone",
    "EdgeSeen",
    "Enrichment",
    "Filter",
    "Gone",
    "Grant",
    "Granted",
    "Greets",
    "Hook",
    "Narrows",
    "Notice",
    "Observation",
    "PersonLeft",
    "Queried",
    "Rate",
    "Reaches",
    "Reading",
    "Record",
    "Refused",
    "Regranted",
    "Reject",
    "Retry",
    "Sending",
    "Severity",
    "SignalSeen",
    "SignalState",
    "Source",
    "SqlPlace",
    "Suggestion",
    "Target",
    "Unreadable",
    "Webhook",
]
