"""What an edge may look like. The same rules at the API and in the pipeline."""

from lily.errors import FieldError
from lily.events.limits import NAME_LIMIT, TEXT_LIMIT, mapping_problems, text_problems
from lily.events.lineage import Edge, EdgeGone, EdgeObservation, LineageStated

LABEL_LIMIT = 256
EDGES_LIMIT = 100_000


def problems(seen: EdgeObservation) -> list[FieldError]:
    """Everything that is wrong with it, each with its field and the cure."""
    if not isinstance(seen, LineageStated):
        return of_edge(seen)
    found = _name(seen.job, "job")
    if len(seen.edges) > EDGES_LIMIT:
        return [*found, FieldError("edges", f"has more than {EDGES_LIMIT} entries")]
    for index, edge in enumerate(seen.edges):
        found += [FieldError(f"edges[{index}].{e.field}", e.message) for e in of_edge(edge)]
        if len(found) > 100:
            break
    return found


def of_edge(edge: Edge | EdgeGone) -> list[FieldError]:
    found = _name(edge.from_name, "from_name") + _name(edge.to_name, "to_name")
    label = edge.relationship_type
    if not label.strip():
        found.append(FieldError("relationship_type", "must not be empty; leave it out"))
    found += text_problems(label, "relationship_type", LABEL_LIMIT)
    if isinstance(edge, EdgeGone):
        return found
    for field, limit in (("process", NAME_LIMIT), ("transformation", TEXT_LIMIT)):
        if (value := getattr(edge, field)) is not None:
            found += text_problems(value, field, limit)
    if edge.properties is not None:
        found += mapping_problems(edge.properties, "properties")
    return found


def _name(value: str, field: str) -> list[FieldError]:
    if not value.strip():
        return [FieldError(field, "must not be empty; name an asset")]
    return text_problems(value, field, NAME_LIMIT)
