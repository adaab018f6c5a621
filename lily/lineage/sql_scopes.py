"""Follows columns of a qualified query through its scopes down to the tables."""

from collections import defaultdict
from typing import Any

import msgspec
from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from lily.lineage.sql_expressions import (
    NAMES,
    call,
    counts_rows,
    named,
    placed,
    read,
    relation_of,
    row_of,
    text,
)
from lily.lineage.sql_model import ColumnsOf, Origin, Problem, Relation, Why

COMPOSED_LIMIT = 50  # columns of an expression that is written out for each of their ways
CLAUSES: tuple[tuple[str, Why], ...] = (
    ("where", "filter"), ("having", "filter"), ("qualify", "filter"), ("group", "group"),
    ("distinct", "group"), ("order", "sort"), ("sort", "sort"), ("cluster", "sort"),
    ("distribute", "sort"), ("windows", "window"),
)  # fmt: skip


class Made(msgspec.Struct):
    """An output column: of what, by which expressions; and what decides its value."""

    name: str
    of: dict[Origin, list[exp.Expr]] = {}
    by: dict[Origin, set[Why]] = {}
    tables: set[Relation] = set()

    def add(self, origin: Origin, how: exp.Expr) -> None:
        known = self.of.setdefault(origin, [])
        if not any(how is each or how == each for each in known):
            known.append(how)

    def join(self, other: "Made") -> None:
        for origin, ways in other.of.items():
            for how in ways:
                self.add(origin, how)
        for origin, why in other.by.items():
            self.by.setdefault(origin, set()).update(why)
        self.tables |= other.tables


