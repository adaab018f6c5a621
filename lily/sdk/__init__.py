"""What a plug-in may rely on. Nothing else in Lily is a promise.

A plug-in is a class with a nested pydantic ``Options``, built as ``cls(options)``
once per tenant connection, that has one of the shapes below. Plain blocking code.
"""

from typing import Protocol

from lily.errors import Reject, Retry
from lily.events.observations import AssetGone, AssetSeen, Observation, Suggestion


class Hook(Protocol):
    def __call__(self, seen: Observation) -> Observation | None:
        """Return it, a changed copy, or None to drop it. Raise Reject to refuse it."""


__all__ = ["AssetGone", "AssetSeen", "Hook", "Observation", "Reject", "Retry", "Suggestion"]
