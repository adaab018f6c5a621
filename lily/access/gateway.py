"""SQL of others, made safe to run: each table is replaced by what the caller may see of it.

Tables are replaced, never columns: a whole row, a star or a function over a row then only ever
sees what is left. Whatever is not known to be harmless is refused.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.qualify_tables import qualify_tables
from sqlglot.optimizer.scope import traverse_scope

from lily.access import harmless
from lily.access.expressions import Dialect, masked
from lily.access.filters import spoken
from lily.sdk.enforcers import Rules

LONGEST = 100_000  # characters
OURS = "lily_table"  # marks what was put in place of a table


class Refused(ValueError):
    """A statement that cannot be shown to be safe; says what of it."""


class Source(msgspec.Struct, frozen=True):
    """A table as the catalog knows it, and what holds for the caller."""

    columns: Mapping[str, str | None]  # in order, each with its type
    rules: Rules


class Rewritten(msgspec.Struct, frozen=True):
    sql: str
    tables: tuple[str, ...]  # as schema.name, in order


Lookup = Callable[[str, str], Source | None]  # schema and name; None: no such table


def rewrite(sql: str, dialect: Dialect, default_schema: str, lookup: Lookup) -> Rewritten:
    """The same question of what the caller may see. Raises Refused."""
    try:
        query = _parsed(sql, dialect)
        query = normalize_identifiers(query, dialect=dialect)
        query = qualify_tables(query, db=default_schema, dialect=dialect)
        tables = _replace(query, dialect, lookup)
        _nothing_left(query)
        return Rewritten(query.sql(dialect=dialect, comments=False), tables)
    except RecursionError:
        raise Refused("the statement is nested too deeply; flatten it") from None
    except SqlglotError as cause:
        raise Refused(f"the statement cannot be read: {_first_line(cause)}") from None


class Rewriter:
    """Remembers what statements read, and what they became where the same still holds.

    Most statements are asked again and again, and reading one costs more than all the rest.
    """

    def __init__(self, most: int = 2_000) -> None:
        self._most = most
        self._reads: dict[tuple[str, str, str], tuple[tuple[str, str], ...]] = {}
        self._made: dict[tuple[str, str, str, bytes], Rewritten] = {}

    def rewrite(self, sql: str, dialect: Dialect, default_schema: str, lookup: Lookup) -> Rewritten:
        """As `rewrite`. What holds for the caller is looked up each time."""
        sql = sql.strip().rstrip(";").rstrip()
        key = (sql, dialect, default_schema)
        if (tables := self._reads.get(key)) is not None:
            found = self._made.get((*key, _state(tables, lookup)))
            if found is not None:
                return found
        asked: dict[tuple[str, str], Source | None] = {}

        def noted(schema: str, name: str) -> Source | None:
            asked[schema, name] = source = lookup(schema, name)
            return source

        made = rewrite(sql, dialect, default_schema, noted)
        if len(self._made) >= self._most:
            self._made.clear()
            self._reads.clear()
        self._reads[key] = tuple(asked)
        self._made[*key, _state(tuple(asked), lambda *named: asked[named])] = made
        return made


def _state(tables: Iterable[tuple[str, str]], lookup: Lookup) -> bytes:
    """Everything but the statement that decides what it becomes."""
    return msgspec.json.encode([lookup(schema, name) for schema, name in tables])


def _parsed(sql: str, dialect: Dialect) -> exp.Query:
    if len(sql) > LONGEST:
        raise Refused(f"the statement is longer than {LONGEST} characters")
    if "\x00" in sql:
        raise Refused("the statement holds a NUL character")
    statements = [each for each in sqlglot.parse(sql, dialect=dialect) if each is not None]
    if len(statements) != 1:
        raise Refused("send exactly one statement")
    query = statements[0]
    if not isinstance(query, exp.Select | exp.SetOperation | exp.Subquery):
        raise Refused(f"only SELECT is allowed, not {query.key.upper()}")
    for node in query.walk():
        if (reason := harmless.refusal(node)) is not None:
            raise Refused(reason)
    return query


def _replace(query: exp.Query, dialect: Dialect, lookup: Lookup) -> tuple[str, ...]:
    found: dict[str, None] = {}
    real: list[exp.Table] = []
    for scope in traverse_scope(query):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                real.append(source)
    for table in {id(each): each for each in real}.values():
        schema, name = table.db, table.name
        if table.catalog:
            raise Refused(f"{table.sql(dialect=dialect)} names another database")
        known = lookup(schema, name)
        if known is None:
            raise Refused(f"there is no table {schema}.{name}, or nobody told Lily of it")
        found[f"{schema}.{name}"] = None
        table.replace(_seen(table, known, dialect))
    return tuple(found)


def _seen(table: exp.Table, source: Source, dialect: Dialect) -> exp.Subquery:
    """What is left of a table, under the name by which the statement calls it."""
    columns = []
    for name, data_type in source.columns.items():
        quoted = exp.to_identifier(name, quoted=True).sql(dialect=dialect)
        rule = source.rules.columns.get(name)
        if rule is None:
            columns.append(quoted)
        elif rule.effect != "deny":  # what is denied looks like what is not there
            columns.append(f"{masked(rule, quoted, data_type, dialect)} AS {quoted}")
    place = exp.table_(table.name, db=table.db, quoted=True).sql(dialect=dialect)
    conditions = " AND ".join(f"({spoken(each, dialect)})" for each in source.rules.filters)
    where = f" WHERE {conditions}" if conditions else ""
    inner = sqlglot.parse_one(
        f"SELECT {', '.join(columns) or 'NULL'} FROM {place}{where}", dialect=dialect
    )
    for each in inner.find_all(exp.Table):
        each.meta[OURS] = True
    alias = table.args.get("alias") or exp.TableAlias(
        this=exp.to_identifier(table.name, quoted=True)
    )
    return exp.Subquery(this=inner, alias=alias.copy())


def _nothing_left(query: exp.Query) -> None:
    """Every table that is still there must be one of ours, or the name of a CTE."""
    named = {cte.alias for cte in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        if table.meta.get(OURS):
            continue
        if table.db or table.catalog or table.name not in named:
            raise Refused(f"the table {table.name} cannot be followed")


def _first_line(cause: Exception) -> str:
    return str(cause).splitlines()[0][:200]
