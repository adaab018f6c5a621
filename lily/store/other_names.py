"""What is said of an asset under another name of it goes to the asset: tables and their columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.assets.change import Message
from lily.assets.names import guid_of
from lily.events.lineage import Edge, LineageStated
from lily.events.observations import AssetSeen
from lily.lineage.edges import EdgeMessage
from lily.store import assets
from lily.store.runs import RunMessage

EXIST = "SELECT tenant, guid FROM asset WHERE tenant = ANY(%s) AND guid = ANY(%s)"

Named = tuple[int, str]
Word = Message | EdgeMessage | RunMessage
Said = tuple[int, Word]


def meant(
    conn: psycopg.Connection, tenant_id: Callable[[int], UUID], said: Sequence[Said]
) -> list[Said]:
    """The same with the assets' own names, where a statement asks for it; others are untouched."""
    wanted = {(t, _top(name)) for t, each in said for name in _names(each)}
    if not wanted:
        return list(said)
    own = _own_names(conn, tenant_id, wanted, stated(said))
    if not own:
        return list(said)
    return [(tenant, _renamed(tenant, each, own)) for tenant, each in said]


def stated(said: Iterable[tuple[int, Any]]) -> dict[Named, str]:
    """Other names that statements give, with the name of the asset."""
    return {
        (tenant, alias): each.seen.qualified_name
        for tenant, each in said
        if isinstance(each.seen, AssetSeen)
        for alias in each.seen.aliases or ()
    }


def save(conn: psycopg.Connection, tenant_id: Callable[[int], UUID], said: Iterable[Said]) -> None:
    found = stated(said)
    assets.save_aliases(
        conn, [(t, alias, guid_of(tenant_id(t), name)) for (t, alias), name in found.items()]
    )


def _names(message: Word) -> list[str]:
    seen = message.seen
    if isinstance(seen, AssetSeen):
        return [seen.qualified_name] if seen.aliases is not None else []
    if isinstance(seen, LineageStated):
        return [name for edge in seen.edges for name in (edge.from_name, edge.to_name)]
    return []


def _own_names(
    conn: psycopg.Connection,
    tenant_id: Callable[[int], UUID],
    wanted: set[Named],
    fresh: Mapping[Named, str],
) -> dict[Named, str]:
    """Of names that are no asset's own, the asset's."""
    tenants = sorted({tenant for tenant, _ in wanted})
    kept = assets.aliases(conn, tenants, [name for _, name in wanted])
    found = {key: name for key, name in fresh.items() if key in wanted}
    names = assets.names(conn, tenants, list(kept.values()))
    found |= {key: names[guid] for key, guid in kept.items() if key in wanted and guid in names}
    literal = {key: guid_of(tenant_id(key[0]), key[1]) for key in found}
    here = set(conn.execute(EXIST, [tenants, list(literal.values())])) if literal else set()
    return {key: name for key, name in found.items() if (key[0], literal[key]) not in here}


def _renamed(tenant: int, message: Word, own: Mapping[Named, str]) -> Word:
    def name(given: str) -> str:
        top = _top(given)
        return own.get((tenant, top), top) + given[len(top) :]

    seen = message.seen
    if isinstance(message, Message) and isinstance(seen, AssetSeen) and seen.aliases is not None:
        named = msgspec.structs.replace(seen, qualified_name=name(seen.qualified_name))
        return msgspec.structs.replace(message, seen=named)
    if isinstance(message, EdgeMessage) and isinstance(seen, LineageStated):
        edges = [_between(edge, name(edge.from_name), name(edge.to_name)) for edge in seen.edges]
        return msgspec.structs.replace(message, seen=LineageStated(job=seen.job, edges=edges))
    return message


def _between(edge: Edge, start: str, end: str) -> Edge:
    if start == edge.from_name and end == edge.to_name:
        return edge
    return msgspec.structs.replace(edge, from_name=start, to_name=end)


def _top(name: str) -> str:
    return name.partition("#")[0]
