"""Which query a statement writes into which columns; UPDATE and MERGE are read as queries too."""

from collections.abc import Iterator

import msgspec
from sqlglot import exp

from lily.lineage.sql_model import Problem

DML = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
NO_LINEAGE = (
    exp.Delete, exp.Drop, exp.Alter, exp.TruncateTable, exp.Comment, exp.Grant, exp.Revoke, exp.Set,
    exp.Use, exp.Transaction, exp.Commit, exp.Rollback, exp.Analyze, exp.Describe, exp.Refresh,
)  # fmt: skip


class Write(msgspec.Struct, frozen=True):
    """Into `columns` of `target`, in order; without columns it depends on names or positions."""

    query: exp.Expr
    target: exp.Table | None = None
    columns: tuple[exp.Identifier, ...] | None = None
    positional: bool = False  # the target's own columns in their order
    made_up: bool = False  # not a query that somebody wrote: its aliases mean nothing to it
    temporary: bool = False
    problem: Problem | None = None  # with a part of the statement


def writes(tree: exp.Expr) -> list[Write] | Problem:
    """Everything that a statement writes; nothing for one that reads nothing."""
    if any(cte.find(*DML) for cte in tree.find_all(exp.CTE)):
        return Problem("statement", "a WITH that changes data is not followed")
    match tree:
        case exp.Create():
            return _created(tree)
        case exp.Insert():
            return _inserted(tree)
        case exp.Update():
            return _updated(tree)
        case exp.Merge():
            return _merged(tree)
        case exp.Select() | exp.SetOperation() | exp.Subquery():
            return [_selected(tree)]
        case exp.Command():
            return Problem("statement", f"{tree.name.upper()} is not understood")
        case exp.MultitableInserts():
            return Problem("statement", "an INSERT into several tables is not followed")
        case _ if isinstance(tree, NO_LINEAGE):
            return []
        case _:
            return Problem(
                "statement", f"{tree.sql()[:80]!r} is not a statement that is understood"
            )


def _created(tree: exp.Create) -> list[Write] | Problem:
    if tree.args.get("clone") is not None:
        return Problem("statement", "CLONE is not followed")
    if not isinstance(tree.expression, exp.Query) or tree.kind not in ("TABLE", "VIEW"):
        return []
    target, columns = _target(tree.this)
    if target is None:
        return Problem("statement", "the name of what is created is not understood")
    temporary = any(tree.find_all(exp.TemporaryProperty))
    return [Write(_with(tree.expression, tree), target, columns, temporary=temporary)]


def _inserted(tree: exp.Insert) -> list[Write] | Problem:
    target, columns = _target(tree.this)
    if target is None or tree.args.get("source"):
        return Problem("statement", "the target of the INSERT is not understood")
    problem = None
    if (conflict := tree.args.get("conflict")) is not None and _differs(conflict):
        problem = Problem("statement", "what ON CONFLICT writes is not followed")
    queries: list[exp.Expr] = []
    if isinstance(tree.expression, exp.Values):
        for row in tree.expression.expressions:
            values = row.expressions if isinstance(row, exp.Tuple) else [row]
            if any(each.find(exp.Query) for each in values):
                queries.append(exp.Select(expressions=[each.copy() for each in values]))
    elif isinstance(tree.expression, exp.Query):
        queries.append(tree.expression)
    by_name = bool(tree.args.get("by_name"))
    positional = columns is None and not by_name
    return [
        Write(_with(query, tree), target, columns, positional, problem=problem) for query in queries
    ]


def _differs(conflict: exp.Expr) -> bool:
    """Whether ON CONFLICT writes anything else than the INSERT would."""
    for each in conflict.args.get("expressions") or ():
        value = each.expression
        same = isinstance(value, exp.Column) and value.table.lower() == "excluded"
        if same and value.name == each.this.name:
            continue
        if value.find(exp.Column, exp.Query) is not None:
            return True
    return False


def _updated(tree: exp.Update) -> list[Write] | Problem:
    table = tree.this
    if not isinstance(table, exp.Table):
        return Problem("statement", "the target of the UPDATE is not understood")
    pairs = list(_assigned(tree.expressions))
    if not pairs:
        return Problem("statement", "what the UPDATE sets is not understood")
    query = _asked(pairs, table, tree.args.get("where"))
    if (source := tree.args.get("from_")) is not None:
        query = query.join(source.this.copy(), join_type="cross")
    return [_made_up(_with(query, tree), table, pairs)]


