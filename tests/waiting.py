"""Wait for a condition, not for a time."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any


def until(met: Callable[[], Any], seconds: float = 10) -> None:
    """Return as soon as it holds; fail when it does not within these seconds."""
    end = monotonic() + seconds
    while not met():
        assert monotonic() < end, f"not within {seconds} s"
        sleep(0.02)