class Trace:
    """One query. Every scope is followed once; what is not referred to is not followed."""

    def __init__(self, columns_of: ColumnsOf, dialect: str) -> None:
        self._columns_of = columns_of
        self._dialect = dialect
        self._made: dict[int, list[Made]] = {}
        self._entered: set[int] = set()
        self._by_name: dict[int, tuple[list[Made], dict[str, Made]]] = {}
        self._texts: dict[int, tuple[exp.Expr, str | None]] = {}
        self.influences: dict[Origin, set[Why]] = defaultdict(set)
        self.tables: set[Relation] = set()
        self.problems: list[Problem] = []

    def outputs(self, scope: Scope) -> list[Made]:
        """The columns of a scope in order. Also notes what influences its rows."""
        key = id(scope.expression)  # a recursive query sees its own beginning by another scope
        if key not in self._made:
            self._made[key] = []
            self._made[key] = self._outputs(scope)
            self._note(scope)
        return self._made[key]

    def text(self, how: exp.Expr) -> str | None:
        """Written once, however many columns it is made of."""
        if id(how) not in self._texts:
            self._texts[id(how)] = (how, text(how, self._dialect))
        return self._texts[id(how)][1]

    # What a scope puts out.

    def _outputs(self, scope: Scope) -> list[Made]:
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            return self._combined(scope, query)
        if isinstance(query, exp.Select):
            return [self._projected(scope, each) for each in query.selects]
        if isinstance(query, exp.Lateral) and scope.subquery_scopes:
            return self.outputs(scope.subquery_scopes[0])
        if isinstance(query, exp.Values) and not query.find(exp.Query):
            return self._unnested(scope, query)
        if isinstance(query, exp.UDTF) and scope.parent is not None and not query.find(exp.Query):
            return self._unnested(scope.parent, query)
        self._miss("statement", f"{query.key.upper()} as a source is not followed")
        return []

    def _combined(self, scope: Scope, query: exp.SetOperation) -> list[Made]:
        left, right = (self.outputs(each) for each in scope.set_operation_scopes)
        if not isinstance(query, exp.Union):  # EXCEPT and INTERSECT only choose rows by it
            for each in right:
                self._influence(each, "filter")
            return left
        if query.args.get("by_name"):
            named = {each.name: each for each in right}
            pairs = [(each, named.get(each.name)) for each in left]
        else:
            pairs = list(zip(left, right, strict=False))
            if len(left) != len(right) and left and right:
                self._miss("output", "the sides of a UNION have different numbers of columns")
        made = []
        for one, other in pairs:
            both = Made(one.name)
            both.join(one)
            if other is not None:
                both.join(other)
            made.append(both)
        return made

    def _projected(self, scope: Scope, projection: exp.Expr) -> Made:
        made = Made(projection.alias_or_name)
        value = projection.unalias()
        if projection.is_star:
            self._star(scope, value)
            made.name = "*"
            return made
        inner = {}
        for node, why in read(value):
            if isinstance(node, NAMES):
                found = self._column(scope, node)
                if why is None:
                    inner[id(node)] = (node, found)
                else:
                    self._because(made, found, why)
            else:
                self._nested(scope, node, made, value, why)
        self._compose(made, value, list(inner.values()))
        if counts_rows(value):
            made.tables |= self.rows_of(scope)
        return made

    def _compose(self, made: Made, value: exp.Expr, inner: list[tuple[exp.Expr, Made]]) -> None:
        """Put what each column is made of in its place."""
        columns = {named(node): (node, found) for node, found in inner}
        single = {
            key: ways[0] for key, (_, found) in columns.items() if len(ways := _ways(found)) == 1
        }
        whole = placed(value, single)  # made once: an expression may read thousands of columns
        for key, (node, found) in columns.items():
            made.tables |= found.tables
            for origin, why in found.by.items():
                made.by.setdefault(origin, set()).update(why)
            for origin, ways in found.of.items():
                for how in ways:
                    if value is node:
                        made.add(origin, how)
                    elif key in single or len(columns) > COMPOSED_LIMIT:
                        made.add(origin, whole)
                    else:
                        made.add(origin, placed(value, {**single, key: how}))

    def _nested(
        self, scope: Scope, node: exp.Expr, made: Made, value: exp.Expr, why: Why | None
    ) -> None:
        """A query inside an expression: its columns become part of the value."""
        for each in self._subquery(scope, node):
            if why is not None:
                self._because(made, each, why)
                continue
            made.tables |= each.tables
            for origin, ways in each.of.items():
                for how in ways if value.unnest() is node else [value]:
                    made.add(origin, how)

    def _unnested(self, parent: Scope, function: exp.Expr) -> list[Made]:
        """A function in FROM: each of its columns may come of all that it is given."""
        alias = function.args.get("alias")
        names = [each.name for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
        whole = Made(names[0] if names else "")
        for node, _ in read(function):
            if not isinstance(node, NAMES):
                self._miss("statement", "a query inside a function in FROM is not followed")
                continue
            found = self._column(parent, node)
            whole.tables |= found.tables
            for origin, ways in found.of.items():
                for how in ways:
                    whole.add(origin, call(function, node, how))
        return [msgspec.structs.replace(whole, name=name) for name in names] or [whole]

    # Names.

    def _column(self, scope: Scope, column: exp.Expr) -> Made:
        if not isinstance(column, exp.Column):
            return self._row(scope, column.name, column)
        name, table = column.name, column.table
        if not table:
            return self._unqualified(scope, column)
        place: Scope | None = scope
        while place is not None and table not in place.sources:
            place = place.parent
        if place is None:
            self._miss("column", f"{table}.{name}: there is no {table} to read from")
            return Made(name)
        return self._from(place, table, name, column)

    def _from(self, scope: Scope, table: str, name: str, column: exp.Column) -> Made:
        source = scope.sources[table]
        if isinstance(source, exp.Table):
            if not isinstance(source.this, exp.Identifier):
                return self._made_by(scope, source, name)
            return self._leaf(source, name, column)
        outs = self._named(source)
        found = outs.get(name)
        if found is None and source.is_udtf and outs:
            found = next(iter(outs.values()))
        if found is None and "*" in outs:
            return Made(name)  # the star was reported
        if found is None and id(source.expression) in self._entered:
            self._miss("column", f"{table}.{name}: {table} has no such column")
        return found or Made(name)

    def _named(self, scope: Scope) -> dict[str, Made]:
        """The outputs of a scope by name; of several with one name the first."""
        outs, key = self.outputs(scope), id(scope.expression)
        if key not in self._by_name or self._by_name[key][0] is not outs:
            self._by_name[key] = (outs, {each.name: each for each in reversed(outs)})
        return self._by_name[key][1]

    def _made_by(self, scope: Scope, function: exp.Table, name: str) -> Made:
        [first, *_] = self._unnested(scope, function)
        return msgspec.structs.replace(first, name=name)

    def _leaf(self, table: exp.Table, name: str, column: exp.Column) -> Made:
        relation = relation_of(table)
        if table.args.get("pivots"):
            self.tables.add(relation)
            self._miss("statement", f"PIVOT of {relation} is not followed")
            return Made(name)
        renamed = table.args.get("alias")
        known = self._columns_of(relation)
        if known is None:
            self._miss("relation", f"{relation} is not in the catalog")
        elif renamed is not None and renamed.columns:
            places = dict(zip([each.name for each in renamed.columns], known, strict=False))
            name = places.get(name, name)
        if known is not None and name not in known:
            self.tables.add(relation)
            self._miss("column", f"{relation} has no column {name} in the catalog")
            return Made(name)
        made = Made(name)
        made.add(Origin(relation, name), column)
        return made

    def _unqualified(self, scope: Scope, column: exp.Column) -> Made:
        """A column that no table could be found for: a whole row, or the only table there is."""
        name = column.name
        sources = {key: each for key, (_, each) in scope.selected_sources.items()}
        if name in sources:
            return self._row(scope, name, column)
        if len(sources) == 1 and not scope.can_be_correlated:
            [only] = sources
            return self._from(scope, only, name, column)
        self._miss("column", f"{name}: it cannot be told which table it is of")
        self.tables |= self.rows_of(scope)
        return Made(name)

    def _row(self, scope: Scope, table: str, column: exp.Expr) -> Made:
        """All columns of a source as one value."""
        source, made = scope.sources[table], Made(table)
        if isinstance(source, Scope):
            for each in self.outputs(source):
                made.join(each)
            return made
        relation = relation_of(source)
        known = self._columns_of(relation)
        if known is None:
            made.tables.add(relation)
            self._miss("star", f"the row of {relation}: its columns are not in the catalog")
        for name in known or ():
            made.add(Origin(relation, name), row_of(column.name))
        return made

    def _star(self, scope: Scope, star: exp.Expr) -> None:
        """One that could not be expanded: some table's columns are not known."""
        table = star.table if isinstance(star, exp.Column) else ""
        names = [table] if table else list(scope.selected_sources)
        for name in names:
            source = scope.sources.get(name)
            if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
                relation = relation_of(source)
                self.tables.add(relation)
                if self._columns_of(relation) is None:
                    self._miss("star", f"* of {relation}: its columns are not in the catalog")
            elif isinstance(source, Scope):
                for each in self.outputs(source):
                    self.tables |= each.tables | {origin.relation for origin in each.of}

    def rows_of(self, scope: Scope, seen: frozenset[int] = frozenset()) -> set[Relation]:
        """The tables whose rows a scope sees."""
        if id(scope) in seen:
            return set()
        seen |= {id(scope)}
        found: set[Relation] = set()
        for _, source in scope.selected_sources.values():
            if isinstance(source, Scope):
                found |= self.rows_of(source, seen)
            elif isinstance(source.this, exp.Identifier):
                found.add(relation_of(source))
        for each in scope.set_operation_scopes or ():
            found |= self.rows_of(each, seen)
        return found

    # What decides about rows.

    def _note(self, scope: Scope) -> None:
        query = scope.expression
        self._entered.add(id(query))
        if not isinstance(query, exp.Select | exp.SetOperation):
            return
        for clause, why in CLAUSES:
            for each in _listed(query.args.get(clause)):
                self._decides(scope, each, why)
        for join in scope.find_all(exp.Join):
            if (on := join.args.get("on")) is not None:
                self._decides(scope, on, "join")
        for _, source in list(scope.selected_sources.values()):
            if isinstance(source, Scope):
                self.outputs(source)  # its rows are ours, even if no column is
        for source in _semi_joined(scope):
            if isinstance(source, Scope):
                self.outputs(source)

    def _decides(self, scope: Scope, clause: exp.Expr, why: Why) -> None:
        for node, _ in read(clause):
            if isinstance(node, NAMES):
                if _is_output(scope, node):
                    continue  # ORDER BY an output: its columns are known already
                self._influence(self._column(scope, node), why)
            else:
                for each in self._subquery(scope, node):
                    self._influence(each, why)

    def _influence(self, made: Made, why: Why) -> None:
        for origin in (*made.of, *made.by):
            self.influences[origin].add(why)

    def _because(self, made: Made, found: Made, why: Why) -> None:
        for origin in (*found.of, *found.by):
            made.by.setdefault(origin, set()).add(why)

    def _subquery(self, scope: Scope, query: exp.Expr) -> list[Made]:
        wanted = query.unnest()
        for each in scope.subquery_scopes:
            if each.expression is wanted or each.expression is query:
                return self.outputs(each)
        self._miss("statement", "a nested query is not followed")
        return []

    def _miss(self, missing: Any, message: str) -> None:
        problem = Problem(missing, message)
        if problem not in self.problems:
            self.problems.append(problem)


def _ways(made: Made) -> list[exp.Expr]:
    """The different expressions by which a column comes about."""
    found: list[exp.Expr] = []
    for how in (how for ways in made.of.values() for how in ways):
        if not any(how is each for each in found):
            found.append(how)
    return found


def _is_output(scope: Scope, column: exp.Expr) -> bool:
    query = scope.expression
    return (
        not column.text("table")
        and isinstance(query, exp.Query)
        and column.name in query.named_selects
    )


def _semi_joined(scope: Scope) -> list[exp.Table | Scope]:
    return [scope.sources[name] for name in scope.semi_or_anti_join_tables if name in scope.sources]


def _listed(value: Any) -> list[exp.Expr]:
    if value is None or value is True or value is False:
        return []
    return value if isinstance(value, list) else [value]
