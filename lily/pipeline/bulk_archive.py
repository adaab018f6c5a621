"""Lines of files in the lake: what a job has loaded is archived from its spool, each part once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lily import wiring
from lily.pipeline.parts import Origin, lines, named_in
from lily.store.spool import Folder, Part, parts_of
from lily.telemetry import logger
from lily.wiring import Core

if TYPE_CHECKING:
    from lily.lake.cell import CellLake


_encode = msgspec.json.encode
_is_json = msgspec.json.Decoder(msgspec.Raw).decode


def promise(folder: Folder, origin: Origin) -> None:
    """From here on the folder may only go when its lines are in the lake."""
    folder.origin.write_bytes(_encode(origin))


def keep(core: Core, folder: Folder) -> None:
    """Archive what was promised, then remove the folder. Killed anywhere, it can be called again.

    The table itself says how many parts of a job it has; it forgets that only when the folder is
    gone, so a part is never added twice.
    """
    if core.settings.lake == "off" or not folder.origin.exists():
        folder.remove()
        return
    from lily.lake.cell import forget_mark, mark_of, patiently
    from lily.lake.tables import OBSERVATIONS

    origin = msgspec.json.decode(folder.origin.read_bytes(), type=Origin)
    cell = core.database.tenant(origin.tenant.number).cell  # it may have moved since
    lake = wiring.lake(core, cell)
    try:
        mark = f"lily.bulk.{origin.job}"
        reached = mark_of(lake.table(OBSERVATIONS), mark)
        for part in parts_of(folder.parts):
            if part.number > reached:
                _add(lake, mark, part, origin)
        folder.remove()
        patiently(lambda: forget_mark(lake.table(OBSERVATIONS), mark))
    finally:
        lake.close()


def keep_left_over(core: Core, path: Path) -> None:
    """A folder whose runner died before its lines were archived."""
    try:
        keep(core, Folder.at(path))
    except Exception as cause:  # noqa: BLE001  it stays, and is tried again by the next runner
        logger(__name__).warning("lines of a file are not archived yet", reason=str(cause))


def _add(lake: "CellLake", mark: str, part: Part, origin: Origin) -> None:
    from lily.lake.cell import append_once, patiently
    from lily.lake.tables import OBSERVATIONS

    rows = list(_rows(part, origin))
    patiently(lambda: append_once(lake.table(OBSERVATIONS), rows, mark, part.number))


def _rows(part: Part, origin: Origin) -> Iterator[tuple[Any, ...]]:
    number, at = origin.tenant.number, origin.accepted_at
    head = f'{{"job":"{origin.job}","by":{_encode(origin.by).decode()},"line":'
    for line, raw in lines(part, Path(part.path).read_bytes()):
        lane, name = named_in(raw)
        offset = line + (origin.core_offset if lane == "core" else origin.fields_offset)
        yield number, lane, offset, at, name, f"{head}{line},{_document(raw)}}}", 0


def _document(raw: bytes) -> str:
    try:
        _is_json(raw)
        return f'"document":{raw.decode()}'
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f'"text":{_encode(raw.decode(errors="replace")).decode()}'
