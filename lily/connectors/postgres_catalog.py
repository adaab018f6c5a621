"""What PostgreSQL's catalog says of one database, read in one snapshot."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
from psycopg.rows import class_row

from lily.connectors.postgres_names import Place

BATCH = 500
CAPTURE = "lily_capture"  # the schema of our own triggers

DATABASES = """
SELECT datname FROM pg_database
 WHERE datallowconn AND NOT datistemplate AND has_database_privilege(oid, 'CONNECT')
 ORDER BY datname
"""
DATABASE = """
SELECT shobj_description(oid, 'pg_database') AS comment, pg_get_userbyid(datdba) AS owner,
       pg_encoding_to_char(encoding) AS encoding
  FROM pg_database WHERE datname = current_database()
"""
SCHEMAS = """
SELECT n.nspname AS name, obj_description(n.oid, 'pg_namespace') AS comment,
       pg_get_userbyid(n.nspowner) AS owner
  FROM pg_namespace n
 WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'lily_capture')
   AND obj_description(n.oid, 'pg_namespace') IS DISTINCT FROM 'Masking views, kept by Lily'
   AND (%(schema)s::text IS NULL OR n.nspname = %(schema)s)
 ORDER BY n.nspname
"""
RELATIONS = """
SELECT c.oid::int8 AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       obj_description(c.oid, 'pg_class') AS comment, c.reltuples::float8 AS rows,
       pg_get_userbyid(c.relowner) AS owner,
       CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END AS definition,
       CASE WHEN c.relispartition THEN pg_get_expr(c.relpartbound, c.oid) END AS bound,
       CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END AS partition_key,
       pn.nspname AS parent_schema, pc.relname AS parent_name
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition
  LEFT JOIN pg_class pc ON pc.oid = i.inhparent
  LEFT JOIN pg_namespace pn ON pn.oid = pc.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'
   AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'lily_capture')
   AND obj_description(n.oid, 'pg_namespace') IS DISTINCT FROM 'Masking views, kept by Lily'
   AND (%(schema)s::text IS NULL OR n.nspname = %(schema)s)
   AND (%(relation)s::text IS NULL OR c.relname = %(relation)s)
   AND (%(after_schema)s::text IS NULL
     OR (n.nspname, c.relname) > (%(after_schema)s::name, %(after_relation)s::name))
 ORDER BY n.nspname, c.relname
"""
COLUMNS = """
SELECT a.attrelid::int8 AS relation, a.attname AS name, a.attnum AS ordinal,
       format_type(a.atttypid, a.atttypmod) AS type,
       NOT (a.attnotnull OR (t.typtype = 'd' AND t.typnotnull)) AS nullable,
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END AS "default",
       CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END AS generated,
       a.attidentity <> '' AS identity, col_description(a.attrelid, a.attnum) AS comment
  FROM pg_attribute a
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum
"""
KEYS = """
SELECT k.conrelid::int8 AS relation, k.conname AS name, k.contype::text AS kind,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u (n, o)
               JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n
              ORDER BY u.o) AS columns,
       rn.nspname AS to_schema, rc.relname AS to_name,
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u (n, o)
               JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n
              ORDER BY u.o) AS to_columns
  FROM pg_constraint k
  LEFT JOIN pg_class rc ON rc.oid = k.confrelid
  LEFT JOIN pg_namespace rn ON rn.oid = rc.relnamespace
 WHERE k.conrelid = ANY(%s::oid[]) AND k.contype IN ('p', 'u', 'f')
 ORDER BY k.conrelid, k.conname
"""
# A view is a rewrite rule; what the rule depends on is what the view reads.
READS = """
SELECT DISTINCT r.ev_class::int8, n.nspname, c.relname, c.oid::int8
  FROM pg_rewrite r
  JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
   AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class
  JOIN pg_class c ON c.oid = d.refobjid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname !~ '^pg_'
   AND n.nspname <> 'information_schema'
 WHERE r.ev_class = ANY(%s::oid[])
 ORDER BY 1, 2, 3
"""


class Column(msgspec.Struct, frozen=True):
    relation: int
    name: str
    ordinal: int
    type: str
    nullable: bool
    default: str | None
    generated: str | None
    identity: bool
    comment: str | None


class Key(msgspec.Struct, frozen=True):
    """A primary (p), unique (u) or foreign (f) key."""

    relation: int
    name: str
    kind: str
    columns: list[str]
    to_schema: str | None
    to_name: str | None
    to_columns: list[str]


class Relation(msgspec.Struct):
    """A table, view, materialised view, partition or foreign table with all that is in it."""

    oid: int
    schema: str
    name: str
    kind: str
    comment: str | None
    rows: float
    owner: str
    definition: str | None
    bound: str | None
    partition_key: str | None
    parent_schema: str | None
    parent_name: str | None
    columns: list[Column] = []
    keys: list[Key] = []
    reads: list[tuple[str, str]] = []
    sources: dict[tuple[str, str], list[str]] = {}  # the columns of what a view reads


class Schema(msgspec.Struct, frozen=True):
    name: str
    comment: str | None
    owner: str


def relations(
    conn: psycopg.Connection, place: Place, after: tuple[str, str] | None
) -> Iterator[list[Relation]]:
    """In the order of their names, in batches: however many there are, memory holds one."""
    values = {
        "schema": place.schema,
        "relation": place.relation,
        "after_schema": after[0] if after else None,
        "after_relation": after[1] if after else None,
    }
    with conn.cursor("lily_relations", row_factory=class_row(Relation)) as rows:
        rows.execute(RELATIONS, values)
        while batch := rows.fetchmany(BATCH):
            _complete(conn, batch)
            yield batch


def _complete(conn: psycopg.Connection, batch: list[Relation]) -> None:
    oids = [relation.oid for relation in batch]
    columns = _grouped(conn, COLUMNS, Column, oids)
    keys = _grouped(conn, KEYS, Key, oids)
    reads: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    for view, schema, name, oid in conn.execute(READS, [oids]):
        reads[view][schema, name] = oid
    read = sorted({oid for each in reads.values() for oid in each.values()} - set(oids))
    elsewhere = _grouped(conn, COLUMNS, Column, read) if read else {}
    for relation in batch:
        relation.columns = columns[relation.oid]
        relation.keys = keys[relation.oid]
        relation.reads = list(reads[relation.oid])
        relation.sources = {
            name: [each.name for each in columns.get(oid) or elsewhere.get(oid, [])]
            for name, oid in reads[relation.oid].items()
        }


def _grouped(
    conn: psycopg.Connection, query: str, kind: type[Any], oids: list[int]
) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    with conn.cursor(row_factory=class_row(kind)) as rows:
        for row in rows.execute(query.encode(), [oids]):
            found[row.relation].append(row)
    return found


def schemas(conn: psycopg.Connection, place: Place) -> list[Schema]:
    with conn.cursor(row_factory=class_row(Schema)) as rows:
        return rows.execute(SCHEMAS, {"schema": place.schema}).fetchall()


def is_lilys_own(conn: psycopg.Connection) -> bool:
    row = conn.execute("SELECT to_regclass('lily.migration') IS NOT NULL").fetchone()
    return bool(row and row[0])
