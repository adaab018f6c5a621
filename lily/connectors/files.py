"""The crawler for a folder of files: every row of every file states one asset."""

import csv
import gzip
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal, cast

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from lily.errors import LilyError
from lily.sdk import AssetGone, AssetSeen, Cursor, Observation, Reject, Retry
from lily.sdk.files import documents

WHOLE: dict[str, Literal["xlsx", "xml", "parquet"]] = {
    ".xlsx": "xlsx",
    ".xml": "xml",
    ".parquet": "parquet",
}
SUFFIXES = (".ndjson", ".jsonl", ".json", ".csv", *WHOLE)
LISTS = ("tags", "business_terms")
LINE_LIMIT = 10_000_000
OWN = frozenset(AssetSeen.__struct_fields__) - {"suggestions"}
# Said by Lily when somebody exports assets; a file must not say them back.
IGNORED = frozenset(
    ("guid", "version", "applied_at", "lane", "archived", "shadowed", "incidents", "health",
     "observed_at", "updated_at", "tenant_id", "source", "is_deleted")
)  # fmt: skip


class Files:
    """Reads a folder of NDJSON, JSON, CSV, XLSX, XML and Parquet files; what leaves them is gone.

    All but the last three may be gzipped.
    """

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        path: Path = Field(description="The folder.")
        pattern: str = Field("*", max_length=200, description="Which files, e.g. shop-*.ndjson.")
        rate_limit: float | None = Field(None, gt=0, description="Observations a second at most.")

    def __init__(self, options: Options) -> None:
        self._folder = options.path
        self._pattern = options.pattern

    def read(self, cursor: Cursor | None) -> Iterator[Observation | Cursor]:
        for path in self._files():
            if cursor is not None and path.name <= cursor.value:
                continue
            try:
                for row in rows(path):
                    yield stated(row)
            except (ValueError, TypeError, OSError, EOFError, csv.Error, LilyError) as cause:
                # Somebody may still be writing it; nothing is concluded from half a file.
                raise Retry(f"{path.name} cannot be read: {cause}") from cause
            yield Cursor(path.name)

    def _files(self) -> list[Path]:
        if not self._folder.is_dir():
            raise Reject(f"There is no folder {self._folder}.")
        root = self._folder.resolve()
        found = [path for path in self._folder.glob(self._pattern) if _suffix(path) in SUFFIXES]
        # A link must not lead out of the folder.
        inside = [path for path in found if path.is_file() and path.resolve().is_relative_to(root)]
        return sorted(inside, key=lambda path: path.name)


def rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The documents of a file, one after the other."""
    if path.suffix.lower() in WHOLE:
        yield from documents(WHOLE[path.suffix.lower()], path)
        return
    with _opened(path) as file:
        match _suffix(path):
            case ".csv":
                text = io.TextIOWrapper(file, "utf-8-sig", newline="")
                yield from map(_nested, csv.DictReader(text))
            case ".json":
                whole = msgspec.json.decode(file.read())
                yield from whole if isinstance(whole, list) else [whole]
            case _:
                while line := file.readline(LINE_LIMIT):
                    if line.strip():
                        yield msgspec.json.decode(line)


def stated(row: Any) -> Observation:
    """A document as an observation; what no asset has goes into metadata."""
    if not isinstance(row, Mapping):
        raise ValueError(f"a row is {type(row).__name__} instead of an object")
    given = {key: value for key, value in row.items() if value is not None}
    name = given.get("qualified_name") or given.get("asset_id") or _invented(given)
    if given.get("is_deleted"):
        return AssetGone(qualified_name=name, asset_id=given.get("asset_id"))
    known = {key: value for key, value in given.items() if key in OWN}
    unknown = {k: v for k, v in given.items() if k not in OWN and k not in IGNORED}
    if unknown:
        known["metadata"] = {**unknown, **(given.get("metadata") or {})}
    return msgspec.convert({**known, "qualified_name": name, "type": "AssetSeen"}, AssetSeen)


def _invented(given: Mapping[str, Any]) -> str:
    if not given.get("asset_name"):
        raise ValueError("a row has neither qualified_name nor asset_id nor asset_name")
    source, kind = given.get("data_source") or "default", given.get("asset_type") or "entity"
    return f"{source}/{kind}/{given['asset_name']}"


def _nested(row: Mapping[str | None, Any]) -> dict[str, Any]:
    """A line of CSV: `metadata.a.b` nests, lists are separated by `;`, empty cells say nothing."""
    document: dict[str, Any] = {}
    for name, text in row.items():
        if name is None:
            raise ValueError("a line has more cells than the header")
        if text in (None, ""):
            continue
        value: Any = [part.strip() for part in text.split(";")] if name in LISTS else text
        if name in ("is_deleted", "partial"):
            value = text.strip().lower() in ("true", "1", "yes")
        place, *path = name.split(".")
        inner = document
        for step in path:
            inner = inner.setdefault(place, {})
            place = step
        inner[place] = value
    return document


def _suffix(path: Path) -> str:
    if path.suffix != ".gz":
        return path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    return "" if inner in WHOLE else inner


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
