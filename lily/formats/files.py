"""A file of assets in any format, as records in order, never held in memory."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from lily.errors import Unreadable
from lily.formats import markup, sheets
from lily.formats.columns import Format
from lily.formats.records import Record, read

HEAD = 4096


def records(format: Format, path: Path) -> Iterator[Record]:
    """Raises Invalid or Unreadable at once when the file as a whole is not what it claims."""
    if format == "csv":
        return sheets.from_csv(path)
    if format == "xlsx":
        return sheets.from_xlsx(path)
    if format == "parquet":
        return sheets.from_parquet(path)
    if format == "xml":
        return markup.from_xml(path)
    return _json(path)


def check(format: Format, path: Path) -> None:
    """Look at the beginning only."""
    found = records(format, path)
    if next(found, None) is None and path.stat().st_size == 0:
        raise Unreadable("The file is empty.")
    close = getattr(found, "close", None)
    if close is not None:
        close()


def _json(path: Path) -> Iterator[Record]:
    file = path.open(encoding="utf-8-sig", errors="replace")
    start = file.read(HEAD).lstrip()[:1]
    if start not in ("[", "{"):
        file.close()
        raise Unreadable("The file is not a JSON array of assets.")
    file.seek(0)

    def all_of_it() -> Iterator[Record]:
        with file:
            yield from read(file)

    return chain(all_of_it())
