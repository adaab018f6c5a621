"""How far the pipeline has come: the one truth, in the same transaction as the rows."""

import psycopg

from lily.types import Lane

APPLIED = "SELECT lane, position FROM applied WHERE part = 0"


def applied(conn: psycopg.Connection) -> dict[Lane, int]:
    return dict(conn.execute(APPLIED).fetchall())
