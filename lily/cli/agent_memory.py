"""What an agent has sent: a hash per asset and where to go on, in one SQLite file."""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

SCHEMA = """
CREATE TABLE IF NOT EXISTS seen (
  connection TEXT NOT NULL, name TEXT NOT NULL, hash BLOB NOT NULL, run INTEGER NOT NULL,
  PRIMARY KEY (connection, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (
  connection TEXT PRIMARY KEY, run INTEGER NOT NULL, cursor TEXT, done INTEGER NOT NULL);
"""
MARK = (
    "INSERT INTO seen (connection, name, hash, run) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (connection, name) DO UPDATE SET hash = excluded.hash, run = excluded.run"
)
PROGRESS = (
    "INSERT INTO progress (connection, run, cursor, done) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (connection) DO UPDATE"
    " SET run = excluded.run, cursor = excluded.cursor, done = excluded.done"
)


class Memory:
    """Written only after the API has what it speaks of."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._db = sqlite3.connect(path)
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._db.close()

    def begin(self, connection: str) -> tuple[int, Any]:
        """The number of the reading under way, and where it goes on; or a new one."""
        row = self._db.execute(
            "SELECT run, cursor, done FROM progress WHERE connection = ?", [connection]
        ).fetchone()
        if row is not None and not row[2]:
            return row[0], msgspec.json.decode(row[1]) if row[1] else None
        run = (row[0] if row else 0) + 1
        self.keep(connection, run, None)
        return run, None

    def known(self, connection: str, names: Sequence[str]) -> dict[str, bytes]:
        wanted = msgspec.json.encode(list(names)).decode()
        rows = self._db.execute(
            "SELECT s.name, s.hash FROM json_each(?) n JOIN seen s ON s.name = n.value"
            " WHERE s.connection = ?",
            [wanted, connection],
        )
        return dict(rows.fetchall())

    def mark(self, connection: str, run: int, stated: Iterable[tuple[str, bytes]]) -> None:
        with self._db:
            self._db.executemany(MARK, [(connection, name, said, run) for name, said in stated])

    def keep(self, connection: str, run: int, cursor: Any, done: bool = False) -> None:
        text = None if cursor is None else msgspec.json.encode(cursor).decode()
        with self._db:
            self._db.execute(PROGRESS, [connection, run, text, int(done)])

    def unseen(self, connection: str, run: int, limit: int) -> list[str]:
        rows = self._db.execute(
            "SELECT name FROM seen WHERE connection = ? AND run < ? LIMIT ?",
            [connection, run, limit],
        )
        return [name for (name,) in rows]

    def forget(self, connection: str, names: Iterable[str]) -> None:
        with self._db:
            self._db.executemany(
                "DELETE FROM seen WHERE connection = ? AND name = ?",
                [(connection, name) for name in names],
            )
