"""How batches of a busy log follow each other."""

LARGE = 500  # observations
SHARE = 0.4  # of the time from one read to the next
LONGEST = 0.2  # seconds
GROWTH = 1.1


class Pace:
    """While large batches come one after the other, each is about as large as those before.

    Who is answered sends again, so all that was written together comes back together: left alone,
    a large batch is followed by a small one for ever, and there is nothing to write in between.
    """

    def __init__(self) -> None:
        self._took = 0, 0  # by the last two reads
        self._asked = float("-inf")

    def linger(self, now: float) -> float:
        """Seconds to wait before the next read. A batch that is ready long before its turn to be
        written is smaller than it could be, and costs Spark as much."""
        turn, self._asked = now - self._asked, now
        return min(SHARE * turn, LONGEST) if self._took[1] >= LARGE else 0.0

    @property
    def most(self) -> int:
        """Observations that the next read may take."""
        return max(LARGE, int(GROWTH * sum(self._took) / 2))

    def took(self, count: int) -> None:
        self._took = self._took[1], count
