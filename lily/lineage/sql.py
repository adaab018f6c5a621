"""Column-level lineage of SQL. What cannot be parsed or resolved is reported, never guessed.

`of_script` reads statements, `of_view` the definition of a view, and `edges` names what they say.
Direct lineage (`derived`) and what only chooses or arranges rows (`influences`) are kept apart.
"""

import re
from collections.abc import Callable, Iterable, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope
from sqlglot.schema import MappingSchema

from lily.events.lineage import Edge
from lily.lineage.labels import DEFAULT, INFLUENCES
from lily.lineage.names import column
from lily.lineage.sql_expressions import relation_of
from lily.lineage.sql_model import (
    ColumnsOf,
    Derived,
    Influence,
    Origin,
    Problem,
    Relation,
    SqlLineage,
    Why,
)
from lily.lineage.sql_scopes import Made, Trace
from lily.lineage.sql_writes import Write, writes

LENGTH_LIMIT = 300_000
# A parser of thirty dialects fails in more ways than it promises.
CANNOT = (
    SqlglotError, RecursionError, ValueError, TypeError, AttributeError, LookupError,
    AssertionError, NotImplementedError,
)  # fmt: skip
DIALECTS = frozenset(name for name in sqlglot.Dialects.__members__.values() if name)


def of_view(
    definition: str, dialect: str, default_schema: str | None, columns_of: ColumnsOf
) -> SqlLineage:
    """Lineage of a view from its definition: a SELECT, or a whole CREATE VIEW.

    `default_schema` is `schema` or `database.schema`, for names without one. `columns_of` gives
    the columns of a relation in their order, and None for an unknown one. The answer's
    `derived[].column` and `influences[].column` are columns of the view.
    """
    found = of_script(definition, dialect, default_schema, columns_of)
    if len(found) == 1:
        return found[0]
    return SqlLineage("", problems=(Problem("syntax", "a view has exactly one statement"),))


def of_script(
    sql: str, dialect: str, default_schema: str | None, columns_of: ColumnsOf
) -> list[SqlLineage]:
    """Lineage of each statement; what one creates, the following ones know."""
    try:
        trees = _parsed(sql, dialect)
    except CANNOT as cause:
        return [SqlLineage("", problems=(Problem("syntax", _short(cause)),))]
    made: dict[Relation, Sequence[str]] = {}

    def known(relation: Relation) -> Sequence[str] | None:
        return made.get(relation) or columns_of(relation)

    found = []
    for tree in trees:
        lineage = _Statement(tree, dialect, default_schema, known).lineage()
        if (
            isinstance(tree, exp.Create)
            and lineage.target is not None
            and "*" not in lineage.columns
        ):
            made[lineage.target] = lineage.columns
        found.append(lineage)
    return found


NameOf = Callable[[Relation], str]


def edges(lineage: SqlLineage, target: str, name_of: NameOf, process: str | None) -> list[Edge]:
    """What a statement says as edges into `target`, a qualified name.

    Direct ones are `derived-from`; columns that only choose or arrange rows are `influences`, into
    the column or the table they bear on. What a table takes from itself is left out.
    """
    found = []
    for each in lineage.derived:
        found.append(
            Edge(
                from_name=column(name_of(each.origin.relation), each.origin.column),
                to_name=column(target, each.column),
                relationship_type=DEFAULT,
                process=process,
                transformation=each.transformation,
            )
        )
    for table in lineage.tables:
        found.append(Edge(from_name=name_of(table), to_name=target, process=process))
    for bears in lineage.influences:
        if (top := name_of(bears.origin.relation)) == target:
            continue
        found.append(
            Edge(
                from_name=column(top, bears.origin.column),
                to_name=target if bears.column is None else column(target, bears.column),
                relationship_type=INFLUENCES,
                process=process,
                properties={"why": list(bears.why)},
            )
        )
    return [edge for edge in found if edge.from_name != edge.to_name]


def _parsed(sql: str, dialect: str) -> list[exp.Expr]:
    if len(sql) > LENGTH_LIMIT:
        raise ValueError(f"longer than {LENGTH_LIMIT} characters")
    return [tree for tree in sqlglot.parse(sql, dialect=dialect) if tree is not None]


