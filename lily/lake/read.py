"""Reading the lake: SQL by DuckDB over Iceberg scans, and the rows of one tenant for export."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import DataScan, Table

from lily.clock import from_micros
from lily.errors import Invalid, NotFound
from lily.lake.cell import CellLake, position_of
from lily.lake.tables import LAYOUTS

MOST_ROWS = 100_000


class Answer(msgspec.Struct, frozen=True):
    columns: list[str]
    rows: list[tuple[Any, ...]]


class State(msgspec.Struct, frozen=True):
    """One table as it is now."""

    table: str
    snapshot_id: int
    committed_at: datetime
    rows: int
    snapshots: int
    files: int
    bytes: int
    position: dict[str, int]


def query(
    lake: CellLake,
    sql: str,
    tenant: int | None = None,
    at: Mapping[str, int] | None = None,
    most: int = MOST_ROWS,
) -> Answer:
    """Run one read-only statement over the tables that it names; `at` are older snapshots."""
    with duckdb.connect(":memory:", config={"python_enable_replacements": "false"}) as link:
        for name in LAYOUTS:
            if re.search(rf"\b{name}\b", sql):
                link.register(name, scan(lake, name, tenant, (at or {}).get(name)).to_arrow())
        link.execute("SET enable_external_access = false")
        link.execute("SET lock_configuration = true")
        try:
            found = link.execute(sql)
            columns = [column[0] for column in found.description or ()]
            return Answer(columns, found.fetchmany(most))
        except duckdb.Error as cause:
            raise Invalid(str(cause).strip(), "sql") from cause


def scan(
    lake: CellLake, name: str, tenant: int | None = None, snapshot: int | None = None
) -> DataScan:
    """The rows of a table, of one tenant or of all in the cell."""
    if name not in LAYOUTS:
        raise NotFound("lake table", name)
    table = lake.find(name)
    if table is None:
        raise NotFound("lake table", f"{name} yet: nothing has been archived")
    if snapshot is not None and table.snapshot_by_id(snapshot) is None:
        raise NotFound("snapshot", snapshot)
    return table.scan(row_filter=_only(tenant), snapshot_id=snapshot)


def exported(
    lake: CellLake, name: str, tenant: int, snapshot: int | None = None
) -> pa.RecordBatchReader:
    """A tenant's rows of a table, and nobody else's, batch by batch."""
    return scan(lake, name, tenant, snapshot).to_arrow_batch_reader()


def state(lake: CellLake, name: str, tenant: int | None = None) -> State | None:
    """What a table holds, of one tenant or in all; None before anything was archived."""
    table = lake.find(name)
    current = table.current_snapshot() if table is not None else None
    if table is None or current is None:
        return None
    summary = current.summary
    size = int(summary["total-files-size"] or 0) if summary else 0
    files = int(summary["total-data-files"] or 0) if summary else 0
    return State(
        name,
        current.snapshot_id,
        from_micros(current.timestamp_ms * 1000),
        _count(table, tenant),
        len(table.snapshots()),
        files,
        size,
        position_of(table),
    )


def first_versions(lake: CellLake, tenant: int, guids: Sequence[str]) -> set[str]:
    """Of which of these assets the history holds the first version."""
    table = lake.find("assets_history")
    if table is None or not guids:
        return set()
    rows = table.scan(row_filter=_only(tenant), selected_fields=("guid", "version")).to_arrow()
    known = {
        guid
        for guid, version in zip(rows["guid"].to_pylist(), rows["version"].to_pylist(), strict=True)
        if version == 1
    }
    return known & set(guids)


def _count(table: Table, tenant: int | None) -> int:
    return table.scan(row_filter=_only(tenant)).count()


def _only(tenant: int | None) -> str | BooleanExpression:
    return AlwaysTrue() if tenant is None else f"tenant = {tenant:d}"
