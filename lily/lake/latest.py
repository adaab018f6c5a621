"""Tables that hold the latest only: whole slices are replaced, in one commit with their digests."""

from collections.abc import Iterable, Mapping

import msgspec
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lily.lake.cell import Position, Rows, marked, written

DIGESTS = "lily.slices"

Slice = tuple[int, int]  # bucket of the tenant, slice of the guid


def digests_of(table: Table) -> dict[Slice, str]:
    """What each slice added up to when it was written."""
    said = table.properties.get(DIGESTS, "{}")
    found = {}
    for name, digest in msgspec.json.decode(said, type=dict[str, str]).items():
        bucket, _, part = name.partition("/")
        found[int(bucket), int(part)] = digest
    return found


def digested(digests: Mapping[Slice, str]) -> dict[str, str]:
    """As the table keeps it."""
    said = {f"{bucket}/{part}": digest for (bucket, part), digest in digests.items()}
    return {DIGESTS: msgspec.json.encode(said).decode()}


class ByFiles:
    """Writes slices whole, without Spark: files first, then one commit a table."""

    def __init__(self) -> None:
        self._files: dict[str, list[DataFile]] = {}

    def add(self, table: Table, rows: Rows) -> None:
        self._files.setdefault(table.name()[-1], []).extend(written(table, rows))

    def put(
        self,
        table: Table,
        slices: Iterable[Slice],
        digests: Mapping[Slice, str],
        position: Position,
    ) -> None:
        replace(table, slices, self._files.pop(table.name()[-1], []), digests, position)


def replace(
    table: Table,
    slices: Iterable[Slice],
    files: Iterable[DataFile],
    digests: Mapping[Slice, str],
    position: Position,
) -> None:
    """Put these files in the place of everything that the slices held."""
    gone = set(slices)
    old = [file for file in current_files(table) if slice_of(file) in gone]
    with table.transaction() as transaction:
        transaction.set_properties(digested(digests))
        update = transaction.update_snapshot(snapshot_properties=marked(position))
        with update.overwrite() as files_of_table:
            for file in old:
                files_of_table.delete_data_file(file)
            for file in files:
                files_of_table.append_data_file(file)


def current_files(table: Table) -> list[DataFile]:
    return [task.file for task in table.scan().plan_files()]


def slice_of(file: DataFile) -> Slice:
    """The two values of its partition."""
    return file.partition[0], file.partition[1]
