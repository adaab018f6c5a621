"""Upkeep of the lake: fewer, larger files; fewer snapshots; no rows past their time; no waste."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec
import pyarrow.fs as fs
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO, _dataframe_to_data_files
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from lily.clock import micros
from lily.errors import Conflict
from lily.lake.cell import CellLake, marked, position_of
from lily.lake.latest import slice_of
from lily.lake.tables import LAYOUTS, OBSERVATIONS

SMALL = 32_000_000  # bytes; a file below this may be joined with others
ENOUGH = 8  # small files in one partition that are worth a rewrite
MOST_BYTES = 128_000_000  # joined at once, compressed
GRACE = timedelta(hours=1)  # a file that nobody refers to may belong to a commit under way
TRIES = 5
THIN_AFTER = timedelta(hours=1)  # from then on one snapshot an hour is kept


class Rules(msgspec.Struct, frozen=True):
    """How long what is kept."""

    snapshot_days: float = 7
    observation_days: float = 365
    grace: timedelta = GRACE


class Done(msgspec.Struct):
    """What upkeep of one table did."""

    table: str
    files_joined: int = 0
    snapshots_expired: int = 0
    rows_retired: int = 0
    files_removed: int = 0


def upkeep(lake: CellLake, now: datetime, rules: Rules) -> list[Done]:
    """Every table of a cell, one after the other; whoever commits meanwhile goes first."""
    done = []
    for name in LAYOUTS:
        for turn in range(TRIES):
            try:
                if (table := lake.find(name)) is not None:
                    done.append(_keep(table, name, now, rules, lake.is_ours))
                break
            except CommitFailedException as cause:  # the stage was faster
                if turn == TRIES - 1:
                    raise Conflict(f"{name} is being written all the time; try later") from cause
    return done


def _keep(table: Table, name: str, now: datetime, rules: Rules, ours: bool) -> Done:
    did = Done(name)
    if name == OBSERVATIONS.name:
        did.rows_retired = retire(table, now - timedelta(days=rules.observation_days))
    if LAYOUTS[name].at is not None:
        did.files_joined = compact(table)
    before = set() if ours else _files(table)
    did.snapshots_expired = expire(table, now, timedelta(days=rules.snapshot_days))
    if ours:
        did.files_removed = sweep(table, now - rules.grace)
    elif did.snapshots_expired:
        did.files_removed = _remove(table, before - _files(table))
    return did


def compact(table: Table) -> int:
    """Join the small files of each partition; the rows stay what they are."""
    small: dict[tuple[int, int], list[FileScanTask]] = defaultdict(list)
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes < SMALL:
            small[slice_of(task.file)].append(task)
    return sum(_join(table, _bounded(tasks)) for tasks in small.values() if len(tasks) >= ENOUGH)


def _bounded(tasks: Sequence[FileScanTask]) -> list[FileScanTask]:
    taken: list[FileScanTask] = []
    size = 0
    for task in tasks:
        size += task.file.file_size_in_bytes
        if taken and size > MOST_BYTES:
            break
        taken.append(task)
    return taken


def _join(table: Table, tasks: Sequence[FileScanTask]) -> int:
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    rows = scan.to_table(tasks)
    files = list(_dataframe_to_data_files(table.metadata, rows, table.io))
    with table.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=marked(position_of(table)))
        with update.overwrite() as changed:
            for task in tasks:
                changed.delete_data_file(task.file)
            for file in files:
                changed.append_data_file(file)
    return len(tasks)


def retire(table: Table, before: datetime) -> int:
    """Drop whole days that are past their time."""
    midnight = before.replace(hour=0, minute=0, second=0, microsecond=0)
    old = f"at < '{midnight.isoformat()}'"
    rows: int = sum(task.file.record_count for task in table.scan(row_filter=old).plan_files())
    if rows:
        table.delete(old, snapshot_properties=marked(position_of(table)))
    return rows


def expire(table: Table, now: datetime, keep: timedelta) -> int:
    """Forget old snapshots; of those that stay only one an hour, after the first hour."""
    current = table.current_snapshot()
    gone = [s.snapshot_id for s in _superfluous(table.snapshots(), now, keep)]
    gone = [number for number in gone if current is None or number != current.snapshot_id]
    if gone:
        table.maintenance.expire_snapshots().by_ids(gone).commit()
        table.refresh()
    return len(gone)


def _superfluous(snapshots: Sequence[Snapshot], now: datetime, keep: timedelta) -> list[Snapshot]:
    """Of each hour the last one stays."""
    thin, old = _millis(now - THIN_AFTER), _millis(now - keep)
    last_of_hour = {s.timestamp_ms // 3_600_000: s.snapshot_id
                    for s in sorted(snapshots, key=lambda s: s.timestamp_ms)}  # fmt: skip
    return [
        s
        for s in snapshots
        if s.timestamp_ms < old
        or (s.timestamp_ms < thin and last_of_hour[s.timestamp_ms // 3_600_000] != s.snapshot_id)
    ]


def sweep(table: Table, before: datetime) -> int:
    """Remove files that no snapshot refers to any more, or never did because a commit died."""
    system, root = _system(table)
    wanted = {_path(table, location) for location in _referred(table)}
    removed = 0
    for info in system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
        if info.type == fs.FileType.File and info.path not in wanted and info.mtime < before:
            system.delete_file(info.path)
            removed += 1
    return removed


def _remove(table: Table, files: Iterable[str]) -> int:
    """What only expired snapshots had; all else is the catalog's own affair."""
    count = 0
    for file in files:
        table.io.delete(file)
        count += 1
    return count


def _referred(table: Table) -> set[str]:
    log = (entry.metadata_file for entry in table.metadata.metadata_log)
    return {table.metadata_location, *log} | _files(table)


def _files(table: Table) -> set[str]:
    """Data and manifests of every snapshot that the catalog shows."""
    found: set[str] = set()
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            found.update(entry.data_file.file_path for entry in entries)
    return found


def _system(table: Table) -> tuple[fs.FileSystem, str]:
    """The file system that the table's own files are written with, and its folder there."""
    assert isinstance(table.io, PyArrowFileIO)
    scheme, host, path = PyArrowFileIO.parse_location(table.location(), table.io.properties)
    return table.io.fs_by_scheme(scheme, host), path


def _path(table: Table, location: str) -> str:
    assert isinstance(table.io, PyArrowFileIO)
    return PyArrowFileIO.parse_location(location, table.io.properties)[2]


def _millis(at: datetime) -> int:
    return micros(at) // 1000
