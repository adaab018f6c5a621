"""Every error Lily raises on purpose, as one tree.

LilyError
├── Invalid            the request can never work as it is; names the field and the cure
├── Unreadable         the bytes are not what they claim to be
├── Unauthenticated    no valid proof of who asks
├── Forbidden          known, but not allowed
├── NotFound           does not exist for this caller
├── Conflict           clashes with what is stored
├── Stale              If-Match names another version
├── TooLarge           over a limit
├── Throttled          too often; try again later
├── Unavailable        a part is not there; try again later
├── Fenced             another process has taken over this work
├── PluginError        a plug-in is missing, broken or misconfigured
├── Retry              a plug-in asks to be called again later
└── Reject             a plug-in or rule refuses for good
"""

from collections.abc import Sequence

import msgspec


class FieldError(msgspec.Struct, frozen=True):
    field: str
    message: str


class LilyError(Exception):
    """Something happened to something, and here is what to do."""

    title = "Something went wrong"


class Invalid(LilyError):
    title = "The request has invalid fields"

    def __init__(self, errors: Sequence[FieldError] | str, field: str = "") -> None:
        self.errors = [FieldError(field, errors)] if isinstance(errors, str) else list(errors)
        super().__init__(
            "; ".join(f"{e.field}: {e.message}" if e.field else e.message for e in self.errors)
        )


class Unreadable(LilyError):
    title = "The request cannot be read"


class Unauthenticated(LilyError):
    title = "Authentication is required"


class Forbidden(LilyError):
    title = "Not allowed"


class NotFound(LilyError):
    title = "Not found"

    def __init__(self, what: str, which: object) -> None:
        super().__init__(f"There is no {what} {which}.")


class Conflict(LilyError):
    title = "Conflict with what is stored"


class Stale(LilyError):
    title = "The asset has changed since you read it"


class TooLarge(LilyError):
    title = "Too large"


class Throttled(LilyError):
    title = "Too many requests"

    def __init__(self, message: str, after: float) -> None:
        super().__init__(message)
        self.after = after


class Unavailable(LilyError):
    title = "Temporarily unavailable"

    def __init__(self, message: str, after: float = 2.0) -> None:
        super().__init__(message)
        self.after = after


class Fenced(LilyError):
    title = "Another process has taken over"


class PluginError(LilyError):
    title = "Plug-in problem"


class Retry(LilyError):
    title = "Try again later"

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Reject(LilyError):
    title = "Refused"
