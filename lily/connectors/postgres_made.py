"""Lineage of tables that a query made: what capture noted of CREATE TABLE AS and SELECT INTO."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import psycopg

from lily.connectors.postgres_catalog import Relation
from lily.connectors.postgres_names import Names
from lily.lineage import sql
from lily.lineage.sql_model import Relation as Named
from lily.lineage.sql_model import SqlLineage
from lily.sdk import EdgeSeen

IS_NOTED = """
SELECT c.oid IS NOT NULL AND has_schema_privilege(c.relnamespace, 'USAGE')
       AND has_table_privilege(c.oid, 'SELECT')
  FROM (SELECT to_regclass('lily_capture.made')) t (oid) LEFT JOIN pg_class c ON c.oid = t.oid
"""
NOTED = "SELECT relation::int8, sql, path FROM lily_capture.made WHERE relation = ANY(%s::oid[])"
# A name without a schema means the first of the path that has it.
FOUND = """
SELECT n.nspname, ARRAY(SELECT a.attname::text FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = %(name)s AND n.nspname = ANY(%(path)s::text[])
   AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
 ORDER BY array_position(%(path)s::text[], n.nspname::text) LIMIT 1
"""


class Made(msgspec.Struct, frozen=True):
    """The statement that made a table, and where it looked for names without a schema."""

    sql: str
    path: list[str]


def noted(conn: psycopg.Connection, batch: Sequence[Relation]) -> dict[int, Made]:
    """What capture noted of these, as far as it is installed and may be read."""
    row = conn.execute(IS_NOTED).fetchone()
    if not row or not row[0]:
        return {}
    rows = conn.execute(NOTED, [[each.oid for each in batch]])
    return {oid: Made(said, path) for oid, said, path in rows}


def edges_of(
    conn: psycopg.Connection,
    names: Names,
    database: str,
    relation: Relation,
    made: Made,
    wants: Callable[[str], bool],
) -> Iterator[EdgeSeen]:
    """What a table was made of, by column where the statement makes it clear."""
    found: dict[Named, tuple[str, list[str]] | None] = {}

    def look(named: Named) -> tuple[str, list[str]] | None:
        if named not in found:
            path = [named.schema] if named.schema else made.path
            row = conn.execute(FOUND, {"name": named.name, "path": path}).fetchone()
            found[named] = (row[0], row[1]) if row else None
        return found[named]

    def columns_of(named: Named) -> Sequence[str] | None:
        place = look(named)
        return place[1] if place else None

    def name_of(named: Named) -> str:
        place = look(named)
        schema = place[0] if place else named.schema or relation.schema
        return names.relation(database, schema, named.name)

    own = names.relation(database, relation.schema, relation.name)
    said = _statement(sql.of_script(made.sql, "postgres", None, columns_of), relation.name)
    if said is None:
        return
    for edge in sql.edges(said, own, name_of, None):
        place = names.place(edge.from_name)
        if place is not None and wants(f"{place.schema}.{place.relation}"):
            yield EdgeSeen(**msgspec.structs.asdict(edge))


def _statement(statements: Sequence[SqlLineage], name: str) -> SqlLineage | None:
    """The one that makes this table; a table may have another name by now."""
    making = [each for each in statements if each.target is not None]
    named = [each for each in making if each.target is not None and each.target.name == name]
    if named:
        return named[-1]
    return making[0] if len(making) == 1 else None
