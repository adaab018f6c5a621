"""Time is given, never taken."""

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class FrozenClock:
    """A clock that a test moves by hand."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def advance(self, by: timedelta) -> None:
        self.at += by


def micros(at: datetime) -> int:
    """Microseconds since 1970, exact where a float would round."""
    delta = at - _EPOCH
    return (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds


def from_micros(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
