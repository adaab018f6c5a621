"""The columnLineage facet as edges between columns; what masks a value is kept."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from lily.events.lineage import Edge
from lily.lineage.labels import DEFAULT, INFLUENCES
from lily.lineage.names import column
from lily.lineage.openlineage_facets import name_of, named
from lily.lineage.openlineage_model import Dataset, converted

UNCHANGED = ("IDENTITY", "")


class Transformation(msgspec.Struct, omit_defaults=True):
    type: str = "DIRECT"
    subtype: str | None = None
    description: str | None = None
    masking: bool | None = None


class InputField(msgspec.Struct):
    namespace: str
    name: str
    field: str
    transformations: list[Transformation] | None = None


class Made(msgspec.Struct, rename="camel"):
    input_fields: list[InputField] | None = None
    transformation_description: str | None = None
    transformation_type: str | None = None


class ColumnLineage(msgspec.Struct):
    fields: dict[str, Made] | None = None
    dataset: list[InputField] | None = None


def edges(output: Dataset, field: str, process: str) -> list[Edge]:
    """All that the facet of an output says; an edge that is said twice is there once."""
    given = (output.facets or {}).get("columnLineage")
    if given is None:
        return []
    facet = converted(given, ColumnLineage, f"{field}.facets.columnLineage")
    target = name_of(output)
    found: dict[tuple[str, str, str], Edge] = {}
    for edge in (*_of_columns(facet, target, process), *_of_whole(facet, target, process)):
        key = (edge.from_name, edge.to_name, edge.relationship_type)
        if edge.from_name == edge.to_name:
            continue  # a column that is updated in place comes from nowhere else
        known = found.get(key)
        # Where one way masks and another does not, the value comes through.
        if known is None or (known.masking and not edge.masking):
            found[key] = edge
    return list(found.values())


def _of_columns(facet: ColumnLineage, target: str, process: str) -> Iterator[Edge]:
    for name, made in (facet.fields or {}).items():
        for each in made.input_fields or ():
            ways = each.transformations or [_old(made)]
            direct = [way for way in ways if way.type.upper() != "INDIRECT"]
            indirect = [way for way in ways if way.type.upper() == "INDIRECT"]
            to = column(target, name)
            if direct:
                yield _edge(each, to, DEFAULT, direct, process)
            if indirect:
                yield _edge(each, to, INFLUENCES, indirect, process)


def _of_whole(facet: ColumnLineage, target: str, process: str) -> Iterator[Edge]:
    """Columns that bear on every row of the output, by a filter or a join."""
    for each in facet.dataset or ():
        yield _edge(each, target, INFLUENCES, each.transformations or (), process)


def _old(made: Made) -> Transformation:
    """As events before 1-1-0 said it, of all inputs of a column together."""
    kind = (made.transformation_type or "").upper()
    masked = True if kind == "MASKED" else None
    return Transformation("DIRECT", kind or None, made.transformation_description, masked)


def _edge(
    origin: InputField, to: str, label: str, ways: Sequence[Transformation], process: str
) -> Edge:
    masked = bool(ways) and all(way.masking for way in ways)
    return Edge(
        from_name=column(named(origin.namespace, origin.name), origin.field),
        to_name=to,
        relationship_type=label,
        process=process,
        transformation=_text(ways),
        masking=masked if label == DEFAULT else None,
        properties=_kept(ways),
    )


def _text(ways: Sequence[Transformation]) -> str | None:
    said = [way.description or way.subtype or "" for way in ways]
    shown = [each for each in dict.fromkeys(said) if each.upper() not in UNCHANGED]
    return "; ".join(shown) or None


def _kept(ways: Sequence[Transformation]) -> dict[str, Any] | None:
    kept = [msgspec.to_builtins(way) for way in ways if way.subtype or way.description]
    return {"transformations": kept} if kept else None
