"""Work behind the caller's back: one piece is under way while the next is made ready."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Behind:
    """One piece at a time, in order. What goes wrong with one is raised to whoever comes next."""

    def __init__(self, name: str) -> None:
        self._worker = ThreadPoolExecutor(1, name)
        self._last: Future[object] | None = None

    def submit(self, work: Callable[[], object]) -> None:
        """Begin it once the piece before it is done."""
        self.settle()
        self._last = self._worker.submit(work)

    def settle(self, seconds: float | None = None) -> None:
        """Until nothing is under way. After a failure nothing is begun any more."""
        if self._last is not None:
            self._last.result(seconds)

    def check(self) -> None:
        """Raise what went wrong, without waiting for what is under way."""
        if self._last is not None and self._last.done():
            self._last.result()

    def close(self) -> None:
        self._worker.shutdown(wait=False)