class _Statement:
    def __init__(
        self, tree: exp.Expr, dialect: str, default_schema: str | None, columns_of: ColumnsOf
    ) -> None:
        self._tree = tree
        self._dialect = dialect
        catalog, _, schema = (default_schema or "").rpartition(".")
        self._catalog, self._schema = catalog or None, schema or None
        rules = Dialect.get_or_raise(dialect)
        self._folds = rules.normalization_strategy is NormalizationStrategy.CASE_INSENSITIVE
        self._asked: dict[Relation, dict[str, str] | None] = {}
        self._ask = columns_of

    def lineage(self) -> SqlLineage:
        kind = self._tree.key.upper()
        try:
            found = writes(self._tree)
            if isinstance(found, Problem):
                return SqlLineage(kind, problems=(found,))
            return self._together(kind, [self._of(kind, each) for each in found])
        except CANNOT as cause:
            return SqlLineage(kind, problems=(Problem("statement", _short(cause)),))

    def _of(self, kind: str, write: Write) -> SqlLineage:
        try:
            query = self._qualified(write)
        except OptimizeError as cause:
            return self._unresolved(kind, write, cause)
        trace = Trace(self._columns, self._dialect)
        scope = build_scope(query)
        if scope is None:
            return SqlLineage(kind, problems=(Problem("statement", "it is not a query"),))
        made = trace.outputs(scope)
        target = self._named(write.target) if write.target is not None else None
        names, wrong = self._bound(write, target, made)
        if write.problem is not None:
            wrong.append(write.problem)
        derived = [
            Derived(self._origin(origin), name, _one(trace.text(how) for how in ways))
            for name, each in zip(names, made, strict=True)
            if name is not None
            for origin, ways in each.of.items()
        ]
        # Whatever cannot be bound to a column still says that its tables were read.
        read = set(trace.tables)
        for name, each in zip(names, made, strict=True):
            read |= each.tables
            if name is None:
                read |= {origin.relation for origin in each.of}
        read |= trace.rows_of(scope) - {origin.relation for origin in trace.influences}
        influences = [
            Influence(self._origin(origin), tuple(sorted(why)))
            for origin, why in trace.influences.items()
        ]
        influences += [
            Influence(self._origin(origin), tuple(sorted(why)), name)
            for name, each in zip(names, made, strict=True)
            if name is not None
            for origin, why in each.by.items()
        ]
        tables = read - {each.origin.relation for each in derived}
        return SqlLineage(
            kind, target, tuple(name or "*" for name in names), tuple(derived), tuple(influences),
            tuple(sorted(tables, key=str)), (*trace.problems, *wrong), write.temporary,
        )  # fmt: skip

    def _unresolved(self, kind: str, write: Write, cause: Exception) -> SqlLineage:
        """Which tables are read is certain even where their columns are not."""
        target = self._named(write.target) if write.target is not None else None
        tree = normalize_identifiers(write.query.copy(), dialect=self._dialect)
        tables = sorted({self._completed(each) for each in _tables(tree)}, key=str)
        problem = Problem("column", _short(cause))
        return SqlLineage(kind, target, tables=tuple(tables), problems=(problem,))

    def _qualified(self, write: Write) -> exp.Expr:
        tree = normalize_identifiers(write.query.copy(), dialect=self._dialect)
        schema = MappingSchema(dialect=self._dialect, normalize=False)
        for table in tree.find_all(exp.Table):
            if isinstance(table.this, exp.Identifier):
                relation = self._completed(relation_of(table))
                if (columns := self._columns(relation)) is not None:
                    schema.add_table(
                        exp.table_(relation.name, relation.schema, relation.catalog),
                        dict.fromkeys(columns, "unknown"), match_depth=False,
                    )  # fmt: skip
        return qualify(
            tree, dialect=self._dialect, schema=schema,
            db=self._quoted(self._schema), catalog=self._quoted(self._catalog),
            expand_alias_refs=not write.made_up, allow_partial_qualification=True,
            validate_qualify_columns=False, quote_identifiers=False,
        )  # fmt: skip

    def _quoted(self, name: str | None) -> str | None:
        """A name that is given exactly is not folded."""
        return name and exp.to_identifier(name, quoted=True).sql(dialect=self._dialect)

    def _bound(
        self, write: Write, target: Relation | None, made: Sequence[Made]
    ) -> tuple[list[str | None], list[Problem]]:
        """The target's column for each output; None where it cannot be told."""
        if any(each.name == "*" for each in made):
            named = not write.positional and write.columns is None
            return [each.name if named and each.name != "*" else None for each in made], []
        own = self._columns(target) if target is not None else None
        if write.columns is not None:
            listed = [self._folded(each) for each in write.columns]
        elif write.positional:
            if own is None:
                return [None] * len(made), [
                    Problem("relation", f"{target} is not in the catalog: its columns are unknown")
                ]
            listed = list(own)[: len(made)]
        else:
            return self._by_name(target, own, made)
        if len(listed) != len(made):
            said = f"{len(made)} columns are written into {len(listed)}"
            return [None] * len(made), [Problem("output", said)]
        return [self._spelled(target, name) for name in listed], []

    def _by_name(
        self,
        target: Relation | None,
        own: Sequence[str] | None,
        made: Sequence[Made],
    ) -> tuple[list[str | None], list[Problem]]:
        names: list[str | None] = []
        wrong = []
        for index, each in enumerate(made):
            name: str | None = each.name
            if each.name in ("", f"_col_{index}"):
                # Every engine calls an expression without a name something else.
                name = own[index] if own is not None and len(own) == len(made) else None
                if name is None:
                    wrong.append(Problem("output", f"column {index + 1} has no name"))
            names.append(self._spelled(target, name) if name is not None else None)
        return names, wrong

    def _together(self, kind: str, parts: Sequence[SqlLineage]) -> SqlLineage:
        """Of a MERGE each branch; a column may be written by several."""
        if len(parts) <= 1:
            return parts[0] if parts else SqlLineage(kind)
        ways: dict[tuple[Origin, str], list[str | None]] = {}
        for each in (d for part in parts for d in part.derived):
            ways.setdefault((each.origin, each.column), []).append(each.transformation)
        derived = tuple(Derived(o, c, _one(texts)) for (o, c), texts in ways.items())
        tables = {t for part in parts for t in part.tables} - {d.origin.relation for d in derived}
        reasons: dict[tuple[Origin, str | None], set[Why]] = {}
        for bears in (i for part in parts for i in part.influences):
            reasons.setdefault((bears.origin, bears.column), set()).update(bears.why)
        return SqlLineage(
            kind, parts[0].target, tuple(dict.fromkeys(c for p in parts for c in p.columns)),
            derived,
            tuple(Influence(o, tuple(sorted(why)), c) for (o, c), why in reasons.items()),
            tuple(sorted(tables, key=str)),
            tuple(dict.fromkeys(p for part in parts for p in part.problems)),
        )  # fmt: skip

    # Names: as the catalog writes them.

    def _completed(self, relation: Relation) -> Relation:
        if relation.schema is not None:
            catalog = relation.catalog or self._catalog
            return Relation(relation.name, relation.schema, catalog)
        return Relation(relation.name, self._schema, relation.catalog or self._catalog)

    def _named(self, table: exp.Table) -> Relation:
        named = normalize_identifiers(table.copy(), dialect=self._dialect)
        return self._completed(relation_of(named))

    def _folded(self, name: exp.Identifier) -> str:
        return normalize_identifiers(name.copy(), dialect=self._dialect).name

    def _columns(self, relation: Relation) -> list[str] | None:
        """As the dialect compares them."""
        if relation not in self._asked:
            found = self._ask(relation)
            self._asked[relation] = (
                None if found is None else {self._key(each): each for each in found}
            )
        known = self._asked[relation]
        return None if known is None else list(known)

    def _key(self, column: str) -> str:
        return column.lower() if self._folds else column

    def _spelled(self, relation: Relation | None, column: str) -> str:
        known = self._asked.get(relation) if relation is not None else None
        return (known or {}).get(column, column)

    def _origin(self, origin: Origin) -> Origin:
        return Origin(origin.relation, self._spelled(origin.relation, origin.column))


def _tables(query: exp.Expr) -> set[Relation]:
    ctes = {cte.alias for cte in query.find_all(exp.CTE)}
    return {
        relation_of(table)
        for table in query.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and (table.db or table.name not in ctes)
    }


def _one(texts: Iterable[str | None]) -> str | None:
    """Of several ways the one that changes least; a copy is no change at all."""
    said = set(texts)
    ways = sorted(text for text in said if text is not None)
    if None in said or not ways:
        return None
    return ways[0] if len(ways) == 1 else f"either({', '.join(ways)})"


def _short(cause: Exception) -> str:
    if isinstance(cause, RecursionError):
        return "nested too deeply"
    said = _TOKEN.sub(r"\1", str(cause).split("\n")[0])
    return said.replace("\x1b[4m", "").replace("\x1b[0m", "")[:300]


_TOKEN = re.compile(r"<Token token_type: [^,]*, text: (.*?), line: .*?>")
