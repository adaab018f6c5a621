"""Which format a file has, and what its columns are called.

A column is named after a field of an asset, or `metadata.<key>`, with further dots for nesting.
An empty cell says nothing. Lists are separated by `;`, or written as JSON.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal

import msgspec

from lily.errors import FieldError, Invalid

Format = Literal["json", "ndjson", "csv", "xlsx", "xml", "parquet"]
Packing = Literal["", "gzip", "zstd"]

TYPES: dict[str, Format] = {
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/x-jsonlines": "ndjson",
    "text/csv": "csv",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}
SUFFIXES: dict[str, Format] = {
    "json": "json", "ndjson": "ndjson", "jsonl": "ndjson", "csv": "csv", "xlsx": "xlsx",
    "xml": "xml", "parquet": "parquet",
}  # fmt: skip
PACKED: dict[str, Packing] = {
    "gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd",
    "application/gzip": "gzip", "application/x-gzip": "gzip", "application/zstd": "zstd",
}  # fmt: skip

IDENTITY = ("qualified_name", "asset_id", "asset_name")
TEXTS = (
    "qualified_name", "asset_id", "asset_name", "asset_type", "asset_owner", "description",
    "parent_id", "data_source", "external_id", "source", "observed_at", "updated_at",
    "created_at", "tenant_id",
)  # fmt: skip
LISTS = ("tags", "business_terms")
SWITCHES = ("partial", "is_deleted")
OBJECTS = ("metadata", "details")
COLUMNS = (*TEXTS, *LISTS, *SWITCHES)
TEMPLATE = (
    "qualified_name", "asset_id", "asset_name", "asset_type", "asset_owner", "description",
    "parent_id", "data_source", "external_id", "tags", "business_terms", "observed_at",
    "metadata.row_count", "metadata.contact.team",
)  # fmt: skip
EXAMPLES: tuple[tuple[Any, ...], ...] = (
    (
        "postgres://db:5432/shop.public.people", "people-1", "people", "table", "ada@example.com",
        "Everybody we sell to.", "", "postgres", "", "PII;gold", "Customer", "", 1200, "crm",
    ),
    (
        "postgres://db:5432/shop.public.people#email", "", "email", "column", "", "", "",
        "postgres", "", "PII", "", "", "", "",
    ),
)  # fmt: skip

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_decode = msgspec.json.decode


class Kind(msgspec.Struct, frozen=True):
    format: Format
    packing: Packing = ""


def kind_of(content_type: str, name: str, encoding: str = "") -> Kind:
    """By the content type where it says something, else by the name. Raises Invalid."""
    media = content_type.partition(";")[0].strip().lower()
    stem, packing = _unpacked(name.strip().lower())
    packing = PACKED.get(encoding.strip().lower(), PACKED.get(media, packing))
    if encoding.strip().lower() not in ("", "identity", "gzip", "zstd"):
        raise Invalid("must be gzip, zstd or absent", "Content-Encoding")
    found = TYPES.get(media) or SUFFIXES.get(stem.rpartition(".")[2])
    if found is None:
        known = ", ".join(dict.fromkeys(SUFFIXES))
        raise Invalid(
            f"is not known; send a Content-Type such as application/x-ndjson, or ?name= with an"
            f" ending of {known} (.gz and .zst too)",
            "format",
        )
    return Kind(found, packing)


def _unpacked(name: str) -> tuple[str, Packing]:
    stem, dot, ending = name.rpartition(".")
    if dot and ending in PACKED:
        return stem, PACKED[ending]
    return name, ""


def checked(header: Sequence[object], where: str = "header") -> list[str]:
    """The columns of a header. Raises Invalid with every name that is wrong, and the cure."""
    names = [str(name).strip().lstrip("\ufeff") if name is not None else "" for name in header]
    while names and not names[-1]:
        names.pop()  # spreadsheets end in columns that nobody filled
    wrong: list[FieldError] = []
    for index, name in enumerate(names):
        if not name:
            wrong.append(FieldError(where, f"column {index + 1} has no name"))
        elif names.index(name) < index:
            wrong.append(FieldError(where, f"names {name!r} twice"))
        elif not _is_column(name):
            wrong.append(FieldError(where, f"{name!r} is not known; call it metadata.{name}"))
    if not any(name in names for name in IDENTITY):
        wrong.append(FieldError(where, f"needs one of {', '.join(IDENTITY)}"))
    if wrong:
        raise Invalid(wrong)
    return names


def _is_column(name: str) -> bool:
    if name in COLUMNS or name in OBJECTS:
        return True
    room, dot, key = name.partition(".")
    return bool(dot) and room in OBJECTS and all(key.split("."))


def document(columns: Sequence[str], cells: Sequence[object], typed: bool) -> dict[str, Any]:
    """A row as a document. `typed` cells know numbers from texts; others are read as JSON if
    they are JSON, else as a text."""
    made: dict[str, Any] = {}
    for name, cell in zip(columns, cells, strict=False):
        if cell is None or cell == "":
            continue
        room, dot, key = name.partition(".")
        if dot:
            _put(made.setdefault(room, {}), key.split("."), value(cell, typed))
        elif name in OBJECTS:
            made[name] = {**made.get(name, {}), **_object(cell, name)}
        elif name in LISTS:
            made[name] = labels(cell, name)
        elif name in SWITCHES:
            made[name] = _switch(cell, name)
        else:
            made[name] = _text(cell)
    return made


def labels(cell: object, name: str) -> list[Any]:
    """`a;b`, or a JSON list."""
    if isinstance(cell, list | tuple):
        return list(cell)
    text = str(cell).strip()
    if text.startswith("["):
        found = _json(text)
        if not isinstance(found, list):
            raise Invalid('is not a JSON list; separate values by ; or write ["a", "b"]', name)
        return found
    return [part.strip() for part in text.split(";") if part.strip()]


def value(cell: object, typed: bool) -> Any:
    """A value of metadata."""
    if isinstance(cell, str):
        text = cell.strip()
        if text[:1] in ("{", "["):
            found = _json(text)
            return cell if found is None else found
        if typed:
            return cell
        if text in ("true", "false", "null") or _NUMBER.fullmatch(text):
            return _json(text)
        if len(text) > 1 and text[0] == text[-1] == '"':
            found = _json(text)
            return cell if found is None else found
        return cell
    return _plain(cell)


def _plain(cell: object) -> Any:
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    if isinstance(cell, dict):
        return {str(key): _plain(inner) for key, inner in cell.items()}
    if isinstance(cell, list | tuple):
        return [_plain(inner) for inner in cell]
    if isinstance(cell, bool | int | float | str) or cell is None:
        return cell
    return str(cell)


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else str(_plain(cell))


def _switch(cell: object, name: str) -> bool:
    if isinstance(cell, bool):
        return cell
    text = str(cell).strip().lower()
    if text in ("true", "1", "yes"):
        return True
    if text in ("false", "0", "no"):
        return False
    raise Invalid("must be true or false", name)


def _object(cell: object, name: str) -> dict[str, Any]:
    found = _plain(cell) if not isinstance(cell, str) else _json(cell.strip())
    if not isinstance(found, dict):
        raise Invalid(f"must be a JSON object; or use columns {name}.<key>", name)
    return found


def _put(room: dict[str, Any], path: Sequence[str], found: Any) -> None:
    for key in path[:-1]:
        inner = room.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = room[key] = {}
        room = inner
    room[path[-1]] = found


def _json(text: str) -> Any:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
