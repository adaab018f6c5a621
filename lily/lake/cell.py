"""The lake of one cell: its Iceberg catalog, in the cell's own database or elsewhere, and tables.

What a table already holds is written in the summary of its snapshots. A commit either has the
rows together with their position, or neither; so whoever goes on from there neither loses nor
doubles anything.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    RESTError,
)
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from sqlalchemy.exc import DatabaseError

from lily.errors import Unavailable
from lily.lake.tables import Layout

CATALOG = "lake"
NAMESPACE = "lily"
POSITION = "lily.position"
TRIES = 5  # of a commit that others may forestall
PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    # A commit that lost a race must look again at what the table holds by then.
    "commit.retry.num-retries": "0",
}

Position = dict[str, int]
Rows = Sequence[Sequence[Any]]


class CellLake:
    """Reads and writes the tables; only one writer should be active, a second one loses."""

    def __init__(
        self, catalog: Mapping[str, str], warehouse: str, namespace: str = NAMESPACE
    ) -> None:
        """`catalog` are PyIceberg's options; the files are under the warehouse in any case."""
        self._options = catalog
        self._warehouse = warehouse
        self.namespace = namespace
        # A REST catalog has its own idea of which files are still needed.
        self.is_ours = catalog["type"] == "sql"
        self._catalog: Catalog | None = None

    def find(self, name: str) -> Table | None:
        """The table as it is now; None before the first row was written."""
        try:
            return self.catalog().load_table((self.namespace, name))
        except NoSuchTableError:
            return None
        except (DatabaseError, OSError, RESTError) as cause:  # requests' errors are OSErrors
            raise Unavailable("The lake cannot be reached.") from cause

    def table(self, layout: Layout) -> Table:
        """The table as it is now, made if need be, with every column that it has by now."""
        table = self.find(layout.name)
        if table is None:
            return self._make(layout)
        known = set(table.schema().column_names)
        if missing := [name for name in layout.columns if name not in known]:
            with table.update_schema() as changed:
                for name in missing:
                    changed.add_column(name, layout.type_of(name))
        return table

    def catalog(self) -> Catalog:
        if self._catalog is None:
            # Its threads share what a manifest is judged by, and overlook files that have to go.
            os.environ["PYICEBERG_MAX_WORKERS"] = "1"  # noqa: TID251
            self._catalog = load_catalog(CATALOG, **self._options)
        return self._catalog

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    def _make(self, layout: Layout) -> Table:
        with suppress(NamespaceAlreadyExistsError):
            self.catalog().create_namespace(self.namespace)
        return self.catalog().create_table_if_not_exists(
            (self.namespace, layout.name),
            schema=layout.schema,
            location=f"{self._warehouse}/{self.namespace}/{layout.name}",
            partition_spec=layout.spec,
            properties=PROPERTIES,
        )


def append(table: Table, rows: Rows, position: Position) -> None:
    """Add rows and say in the same commit how far the table now goes."""
    table.append(arrow(table, rows), snapshot_properties=marked(position))


def append_once(table: Table, rows: Rows, mark: str, number: int) -> None:
    """Add the rows of numbered piece after piece, saying in the same commit which piece it is."""
    if mark_of(table, mark) >= number:
        return
    with table.transaction() as transaction:
        transaction.set_properties({mark: str(number)})
        transaction.append(arrow(table, rows), snapshot_properties=marked(position_of(table)))


def patiently(commit: Callable[[], None]) -> None:
    """Somebody else may commit at the same moment: look again at what the table holds by then."""
    for turn in range(TRIES):
        try:
            commit()
            return
        except CommitFailedException:
            if turn == TRIES - 1:
                raise


def mark_of(table: Table, mark: str) -> int:
    """The last piece under this mark that is in the table; 0 if there is none."""
    return int(table.properties.get(mark, "0"))


def forget_mark(table: Table, mark: str) -> None:
    if mark in table.properties:
        with table.transaction() as transaction:
            transaction.remove_properties(mark)


def written(table: Table, rows: Rows) -> list[DataFile]:
    """Files with these rows that belong to no snapshot yet."""
    return list(_dataframe_to_data_files(table.metadata, arrow(table, rows), table.io))


def arrow(table: Table, rows: Rows) -> pa.Table:
    """Rows in the order of the table's columns."""
    schema = table.schema().as_arrow()
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def marked(position: Mapping[str, int]) -> dict[str, str]:
    return {POSITION: msgspec.json.encode(position, order="sorted").decode()}


def position_of(table: Table) -> Position:
    """How far the table goes: from the newest snapshot that says so.

    A snapshot made by somebody else's upkeep says nothing and adds nothing.
    """
    snapshot = table.current_snapshot()
    while snapshot is not None:
        said = snapshot.summary.get(POSITION) if snapshot.summary else None
        if said is not None:
            return msgspec.json.decode(said, type=Position)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return {}
