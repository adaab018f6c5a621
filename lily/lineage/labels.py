"""What the label of an edge means: which end is upstream, and what travels along it."""

from typing import TypeVar

DEFAULT = "derived-from"
CONTAINS = "contains"  # sets the parent of `to`, and is no lineage
INFLUENCES = "influences"  # decides which rows there are, but gives them no value
REFERENCES = "references"  # a foreign key: `from` points to `to`

# The one that depends is named first.
REVERSED = frozenset({"depends-on", "uses", REFERENCES})
# Labels along which tags do not travel unless a definition or a rule names them. Along all
# others, unknown ones too, they do.
CARRIES_NOT = frozenset({INFLUENCES, REFERENCES, CONTAINS})

End = TypeVar("End")


def carries(label: str) -> bool:
    """Whether tags travel along edges of this label by default."""
    return label not in CARRIES_NOT


def is_reversed(label: str) -> bool:
    """Whether the data flows from `to` to `from`."""
    return label in REVERSED


def turned(label: str, one: End, other: End) -> tuple[End, End]:
    """From (from, to) to (upstream, downstream), and back."""
    return (other, one) if label in REVERSED else (one, other)
