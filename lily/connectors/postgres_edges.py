"""Lineage in a PostgreSQL: what views read, by column where it is clear, and foreign keys."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from lily.connectors.names import column
from lily.connectors.postgres_catalog import Key, Relation
from lily.connectors.postgres_names import Names
from lily.lineage import sql
from lily.lineage.labels import DEFAULT, REFERENCES
from lily.lineage.sql_model import Relation as Named
from lily.sdk import EdgeSeen

VIEWS = ("v", "m")


def edges_of(
    names: Names, database: str, relation: Relation, wants: Callable[[str], bool]
) -> Iterator[EdgeSeen]:
    """What it reads and what its foreign keys point to, as far as that is wanted."""
    own = names.relation(database, relation.schema, relation.name)
    for key in relation.keys:
        if key.kind == "f" and wants(f"{key.to_schema}.{key.to_name}"):
            yield from _reference(names, database, own, key)
    if relation.kind in VIEWS:
        read = [each for each in relation.reads if wants(".".join(each))]
        yield from _view(names, database, own, relation, read)


def _reference(names: Names, database: str, own: str, key: Key) -> Iterator[EdgeSeen]:
    if key.to_schema is None or key.to_name is None:
        return
    other = names.relation(database, key.to_schema, key.to_name)
    yield EdgeSeen(
        from_name=own, to_name=other, relationship_type=REFERENCES, process=key.name,
        properties={"columns": key.columns, "to_columns": key.to_columns},
    )  # fmt: skip


def _view(
    names: Names, database: str, own: str, relation: Relation, read: Sequence[tuple[str, str]]
) -> Iterator[EdgeSeen]:
    """What the catalog knows for sure, and what its definition says of columns."""
    for schema, name in read:
        yield EdgeSeen(
            from_name=names.relation(database, schema, name), to_name=own, relationship_type=DEFAULT
        )
    if not relation.definition:
        return

    def columns_of(named: Named) -> Sequence[str] | None:
        for (schema, name), columns in relation.sources.items():
            if name == named.name and named.schema in (None, schema):
                return columns
        return None

    def name_of(named: Named) -> str:
        schema = named.schema or next(
            (schema for schema, name in relation.reads if name == named.name), relation.schema
        )
        return names.relation(named.catalog or database, schema, named.name)

    said = sql.of_view(relation.definition, "postgres", relation.schema, columns_of)
    known = {names.relation(database, *each) for each in read}
    written = {each.name for each in relation.columns}
    for edge in sql.edges(said, own, name_of, None):
        top, mark, _ = edge.from_name.partition("#")
        target = edge.to_name.partition("#")[2]
        # The catalog is right where a parser may be wrong.
        clear = mark and top in known and (not target or _named(own, edge.to_name, written))
        if clear:
            yield EdgeSeen(**msgspec.structs.asdict(edge))


def _named(own: str, target: str, columns: set[str]) -> bool:
    return any(column(own, each) == target for each in columns)
