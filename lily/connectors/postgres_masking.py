"""Views that show a protected table masked: one a table, in a schema of their own."""

import hashlib
from collections.abc import Mapping, Sequence

import psycopg
from psycopg import sql

from lily.connectors.postgres_rights import (
    ALL,
    ANYBODY,
    PUBLIC,
    Relation,
    Role,
    beyond_reach,
    grantee_of,
)
from lily.sdk.enforcers import Rule, Rules, Wanted

SCHEMA = "masked"
OURS = "Masking views, kept by Lily"  # the comment by which the crawler knows the schema
LONGEST = 63

TYPES = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
 WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
MADE = """
SELECT obj_description(c.oid, 'pg_class') FROM pg_class c JOIN pg_namespace n
    ON n.oid = c.relnamespace AND n.nspname = %s WHERE c.relname = %s
"""
PREPARE = """
DO $$ BEGIN
  IF to_regnamespace('masked') IS NULL THEN
    CREATE SCHEMA masked;
    COMMENT ON SCHEMA masked IS 'Masking views, kept by Lily';
    GRANT USAGE ON SCHEMA masked TO PUBLIC;
  END IF;
END $$
"""


def view_name(relation: Relation) -> str:
    name = f"{relation.schema}__{relation.name}"
    if len(name.encode()) <= LONGEST:
        return name
    return f"{name.encode()[:46].decode(errors='ignore')}_{_hash(name)}"


def drop(relation: Relation) -> sql.Composed:
    return sql.SQL("DROP VIEW IF EXISTS {}").format(sql.Identifier(SCHEMA, view_name(relation)))


def create(
    conn: psycopg.Connection,
    relation: Relation,
    roles: Sequence[Role],
    wanted: Wanted,
    had: Mapping[tuple[str, str], bool],
) -> list[sql.Composed]:
    """The statements for a view as it should be; none if it is so already."""
    view = sql.Identifier(SCHEMA, view_name(relation))
    grants = [_grant(view, grantee, relation, had) for grantee in sorted({g for g, _ in had})]
    query = _query(conn, relation, roles, wanted)
    mark = _hash(";".join(each.as_string(conn) for each in (query, *grants)))
    row = conn.execute(MADE, [SCHEMA, view_name(relation)]).fetchone()
    if row is not None and row[0] == f"lily:{mark}":
        return []
    return [
        drop(relation),
        sql.SQL("CREATE VIEW {} WITH (security_barrier) AS {}").format(view, query),
        sql.SQL("COMMENT ON VIEW {} IS {}").format(view, sql.Literal(f"lily:{mark}")),
        *grants,
    ]


def _query(
    conn: psycopg.Connection, relation: Relation, roles: Sequence[Role], wanted: Wanted
) -> sql.Composed:
    types: dict[str, str] = dict(conn.execute(TYPES, [relation.oid]).fetchall())
    logins = [r for r in roles if r.login and beyond_reach(r, relation) is None]
    own = {role.name: wanted.rules(grantee_of(role)) for role in logins}
    anybody = wanted.rules(ANYBODY)
    columns = [_column(name, types[name], own, anybody) for name in relation.columns]
    query = sql.SQL("SELECT {} FROM {}").format(
        sql.SQL(", ").join(columns), sql.Identifier(relation.schema, relation.name)
    )
    if filters := _filters(own, anybody):
        query += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(filters)
    return query


def _column(
    name: str, data_type: str, own: Mapping[str, Rules], anybody: Rules
) -> sql.Composed | sql.Identifier:
    """In the clear, or by who asks: each way of showing it with the users who see it so."""
    column = sql.Identifier(name)
    quoted = '"' + name.replace('"', '""') + '"'

    def shown(rule: Rule | None) -> str:
        if rule is None:
            return quoted
        return rule.expression.replace("{column}", quoted) or f"CAST(NULL AS {data_type})"

    otherwise = shown(anybody.columns.get(name))
    ways: dict[str, list[str]] = {}
    for user, rules in own.items():
        if (way := shown(rules.columns.get(name))) != otherwise:
            ways.setdefault(way, []).append(user)
    if not ways:
        return column if otherwise == quoted else _raw(otherwise) + sql.SQL(" AS ") + column
    cases = sql.SQL(" ").join(
        sql.SQL("WHEN current_user = ANY ({}::name[]) THEN {}").format(
            sql.Literal(sorted(users)), _raw(way)
        )
        for way, users in sorted(ways.items())
    )
    return sql.SQL("CASE {} ELSE {} END AS {}").format(cases, _raw(otherwise), column)


def _filters(own: Mapping[str, Rules], anybody: Rules) -> list[sql.Composed]:
    conditions = dict.fromkeys([*anybody.filters, *(f for r in own.values() for f in r.filters)])
    return [
        sql.SQL("(current_user = ANY ({}::name[]) OR ({}))").format(
            sql.Literal(sorted(user for user, r in own.items() if each not in r.filters)),
            _raw(each),
        )
        for each in conditions
    ]


def _grant(
    view: sql.Identifier, grantee: str, relation: Relation, had: Mapping[tuple[str, str], bool]
) -> sql.Composed:
    """As much of the view as there was of the table."""
    columns = {column for who, column in had if who == grantee}
    named = sql.SQL(", ").join(sql.Identifier(c) for c in relation.columns if c in columns)
    return sql.SQL("GRANT SELECT{} ON {} TO {}").format(
        sql.SQL("") if ALL in columns else sql.SQL(" ({})").format(named),
        view,
        sql.SQL("PUBLIC") if grantee == PUBLIC else sql.Identifier(grantee),
    )


def _raw(text: str) -> sql.Composed:
    """Checked and canonical, or made here."""
    return sql.Composed([sql.SQL(text)])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