def _merged(tree: exp.Merge) -> list[Write] | Problem:
    table, using = tree.this, tree.args.get("using")
    if not isinstance(table, exp.Table) or using is None:
        return Problem("statement", "the target of the MERGE is not understood")
    found = []
    for when in tree.args["whens"].expressions:
        then = when.args.get("then")
        if not isinstance(then, exp.Update | exp.Insert):
            continue  # DELETE and DO NOTHING write nothing
        whole = isinstance(then.this, exp.Star) or any(
            isinstance(each, exp.Star) for each in then.expressions
        )
        pairs = list(_assigned(then.expressions) if isinstance(then, exp.Update) else _filled(then))
        if not pairs and not whole:
            return Problem("statement", "a MERGE without named columns is not followed")
        query = _asked(pairs, table, None).join(using.copy(), on=tree.args["on"].copy())
        if (condition := when.args.get("condition")) is not None:
            query = query.where(condition.copy())
        if whole:  # every column of the source goes into the one of the same name
            query = query.select(exp.column(exp.Star(), table=using.alias_or_name))
            found.append(Write(_with(query, tree), _bare(table), made_up=True))
        else:
            found.append(_made_up(_with(query, tree), table, pairs))
    return found


def _selected(tree: exp.Expr) -> Write:
    into = tree.args.get("into")
    if into is None:
        return Write(tree)
    bare = tree.copy()
    bare.set("into", None)
    return Write(bare, into.this, temporary=bool(into.args.get("temporary")))


Pair = tuple[exp.Identifier, exp.Expr]


def _assigned(assignments: list[exp.Expr]) -> Iterator[Pair]:
    for each in assignments:
        if not isinstance(each, exp.EQ):
            continue
        if isinstance(each.this, exp.Column):
            yield each.this.this, each.expression
        elif isinstance(each.this, exp.Tuple):
            yield from _spread(each.this, each.expression)


def _spread(left: exp.Tuple, right: exp.Expr) -> Iterator[Pair]:
    """`(a, b) = (x, y)`, or `= (SELECT x, y …)`."""
    inner = right.unnest()
    for index, column in enumerate(left.expressions):
        if isinstance(right, exp.Tuple):
            yield column.this, right.expressions[index]
        elif isinstance(inner, exp.Select) and len(inner.selects) == len(left.expressions):
            one = inner.copy()
            one.set("expressions", [inner.selects[index].copy()])
            yield column.this, exp.Subquery(this=one)


def _filled(then: exp.Insert) -> Iterator[Pair]:
    names, values = then.this, then.expression
    if isinstance(names, exp.Tuple) and isinstance(values, exp.Tuple):
        for name, value in zip(names.expressions, values.expressions, strict=False):
            yield (name.this if isinstance(name, exp.Column) else name), value


def _asked(pairs: list[Pair], table: exp.Table, where: exp.Expr | None) -> exp.Select:
    query = exp.Select(
        expressions=[exp.Alias(this=value.copy(), alias=name.copy()) for name, value in pairs]
    ).from_(table.copy())
    if where is not None:
        query.set("where", where.copy())
    return query


def _made_up(query: exp.Expr, table: exp.Table, pairs: list[Pair]) -> Write:
    return Write(query, _bare(table), tuple(name for name, _ in pairs), made_up=True)


def _target(node: exp.Expr) -> tuple[exp.Table | None, tuple[exp.Identifier, ...] | None]:
    if isinstance(node, exp.Schema) and isinstance(node.this, exp.Table):
        named = [
            each if isinstance(each, exp.Identifier) else each.this for each in node.expressions
        ]
        if all(isinstance(each, exp.Identifier) for each in named):
            return _bare(node.this), tuple(named) or None
        return _bare(node.this), None
    return (_bare(node) if isinstance(node, exp.Table) else None), None


def _bare(table: exp.Table) -> exp.Table:
    """The name alone."""
    parts = {key: part.copy() for key in ("this", "db", "catalog") if (part := table.args.get(key))}
    return exp.Table(**parts)


def _with(query: exp.Expr, statement: exp.Expr) -> exp.Expr:
    """A WITH in front of a statement is one in front of its query."""
    copied: exp.Expr = query.copy()
    outer = statement.args.get("with_")
    if outer is None:
        return copied
    inner = copied.args.get("with_")
    together = [each.copy() for each in outer.expressions]
    together += [each.copy() for each in inner.expressions] if inner else []
    recursive = outer.recursive or (inner is not None and inner.recursive)
    copied.set("with_", exp.With(expressions=together, recursive=recursive))
    return copied
