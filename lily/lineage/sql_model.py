"""What a SQL statement says of lineage, in the words of the statement."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

Why = Literal["filter", "join", "group", "sort", "window"]
Missing = Literal["syntax", "statement", "relation", "column", "star", "output"]


class Relation(msgspec.Struct, frozen=True, order=True):
    """A table or view by name; parts that neither the statement nor its defaults give are None."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)


class Origin(msgspec.Struct, frozen=True, order=True):
    """A column that something is made of."""

    relation: Relation
    column: str

    def __str__(self) -> str:
        return f"{self.relation}.{self.column}"


class Derived(msgspec.Struct, frozen=True):
    """A column that is made of another; `transformation` is how, None when it is copied."""

    origin: Origin
    column: str
    transformation: str | None = None


class Influence(msgspec.Struct, frozen=True):
    """A column that decides which rows there are or how they are arranged.

    It bears on the whole target, or where `column` is given on that column alone.
    """

    origin: Origin
    why: tuple[Why, ...]
    column: str | None = None


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be parsed or resolved, and is therefore not in the lineage."""

    missing: Missing
    message: str


class SqlLineage(msgspec.Struct, frozen=True):
    """What one statement says: `target` is None for a bare SELECT and for a view's definition.

    `tables` are read without a column of theirs being traced: counted rows, unresolved stars.
    """

    kind: str
    target: Relation | None = None
    columns: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()
    influences: tuple[Influence, ...] = ()
    tables: tuple[Relation, ...] = ()
    problems: tuple[Problem, ...] = ()
    temporary: bool = False


ColumnsOf = Callable[[Relation], Sequence[str] | None]
"""The columns of a relation in their order; None for one that the catalog does not know."""
