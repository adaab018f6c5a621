"""Silence: what a call ends with when no answer came."""


class Unreached(Exception):
    """No answer came. `unsure` when the request may have arrived."""

    def __init__(self, reason: str, unsure: bool) -> None:
        super().__init__(reason)
        self.unsure = unsure
