"""What sources claim of lineage: single edges, or all that a job reads and writes."""

from typing import Any

import msgspec


class Edge(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Two assets by id, qualified name or alias, and how the one comes from the other.

    Which end is upstream is decided by the label: see `lily.lineage.labels`.
    """

    from_name: str
    to_name: str
    relationship_type: str = "derived-from"
    process: str | None = None
    transformation: str | None = None
    masking: bool | None = None
    properties: dict[str, Any] | None = None


class EdgeSeen(Edge, tag_field="type", tag="EdgeSeen", omit_defaults=True, kw_only=True):
    """A source's statement of one edge; its columns are edges of their own."""

    @property
    def qualified_name(self) -> str:
        """Under what it travels through the log: edges of columns with the columns."""
        return self.from_name if "#" in self.from_name else self.to_name

    @property
    def asset_id(self) -> None:
        """An edge has no own id of an asset."""
        return


class EdgeGone(msgspec.Struct, tag_field="type", tag="EdgeGone", omit_defaults=True, kw_only=True):
    """A source says that the edge is no longer there."""

    from_name: str
    to_name: str
    relationship_type: str = "derived-from"

    @property
    def qualified_name(self) -> str:
        return self.from_name if "#" in self.from_name else self.to_name

    @property
    def asset_id(self) -> None:
        return


class LineageStated(
    msgspec.Struct, tag_field="type", tag="LineageStated", omit_defaults=True, kw_only=True
):
    """All the edges of a job: what the same job said before and is not among them is gone.

    The envelope's source is `job:<namespace>/<name>`; an older statement changes nothing.
    """

    job: str
    edges: list[Edge]

    @property
    def qualified_name(self) -> str:
        return f"job:{self.job}".replace("#", "%23")

    @property
    def asset_id(self) -> None:
        return


EdgeObservation = EdgeSeen | EdgeGone | LineageStated
EDGE_OBSERVATIONS = (EdgeSeen, EdgeGone, LineageStated)
