"""How long somebody who guesses passwords has to wait."""

from collections.abc import Sequence
from datetime import datetime, timedelta

WINDOW = timedelta(minutes=5)
PER_USER = 5
PER_ADDRESS = 50  # a whole office may share one
FIRST_WAIT = 5.0
LONGEST_WAIT = 300.0


def wait(failures: Sequence[datetime], allowed: int, now: datetime) -> float:
    """Seconds until the next try is allowed; 0 when it is. Doubles with every failure."""
    recent = [at for at in failures if at > now - WINDOW]
    over = len(recent) - allowed
    if over < 0:
        return 0.0
    pause = min(FIRST_WAIT * (1 << min(over, 10)), LONGEST_WAIT)
    return max(0.0, pause - (now - max(recent)).total_seconds())
