"""Reading as somebody else, to see whether it really is refused."""

from collections.abc import Collection, Mapping

import psycopg
from psycopg import sql

from lily.connectors.postgres_rights import Relation

MOST = 16  # people that are tried for one table: each takes a moment while it is locked
READABLE = ("r", "p", "v", "m")  # reading what is foreign would call another server
BECOME = """
SELECT rolname FROM pg_roles WHERE rolname = ANY(%s) AND pg_has_role(oid, %s) ORDER BY rolname
"""


def readers(
    conn: psycopg.Connection, relation: Relation, denied: Mapping[str, Collection[str]]
) -> list[tuple[str, str]]:
    """Who reads which column all the same, of those whom this login may become."""
    if relation.kind not in READABLE:
        return []
    users = sorted({user for each in denied.values() for user in each})
    right = "SET" if conn.info.server_version >= 160_000 else "MEMBER"
    holders = {grantee for grantee, _ in relation.grants}  # who had a right is tried first
    able = [user for (user,) in conn.execute(BECOME, [users, right])]
    tried = set(sorted(able, key=lambda user: (user not in holders, user))[:MOST])
    return [
        (user, column)
        for column, meant in denied.items()
        for user in sorted(tried.intersection(meant))
        if _reads(conn, relation, column, user)
    ]


def _reads(conn: psycopg.Connection, relation: Relation, column: str, user: str) -> bool:
    table, name = sql.Identifier(relation.schema, relation.name), sql.Identifier(column)
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(user)))
            conn.execute(sql.SQL("SELECT {} FROM {} LIMIT 0").format(name, table))
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True
