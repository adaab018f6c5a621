"""Two speeds. The lane is a function of the qualified name alone, so it never changes."""

from lily.types import Lane


def lane_of(qualified_name: str) -> Lane:
    """A name with an unescaped `#` is a column or field."""
    return "fields" if "#" in qualified_name else "core"


def parent_of(qualified_name: str) -> str | None:
    """The container that a field's own name tells; others state their parent."""
    parent, mark, _ = qualified_name.rpartition("#")
    return parent if mark else None
