"""Tables of assets, row by row, however many there are: CSV, XLSX and Parquet."""

import csv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import openpyxl
import pyarrow as pa
import pyarrow.parquet
from openpyxl.utils.exceptions import InvalidFileException

from lily.errors import Invalid, Unreadable
from lily.formats.columns import checked, document
from lily.formats.records import Record

SHEET = "assets"
CELL_LIMIT = 1_000_000
ROWS = 2_000


def from_csv(path: Path) -> Iterator[Record]:
    """With a header; separated by comma, semicolon or tab; UTF-8."""
    csv.field_size_limit(CELL_LIMIT)
    file = path.open(encoding="utf-8-sig", newline="", errors="replace")
    try:
        first = file.readline()
        file.seek(0)
        separator = max(",;\t", key=first.count)
        reader = csv.reader(file, delimiter=separator, strict=True)
        columns = checked(next(reader, []))
    except csv.Error as cause:
        file.close()
        raise Unreadable(f"The CSV file cannot be read: {cause}.") from None
    except Invalid:
        file.close()
        raise
    return _csv_rows(file, reader, columns)


def _csv_rows(file: Any, reader: Any, columns: Sequence[str]) -> Iterator[Record]:
    with file:
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as cause:
                yield Record(line, None, f"cannot be read: {cause}")
                return
            if len(cells) > len(columns) and any(cells[len(columns) :]):
                yield Record(line, None, f"has {len(cells)} cells for {len(columns)} columns")
            elif any(cells):
                yield _record(line, columns, cells, typed=False)


def from_xlsx(path: Path) -> Iterator[Record]:
    """The sheet `assets`, or the only one; its first row is the header."""
    file = path.open("rb")
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError, ParseError):
        file.close()
        raise Unreadable("The file is not an XLSX workbook, or it ends too early.") from None
    try:
        if SHEET not in book.sheetnames and len(book.sheetnames) != 1:
            known = ", ".join(book.sheetnames)
            raise Invalid(f"there are {known}; call the one with the assets {SHEET!r}", "sheet")
        sheet = book[SHEET] if SHEET in book.sheetnames else book.worksheets[0]
        sheet.reset_dimensions()
        rows = sheet.iter_rows(values_only=True)
        columns = checked(next(rows, ()))
    except Invalid:
        book.close()
        file.close()
        raise
    return _xlsx_rows(book, file, rows, columns)


def _xlsx_rows(
    book: Any, file: Any, rows: Iterator[Any], columns: Sequence[str]
) -> Iterator[Record]:
    line = 1
    try:
        for cells in rows:
            line += 1
            if any(cell not in (None, "") for cell in cells):
                yield _record(line, columns, cells, typed=True)
    except (zipfile.BadZipFile, ParseError, EOFError, ValueError, KeyError) as cause:
        yield Record(line + 1, None, f"the workbook cannot be read on: {cause}")
    finally:
        book.close()
        file.close()


def from_parquet(path: Path) -> Iterator[Record]:
    """Columns as in CSV; lists, numbers and structs as they are."""
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError):
        raise Unreadable("The file is not Parquet, or it ends too early.") from None
    try:
        columns = checked(file.schema_arrow.names)
    except Invalid:
        file.close()
        raise
    return _parquet_rows(file, columns)


def _parquet_rows(file: Any, columns: Sequence[str]) -> Iterator[Record]:
    line = 0
    with file:
        try:
            for batch in file.iter_batches(ROWS):
                for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    line += 1
                    yield _record(line, columns, cells, typed=True)
        except (pa.ArrowInvalid, OSError) as cause:
            yield Record(line + 1, None, f"the file cannot be read on: {cause}")


def _record(line: int, columns: Sequence[str], cells: Sequence[Any], typed: bool) -> Record:
    try:
        return Record(line, document(columns, cells, typed))
    except Invalid as wrong:
        return Record(line, None, str(wrong))
