"""The spool: a folder for each job, with its file cut into parts of whole lines.

`parts/<number>-<first line>.<kind>`: kind `ndjson` is a record a line, so lines number themselves;
kind `lined` has `<line>\\t<record>`, or `<line>\\t!<reason>` for what could not be read. A folder
`parts` is complete; while it grows it is called `growing`.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import msgspec

from lily.errors import Unreadable

PART = 16 << 20
LONGEST = 64 << 20
UPLOAD = "upload"


class Part(msgspec.Struct, frozen=True):
    """One file of whole lines."""

    number: int
    first: int
    lined: bool
    path: str


class Folder:
    """What one job keeps on disk."""

    def __init__(self, spool: Path, job: UUID) -> None:
        self.path = spool / str(job)

    @property
    def parts(self) -> Path:
        return self.path / "parts"

    @property
    def upload(self) -> Path:
        return self.path / UPLOAD

    @property
    def origin(self) -> Path:
        """There when all lines are stored and wait to be archived: where they came from."""
        return self.path / "origin.json"

    @classmethod
    def at(cls, path: Path) -> "Folder":
        return cls(path.parent, UUID(path.name))

    def create(self) -> None:
        self.path.mkdir(parents=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def finish(self, growing: Path) -> None:
        """From here on the parts are all there."""
        growing.rename(self.parts)
        sync_folder(self.path)

    def growing(self) -> Path:
        """An empty folder to write parts into."""
        fresh = self.path / "growing"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        return fresh


def sweep(spool: Path, needed: Callable[[], set[str]], archive: Callable[[Path], None]) -> None:
    """Remove what belongs to no job that could still use it, once it is archived."""
    found = list(spool.glob("*"))  # first: a folder is made after its job
    kept = needed()
    for path in found:
        if path.name not in kept and (path / "origin.json").exists():
            archive(path)
        elif path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


class Cutter:
    """Writes lines as parts, cut at the first end of a line behind a size: the same file always
    gives the same parts, however it arrives."""

    def __init__(self, folder: Path, lined: bool, size: int = PART) -> None:
        self._folder = folder
        self._kind = "lined" if lined else "ndjson"
        self._size = size
        self._file: BinaryIO | None = None
        self._number = 0
        self._held = 0
        self._ends = b"\n"
        self.lines = 0  # ended lines so far

    def write(self, data: bytes) -> None:
        while data:
            file = self._file or self._next()
            if (end := data.find(b"\n", max(0, self._size - 1 - self._held))) >= 0:
                self._add(file, data[: end + 1])
                self._close()
                data = data[end + 1 :]
                continue
            self._add(file, data)
            if self._held > LONGEST:
                raise Unreadable(f"Line {self.lines + 1} is longer than {LONGEST - PART} bytes.")
            return

    def close(self) -> int:
        """How many lines there are; one that does not end with a newline counts too."""
        self._close()
        sync_folder(self._folder)
        return self.lines + (self._ends != b"\n")

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()

    def _add(self, file: BinaryIO, data: bytes) -> None:
        file.write(data)
        self._held += len(data)
        self.lines += data.count(b"\n")
        self._ends = data[-1:]

    def _next(self) -> BinaryIO:
        self._number += 1
        name = f"{self._number:07d}-{self.lines + 1:012d}.{self._kind}"
        self._file = (self._folder / name).open("wb")
        self._held = 0
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None


def part_of(path: str) -> Part:
    """What the name of a part says."""
    name, _, kind = path.rpartition("/")[2].rpartition(".")
    number, _, first = name.partition("-")
    return Part(int(number), int(first), kind == "lined", path)


def parts_of(folder: Path) -> Iterator[Part]:
    return (part_of(str(path)) for path in sorted(folder.iterdir()))


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
