"""Masks as SQL: what an engine shows in place of a value."""

from functools import lru_cache
from typing import Literal

from sqlglot import exp
from sqlglot.errors import SqlglotError

from lily.access.masks import family
from lily.sdk.enforcers import Rule

Dialect = Literal["postgres", "duckdb", "trino"]

_HASH: dict[Dialect, str] = {
    "postgres": "encode(sha256(convert_to({text}, 'UTF8')), 'hex')",
    "duckdb": "sha256({text})",
    "trino": "lower(to_hex(sha256(to_utf8({text}))))",
}
_FIRST: dict[Dialect, str] = {
    "postgres": "left({text}, 1) || '***'",
    "duckdb": "left({text}, 1) || '***'",
    "trino": "substr({text}, 1, 1) || '***'",
}


def masked(rule: Rule, column: str, data_type: str | None, dialect: Dialect) -> str:
    """The expression for a column that is quoted already. A denied one shows nothing."""
    return _typed(_value(rule, column, data_type, dialect), data_type, dialect)


def _value(rule: Rule, column: str, data_type: str | None, dialect: Dialect) -> str:
    kind = "null" if rule.effect == "deny" else rule.mask
    text = f"CAST({column} AS {'text' if dialect == 'postgres' else 'varchar'})"
    if kind == "custom" and rule.expression:
        return rule.expression.replace("{column}", column)
    if kind == "constant":
        return "'" + rule.value.replace("'", "''") + "'"
    if kind == "hash" and family(data_type) in ("text", "unknown"):
        return _HASH[dialect].format(text=text)
    if kind == "partial" and family(data_type) in ("text", "unknown"):
        return _FIRST[dialect].format(text=text)
    if kind == "year" and family(data_type) == "date":
        return f"date_trunc('year', {column})"
    return "NULL"


def _typed(expression: str, data_type: str | None, dialect: Dialect) -> str:
    """Of the column's own type: an engine compares them, and tools rely on them."""
    kind = _type(data_type, dialect) if data_type else None
    return f"CAST({expression} AS {kind})" if kind else expression


@lru_cache(maxsize=1024)
def _type(data_type: str, dialect: Dialect) -> str | None:
    """What a crawler said, read and written again: it is text of others, and becomes SQL."""
    try:
        kind = exp.DataType.build(data_type, dialect=dialect)
    except (SqlglotError, ValueError):
        return None
    if not isinstance(kind, exp.DataType) or kind.this == exp.DataType.Type.USERDEFINED:
        return None
    return kind.sql(dialect=dialect)
