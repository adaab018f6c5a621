"""Hook `rename`: one vocabulary, whatever a source calls things."""

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lily.sdk import AssetGone, AssetSeen, Observation

FIELDS = (
    "asset_name",
    "asset_type",
    "asset_owner",
    "description",
    "parent_id",
    "data_source",
    "external_id",
)
Place = tuple[str, str | None]  # a field, and the key in it where the field is metadata
Step = Literal["lower", "upper", "strip"] | dict[str, str]

STEPS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "strip": str.strip,
}


def _movable(name: str) -> str:
    if name in FIELDS or (name.startswith("metadata.") and len(name) > len("metadata.")):
        return name
    raise ValueError(f"not a field that can be renamed; use {', '.join(FIELDS)} or metadata.<key>")


def _known(name: str) -> str:
    return name if name == "qualified_name" else _movable(name)


def _unchained(pairs: dict[str, str]) -> dict[str, str]:
    """Doing it twice must be doing it once."""
    for old, new in pairs.items():
        if new in pairs and new != old:
            raise ValueError(f"{new!r} is both an old and a new name; map each straight to its end")
    return pairs


def _steps(value: Step | list[Step]) -> list[Step]:
    steps = value if isinstance(value, list) else [value]
    for step in steps:
        if isinstance(step, dict):
            _unchained(step)
    return steps


Name = Annotated[str, AfterValidator(_movable)]


class Rename:
    """Moves fields, normalises values, renames tags and drops metadata keys, in that order."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        fields: Annotated[dict[Name, Name], AfterValidator(_unchained)] = Field(
            default={},
            max_length=200,
            description="From → to: fields or metadata.<key>. A target with a value is kept, and"
            " so is then what would have replaced it.",
        )
        values: dict[
            Annotated[str, AfterValidator(_known)],
            Annotated[Step | list[Step], AfterValidator(_steps)],
        ] = Field(
            default={},
            max_length=200,
            description="Per field: lower, upper, strip, a map {old: new}, or a list.",
        )
        tags: Annotated[dict[str, str], AfterValidator(_unchained)] = Field(
            default={}, description="Old tag → new tag."
        )
        drop: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
            default=[], max_length=200, description="Metadata keys to leave out; * and ? are wild."
        )

    def __init__(self, options: Options) -> None:
        self._moves = [(_place(a), _place(b)) for a, b in options.fields.items() if a != b]
        self._values = [(_place(name), _function(steps)) for name, steps in options.values.items()]
        self._name = next((f for place, f in self._values if place[0] == "qualified_name"), None)
        self._tags = options.tags
        self._exact = frozenset(key for key in options.drop if not _wild(key))
        globs = [translate(key) for key in options.drop if _wild(key)]
        self._globs = re.compile("|".join(globs)).match if globs else None

    def __call__(self, seen: Observation) -> Observation | None:
        if isinstance(seen, AssetGone):
            return self._gone(seen)
        changed: dict[str, Any] = {}
        for source, target in self._moves:
            _move(seen, changed, source, target)
        for place, function in self._values:
            value = _get(seen, changed, place)
            if isinstance(value, str) and (new := function(value)) != value:
                _put(seen, changed, place, new)
        if self._tags:
            self._rename_tags(seen, changed)
        if self._exact or self._globs:
            self._drop(seen, changed)
        return msgspec.structs.replace(seen, **changed) if changed else seen

    def _gone(self, seen: AssetGone) -> AssetGone:
        """What was stored under another name must also go under that name."""
        if self._name is None or (new := self._name(seen.qualified_name)) == seen.qualified_name:
            return seen
        return msgspec.structs.replace(seen, qualified_name=new)

    def _rename_tags(self, seen: AssetSeen, changed: dict[str, Any]) -> None:
        if seen.tags is UNSET or self._tags.keys().isdisjoint(seen.tags):
            return
        new = [self._tags.get(tag, tag) for tag in seen.tags]
        changed["tags"] = list(dict.fromkeys(new))

    def _drop(self, seen: AssetSeen, changed: dict[str, Any]) -> None:
        metadata = changed.get("metadata", seen.metadata)
        if not metadata:
            return
        unwanted = self._exact & metadata.keys()
        if self._globs is not None:
            unwanted |= {key for key in metadata if self._globs(key)}
        if unwanted:
            changed["metadata"] = {k: v for k, v in metadata.items() if k not in unwanted}


def _place(name: str) -> Place:
    field, dot, key = name.partition(".")
    return (field, key) if dot else (field, None)


def _wild(key: str) -> bool:
    return any(mark in key for mark in "*?[")


def _function(steps: Step | list[Step]) -> Callable[[str], str]:
    functions = [
        _by_map(step) if isinstance(step, Mapping) else STEPS[step] for step in _steps(steps)
    ]
    if len(functions) == 1:
        return functions[0]

    def all_of_them(value: str) -> str:
        for function in functions:
            value = function(value)
        return value

    return all_of_them


def _by_map(pairs: Mapping[str, str]) -> Callable[[str], str]:
    return lambda value: pairs.get(value, value)


def _get(seen: AssetSeen, changed: dict[str, Any], place: Place) -> Any:
    field, key = place
    value = changed[field] if field in changed else getattr(seen, field)
    if key is None:
        return value
    return value.get(key, UNSET) if value else UNSET


def _put(seen: AssetSeen, changed: dict[str, Any], place: Place, value: Any) -> None:
    field, key = place
    if key is None:
        changed[field] = value
        return
    if "metadata" not in changed:  # the observation's own map is never written to
        changed["metadata"] = dict(seen.metadata or {})
    if value is UNSET:
        changed["metadata"].pop(key, None)
    else:
        changed["metadata"][key] = value


def _move(seen: AssetSeen, changed: dict[str, Any], source: Place, target: Place) -> None:
    value = _get(seen, changed, source)
    if value is UNSET or _get(seen, changed, target) not in (UNSET, None):
        return
    if target[1] is None and value is not None:
        if isinstance(value, dict | list):
            return  # a field is text; what does not fit stays where it is
        value = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    _put(seen, changed, source, UNSET)
    _put(seen, changed, target, value)
