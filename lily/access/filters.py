"""Row filters: a condition over the columns of one table, and nothing else."""

from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

LONGEST = 2000

_EXPECTED = {"kind", "expressions", "from", "from_", "where"}


class BadFilter(ValueError):
    """A text that no engine may run for every row; says why."""


def canonical(text: str) -> str:
    """The condition as the parser understood it, so that nothing hides in it. Raises BadFilter."""
    condition = _parsed(text)
    for node in condition.walk():
        if isinstance(node, exp.Query | exp.Subquery | exp.DML | exp.Command):
            raise BadFilter("may not hold a query of its own")
        if isinstance(node, exp.Anonymous):
            raise BadFilter(f"calls {node.name}, which is not known to be harmless")
        if isinstance(node, exp.Placeholder | exp.Parameter):
            raise BadFilter("may not hold parameters")
    return condition.sql(dialect="postgres", comments=False)


@lru_cache(maxsize=4096)
def spoken(text: str, dialect: str) -> str:
    """A condition, kept as PostgreSQL writes it, in the words of another engine."""
    if dialect == "postgres":
        return text
    return _parsed(text).sql(dialect=dialect, comments=False)


def columns(text: str) -> set[str]:
    """The columns that a condition looks at."""
    return {node.name for node in _parsed(text).find_all(exp.Column)}


def _parsed(text: str) -> exp.Expression:
    if len(text) > LONGEST:
        raise BadFilter(f"is longer than {LONGEST} characters")
    try:
        statements = sqlglot.parse(f"SELECT 1 FROM t WHERE {text}", dialect="postgres")
    except (SqlglotError, RecursionError) as cause:
        raise BadFilter(f"is not a condition: {str(cause).splitlines()[0]}") from cause
    if len(statements) != 1 or not isinstance(query := statements[0], exp.Select):
        raise BadFilter("must be one condition")
    where = query.args.get("where")
    if where is None or any(part and name not in _EXPECTED for name, part in query.args.items()):
        raise BadFilter("must be one condition, without any further clause")
    condition: exp.Expression = where.this
    return condition
