"""The graph around an asset, as it is shown."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from lily.lineage.edges import Edge
from lily.lineage.labels import turned

Direction = Literal["upstream", "downstream", "both"]
DEEPEST = 20
MOST = 200_000  # nodes of one walk; behind it the answer says that it is cut
Columns = Mapping[tuple[str, str, str], list[Edge]]  # by upstream, downstream and type
_WAYS = {1: "downstream", 2: "upstream", 3: "both"}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the graph somebody wants to see."""

    direction: Direction = "downstream"
    depth: int = 5
    fields: bool = False  # whether the root is a column: then columns are walked
    labels: Sequence[str] = ()
    kinds: Sequence[str] = ()
    deleted: bool = False
    limit: int = 1000
    most: int = MOST
    after: tuple[int, UUID] = (-1, UUID(int=0))


class Node(msgspec.Struct, array_like=True):
    """An asset of the graph. Ids stay the text that the store gives and a reader gets."""

    caller_id: str | None
    guid: str
    qualified_name: str
    asset_name: str
    asset_type: str
    depth: int
    way: int
    tags: list[str]
    is_deleted: bool
    health: str | None = None

    @property
    def asset_id(self) -> str:
        return self.caller_id or self.guid


class Line(msgspec.Struct, array_like=True):
    """An edge between two nodes; of an implied one no more than that is known."""

    id: str
    upstream: str
    downstream: str
    implied: bool
    type: str
    level: str | None
    process: str | None
    transformation: str | None
    masking: bool | None
    origin: str | None
    properties: dict[str, Any] | None
    source: str | None
    deleted_by: str | None
    updated_at: datetime | None


class Page(msgspec.Struct):
    nodes: list[Node]
    edges: list[Line]
    more: bool
    cut: bool

    @property
    def end(self) -> tuple[int, str]:
        return self.nodes[-1].depth, self.nodes[-1].guid


def shown(page: Page, columns: Columns | None) -> dict[str, Any]:
    """Nodes and edges, as everybody reads them; `columns` are those of each table edge."""
    ids = {node.guid: node.asset_id for node in page.nodes}
    return {
        "nodes": [_node(node) for node in page.nodes],
        "edges": [_line(line, ids, columns) for line in page.edges],
    }


def _node(node: Node) -> dict[str, Any]:
    made = {
        "asset_id": node.asset_id, "guid": node.guid, "qualified_name": node.qualified_name,
        "asset_name": node.asset_name, "asset_type": node.asset_type, "depth": node.depth,
        "direction": "root" if node.depth == 0 else _WAYS[node.way], "tags": node.tags,
    }  # fmt: skip
    if node.health:
        made["health"] = node.health
    return {**made, "is_deleted": True} if node.is_deleted else made


def _line(line: Line, ids: Mapping[str, str], columns: Columns | None) -> dict[str, Any]:
    start, end = turned(line.type, line.upstream, line.downstream)
    made: dict[str, Any] = {
        "edge_id": line.id, "from_asset_id": ids.get(start, start),
        "to_asset_id": ids.get(end, end), "from": start, "to": end,
        "upstream": line.upstream, "downstream": line.downstream, "relationship_type": line.type,
        "level": line.level or "table", "implied": line.implied, "process": line.process,
        "transformation": line.transformation, "masking": bool(line.masking),
        "origin": line.origin or "source", "source": line.source,
    }  # fmt: skip
    if line.properties:
        made["properties"] = line.properties
    if line.deleted_by:
        made |= {"is_deleted": True, "deleted_by": line.deleted_by}
    if columns is not None:
        found = columns.get((line.upstream, line.downstream, line.type), [])
        made["columns"] = [column(each) for each in found]
    return made


def column(edge: Edge) -> dict[str, Any]:
    """A column edge within its table edge."""
    start, end = turned(edge.type, edge.upstream, edge.downstream)
    return {
        "edge_id": edge.id, "from": start, "to": end, "transformation": edge.transformation,
        "masking": edge.masking,
    }  # fmt: skip


def public(edge: Edge, ids: Mapping[UUID, str] | None = None) -> dict[str, Any]:
    """One edge by itself."""
    start, end = turned(edge.type, edge.upstream, edge.downstream)
    known = ids or {}
    made: dict[str, Any] = {
        "edge_id": edge.id, "from_asset_id": known.get(start, str(start)),
        "to_asset_id": known.get(end, str(end)), "from": start, "to": end,
        "upstream": edge.upstream, "downstream": edge.downstream, "relationship_type": edge.type,
        "level": edge.level, "process": edge.process, "transformation": edge.transformation,
        "masking": edge.masking, "origin": edge.origin, "source": edge.source,
        "properties": edge.properties or {}, "version": edge.version,
        "is_deleted": edge.deleted_by is not None, "created_at": edge.created_at,
        "updated_at": edge.updated_at,
    }  # fmt: skip
    return {**made, "deleted_by": edge.deleted_by} if edge.deleted_by else made


def counted(pairs: Iterable[tuple[str | None, int]]) -> dict[str, int]:
    """Counts by name, most first; nobody's count under the empty name."""
    return {name or "": count for name, count in sorted(pairs, key=lambda p: (-p[1], p[0] or ""))}
