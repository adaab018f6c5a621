"""JSON Schemas of everything that travels, made from the types themselves.

A schema may gain optional fields within its version; anything else is a new version.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, get_args

import msgspec

from lily.events.envelope import Envelope
from lily.events.facts import Fact, FactKind
from lily.events.lineage import EDGE_OBSERVATIONS
from lily.events.observations import AssetGone, AssetSeen, Nothing, RunSeen
from lily.events.signals import SignalSeen

VERSION = 1
DIALECT = "https://json-schema.org/draft/2020-12/schema"
OBSERVATIONS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (AssetSeen, AssetGone, *EDGE_OBSERVATIONS, RunSeen, SignalSeen, Nothing)
}
FACTS: tuple[str, ...] = get_args(FactKind)


def names() -> list[str]:
    return ["Envelope", "Fact", *OBSERVATIONS, *FACTS]


@lru_cache(maxsize=256)
def schema(name: str) -> dict[str, Any]:
    """The schema of an observation, a fact, or the envelope. KeyError for what does not exist."""
    if name in FACTS:
        return _titled(name, _fact(name))
    return _titled(
        name, msgspec.json.schema({"Envelope": Envelope, "Fact": Fact, **OBSERVATIONS}[name])
    )


def identifier(name: str) -> str:
    return f"urn:lily:schema:{VERSION}:{name}"


def example(name: str) -> dict[str, Any]:
    """An example of each, as it is written on the wire."""
    text = (resources.files("lily.events") / "examples" / f"{name}.json").read_bytes()
    value: dict[str, Any] = msgspec.json.decode(text)
    return value


def decoded(name: str, data: bytes) -> object:
    """A message of that name, strictly."""
    if name in FACTS or name == "Fact":
        return msgspec.json.decode(data, type=Fact)
    kinds: Mapping[str, type] = {"Envelope": Envelope, **OBSERVATIONS}
    return msgspec.json.decode(data, type=kinds[name])


def _fact(kind: str) -> dict[str, Any]:
    """The schema of all facts, for one kind."""
    made = msgspec.json.schema(Fact)
    properties = made["$defs"]["Fact"]["properties"]
    properties["kind"] = {"const": kind}
    made["$defs"] = {kind: made["$defs"]["Fact"]}
    return {**made, "$ref": f"#/$defs/{kind}"}


def _titled(name: str, made: dict[str, Any]) -> dict[str, Any]:
    head = {"$schema": DIALECT, "$id": identifier(name), "title": name}
    return {**head, **made, "examples": [example(name)]}
