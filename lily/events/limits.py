"""What any text or mapping that travels may look like, because it has to be stored."""

from typing import Any

from lily.errors import FieldError

NAME_LIMIT = 4_000
TEXT_LIMIT = 100_000
KEYS_LIMIT = 20_000
DEPTH_LIMIT = 100


def text_problems(value: str, field: str, limit: int) -> list[FieldError]:
    if len(value) > limit:
        return [FieldError(field, f"is longer than {limit} characters; shorten it")]
    if "\0" in value:
        return [FieldError(field, "contains a NUL character; remove it")]
    if field in ("asset_name", "asset_type") and not value.strip():
        return [FieldError(field, "must not be empty; leave it out or give a name")]
    return []


def mapping_problems(value: dict[str, Any], field: str) -> list[FieldError]:
    if len(value) > KEYS_LIMIT:
        return [FieldError(field, f"has more than {KEYS_LIMIT} keys")]
    found = _unstorable(value, field, DEPTH_LIMIT)
    return [found] if found else []


def _unstorable(value: Any, where: str, left: int) -> FieldError | None:
    """The first NUL, which PostgreSQL cannot store, or where it nests too deeply to be read."""
    if isinstance(value, str):
        return _nul(where) if "\0" in value else None
    if not isinstance(value, dict | list):
        return None
    if left == 0:
        return FieldError(where[:200], f"is nested deeper than {DEPTH_LIMIT} levels; flatten it")
    if isinstance(value, dict):
        for key, inner in value.items():
            if "\0" in key:
                return _nul(where)
            if _may_be_wrong(inner) and (found := _unstorable(inner, f"{where}.{key}", left - 1)):
                return found
    else:
        for index, inner in enumerate(value):
            if _may_be_wrong(inner) and (
                found := _unstorable(inner, f"{where}[{index}]", left - 1)
            ):
                return found
    return None


def _may_be_wrong(value: Any) -> bool:
    """Most values are plain, and where they stand need not be spelled out."""
    return "\0" in value if isinstance(value, str) else isinstance(value, dict | list)


def _nul(where: str) -> FieldError:
    return FieldError(where, "contains a NUL character; remove it")
