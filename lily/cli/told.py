"""How the demonstration speaks: titles, lines of two columns, and waits that say how long."""

import time
from collections.abc import Callable

import typer

PATIENCE = 60.0
POLL = 0.01


class Teller:
    """Somebody who tells a story step by step."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._begun: float | None = None

    def title(self, text: str) -> None:
        self._begun = None
        typer.echo(f"\n{typer.style(text, bold=True)}")

    def say(self, what: str, text: str) -> None:
        typer.echo(f"  {what + ':':<48} {text}")
        time.sleep(self._pause)

    def begin(self) -> None:
        """Something happens now: until the next title, times are told from here."""
        self._begun = time.perf_counter()

    def until(self, what: str, ready: Callable[[], bool]) -> None:
        """Wait for it, and say how long it took."""
        began = time.perf_counter()
        while not ready():
            if time.perf_counter() - began > PATIENCE:
                raise TimeoutError(f"{what}: not within {PATIENCE} s")
            time.sleep(POLL)
        passed = time.perf_counter() - (self._begun or began)
        self.say(what, f"after {passed * 1e3:.0f} ms")
