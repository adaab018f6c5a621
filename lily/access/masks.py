"""What a mask does to a value of some type, in words that every engine can translate."""

from datetime import datetime
from typing import Literal

from lily.access.model import Mask, MaskKind

Family = Literal["text", "number", "date", "boolean", "other", "unknown"]

_FAMILIES: tuple[tuple[Family, tuple[str, ...]], ...] = (
    ("text", ("char", "text", "string", "clob", "name", "citext")),
    ("date", ("date", "timestamp", "datetime")),
    ("boolean", ("bool",)),
    ("number", ("int", "serial", "numeric", "decimal", "number", "float", "double", "real",
                "money", "bigint")),
)  # fmt: skip

# What each mask can be applied to; a null is a value of every type.
_FITS: dict[MaskKind, frozenset[Family]] = {
    "null": frozenset({"text", "number", "date", "boolean", "other", "unknown"}),
    "constant": frozenset({"text", "number", "date", "boolean", "unknown"}),
    "custom": frozenset({"text", "number", "date", "boolean", "other", "unknown"}),
    "hash": frozenset({"text", "unknown"}),
    "partial": frozenset({"text", "unknown"}),
    "year": frozenset({"date", "unknown"}),
}


def family(data_type: str | None) -> Family:
    """What kind of values a column of this type holds."""
    if not data_type:
        return "unknown"
    plain = data_type.lower()
    if "[" in plain or plain.startswith(("array", "map", "struct", "row(")):
        return "other"
    if plain.startswith("interval"):
        return "other"
    for name, parts in _FAMILIES:
        if any(part in plain for part in parts):
            return name
    return "other"


def fits(mask: Mask, data_type: str | None) -> str | None:
    """None if the mask can stand for a value of this type; else the reason why not."""
    kind = family(data_type)
    if kind not in _FITS[mask.kind]:
        return f"a {mask.kind} mask cannot have the type {data_type}"
    if mask.kind == "constant" and not _constant_fits(mask.value, kind):
        return f"the constant {mask.value!r} cannot have the type {data_type}"
    return None


def fitted(mask: Mask, data_type: str | None) -> Mask:
    """The mask itself where it fits, else the next stricter one that does."""
    return mask if fits(mask, data_type) is None else Mask("null")


def _constant_fits(value: str, kind: Family) -> bool:
    if kind == "number":
        try:
            float(value)
        except ValueError:
            return False
    if kind == "boolean":
        return value.lower() in ("true", "false")
    if kind == "date":
        return _is_date(value)
    return True


def _is_date(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
