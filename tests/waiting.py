"""Wait for a condition, not for a time."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any


def until(met: Callable[[], Any], seconds: float = 10) -> float:
    """Return as soon as it holds, and after how long; fail when it does not within these."""
    began = monotonic()
    while not met():
        assert monotonic() - began < seconds, f"not within {seconds} s"
        sleep(0.02)
    return monotonic() - began
