"""A source: tables that somebody keeps in a sheet, `name,owner,description` a line."""

import csv
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from lily.sdk import AssetSeen, Cursor, Reading, Reject


class Sheet:
    """Reads a CSV file with a header."""

    class Options(BaseModel):
        path: Path

    def __init__(self, options: Options) -> None:
        self._path = options.path

    def read(self, cursor: Cursor | None) -> Iterator[Reading]:
        """From the line after the cursor, in the order of the file."""
        done = int(cursor.value) if cursor is not None else 0
        try:
            lines = csv.DictReader(self._path.read_text(encoding="utf-8").splitlines())
        except OSError as cause:
            raise Reject(f"{self._path.name} cannot be read: {cause.strerror}") from None
        for number, line in enumerate(lines, start=1):
            if number > done:
                yield AssetSeen(
                    qualified_name=f"sheet://{self._path.stem}/{line['name']}",
                    asset_name=line["name"],
                    asset_type="table",
                    asset_owner=line.get("owner") or None,
                    description=line.get("description") or None,
                )
                yield Cursor(number)
