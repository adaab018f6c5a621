"""What travels keeps its promise: examples are real, and schemas only grow."""

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from lily.events import schemas

FROZEN = Path(__file__).parent / "schemas"
_encode = msgspec.json.Encoder().encode


@pytest.mark.parametrize("name", schemas.names())
def test_an_example_is_read_and_written_back_as_it_was(name: str) -> None:
    example = schemas.example(name)
    again = msgspec.json.decode(_encode(schemas.decoded(name, _encode(example))))
    assert again == example


@pytest.mark.parametrize("name", schemas.names())
def test_an_example_follows_its_schema(name: str) -> None:
    schema = schemas.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(schemas.example(name))
    assert schema["$id"] == f"urn:lily:schema:1:{name}"


@pytest.mark.parametrize("name", sorted(path.stem for path in FROZEN.glob("*.json")))
def test_a_schema_of_the_last_release_still_holds(name: str) -> None:
    """Freeze new schemas with `python -m tests.contract.freeze` when they are released."""
    frozen = msgspec.json.decode((FROZEN / f"{name}.json").read_bytes())
    assert name in schemas.names(), f"{name} is gone"
    assert breaks(frozen["$defs"], schemas.schema(name)["$defs"]) == []


def test_every_schema_is_frozen() -> None:
    assert {path.stem for path in FROZEN.glob("*.json")} == set(schemas.names())


def test_a_break_is_found() -> None:
    old = {"A": {"properties": {"x": {"type": "string"}, "y": {}}, "required": ["x"]}}
    new = {"A": {"properties": {"x": {"type": "integer"}, "z": {}}, "required": ["x", "z"]}}
    assert breaks(old, new) == [
        "A.x is no longer {'type': 'string'}", "A.y is gone", "A.z is required now",
    ]  # fmt: skip
    assert breaks(old, {}) == ["A is gone"]


def breaks(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What a reader or writer of the old schemas would stumble over."""
    found = []
    for name, before in old.items():
        after = new.get(name)
        if after is None:
            found.append(f"{name} is gone")
            continue
        known = before.get("properties", {})
        for field, kind in known.items():
            if field not in after["properties"]:
                found.append(f"{name}.{field} is gone")
            elif not _accepts(after["properties"][field], kind):
                found.append(f"{name}.{field} is no longer {kind}")
        added = set(after.get("required", ())) - set(before.get("required", ()))
        found += [f"{name}.{field} is required now" for field in sorted(added)]
    return found


def _accepts(after: dict[str, Any], before: dict[str, Any]) -> bool:
    """The same, or a choice that has all the old choices."""
    if {**after, "description": None} == {**before, "description": None}:
        return True
    for choice in ("anyOf", "enum"):
        if choice in before:
            return all(each in after.get(choice, ()) for each in before[choice])
    return before in after.get("anyOf", ())
