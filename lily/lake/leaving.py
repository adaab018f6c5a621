"""A tenant leaves one lake for another: its observations are carried, all else is derived again."""

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyiceberg.table import Table

from lily.lake.cell import CellLake, Position, Rows, append, marked, patiently, position_of
from lily.lake.tables import LAYOUTS, OBSERVATIONS

ROWS = 200_000  # in one file


def forget(lake: CellLake, tenant: int) -> None:
    """No row of the tenant is left in the tables, nor how far its feed was archived.

    Snapshots from before still hold them, until upkeep lets those expire.
    """
    for name in LAYOUTS:
        patiently(lambda name=name: _forget(lake, name, tenant))  # type: ignore[misc]


def carry(source: CellLake, target: CellLake, tenant: int, rest: Callable[[Position], Rows]) -> int:
    """The tenant's observations of one lake into another: those in the table, and the `rest`
    that is still only in the log behind the table's position. Returns how many there are."""
    old = source.table(OBSERVATIONS) if source.find(OBSERVATIONS.name) is not None else None
    count = 0
    if old is not None:
        for piece in _pieces(old, tenant):
            count += piece.num_rows
            patiently(lambda piece=piece: _add(target, piece))  # type: ignore[misc]
    if rows := rest(position_of(old) if old is not None else {}):
        table = target.table(OBSERVATIONS)
        patiently(lambda: append(target.table(OBSERVATIONS), rows, position_of(table)))
    return count + len(rows)


def _forget(lake: CellLake, name: str, tenant: int) -> None:
    if (table := lake.find(name)) is None:
        return
    position = position_of(table)
    left = {key: at for key, at in position.items() if key != str(tenant)}
    own = f"tenant = {tenant}"
    if any(True for _ in table.scan(row_filter=own, selected_fields=("tenant",)).plan_files()):
        table.delete(own, snapshot_properties=marked(left))
    elif left != position:
        append(table, [], left)


def _pieces(table: Table, tenant: int) -> Iterable[pa.Table]:
    reader = table.scan(row_filter=f"tenant = {tenant}").to_arrow_batch_reader()
    gathered: list[pa.RecordBatch] = []
    for batch in reader:
        gathered.append(batch)
        if sum(each.num_rows for each in gathered) >= ROWS:
            yield pa.Table.from_batches(gathered)
            gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered)


def _add(target: CellLake, piece: pa.Table) -> None:
    table = target.table(OBSERVATIONS)
    fitting = piece.cast(table.schema().as_arrow())
    table.append(fitting, snapshot_properties=marked(position_of(table)))
