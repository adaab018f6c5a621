"""Who does something and why, as it is written into facts."""

import msgspec


class Actor(msgspec.Struct, frozen=True):
    """A name for `by`, the request for `cause`, and the trace that both belong to."""

    name: str
    cause: str
    traceparent: str = ""
