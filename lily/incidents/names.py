"""Which asset a tool means: names compared without case, quotes, or the choice of separators."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

_QUOTES = re.compile(r"[\"'`\[\]]")
_SEPARATORS = re.compile(r"[:/\\.]+")
TABLES = frozenset({"table", "view", "materialized view", "external table", "model", "entity"})


class Candidate(msgspec.Struct, frozen=True):
    """An asset that has all the words of a name."""

    guid: UUID
    qualified_name: str
    asset_type: str


def parts(name: str) -> tuple[str, ...]:
    """`Zeus:"Ares".artemis` and `zeus.ares.ARTEMIS` are the same three parts."""
    plain = _QUOTES.sub("", unicodedata.normalize("NFC", name)).lower()
    return tuple(part.strip() for part in _SEPARATORS.split(plain) if part.strip())


def fitting(found: Iterable[Candidate], name: str) -> list[Candidate]:
    """Those whose qualified name ends in this name; tables before everything else."""
    wanted = parts(name)
    fit = [each for each in found if parts(each.qualified_name)[-len(wanted) :] == wanted]
    tables = [each for each in fit if each.asset_type.lower() in TABLES]
    return tables or fit


def whole(group: str | None, table: str | None) -> str | None:
    """The name of a table in a group, unless it carries the group's name already."""
    if not group or not table:
        return None
    inside, outside = parts(table), parts(group)
    return None if inside[: len(outside)] == outside else f"{group}.{table}"


def usable(names: Sequence[str | None], most: int = 20) -> list[str]:
    """Each name once, best first."""
    return list(dict.fromkeys(name for name in names if name and parts(name)))[:most]
