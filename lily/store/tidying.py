"""New words are sorted into the search index behind the back of whoever writes."""

from time import monotonic

from lily.store.database import Database

MANY = 1_000  # observations; each search looks through what they brought, word by word
SELDOM = 30.0  # seconds after which even a few are sorted in


class Tidying:
    """Asked often, does something when enough was written, or a while ago."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._events = 0
        self._done = monotonic()

    def look(self, events: int) -> None:
        """`events` is how many observations were written since the start. Raises Unavailable."""
        if events - self._events < MANY and monotonic() - self._done < SELDOM:
            return
        self._events, self._done = events, monotonic()
        self._database.each_cell(self._tidy)

    def _tidy(self, cell: str) -> None:
        tidy(self._database, cell)


def tidy(database: Database, cell: str) -> int:
    """Pages of the waiting list that were sorted in."""
    with database.cell(cell) as conn:
        row = conn.execute("SELECT tidy_search()").fetchone()
    return int(row[0]) if row else 0
