"""Expressions of a query: what they read, and one put in the place of a column of another."""

from collections.abc import Iterator, Mapping

from sqlglot import exp
from sqlglot.optimizer.scope import walk_in_scope

from lily.lineage.sql_model import Relation, Why

TEXT_LIMIT = 2_000
NODES_LIMIT = 300  # of an expression that is put into another one
NAMES = (exp.Column, exp.TableColumn)  # of a column, and of a source as one value


def text(how: exp.Expr, dialect: str) -> str | None:
    """An expression as somebody would write it, without names of tables; None for a bare column."""
    plain = how.unnest()
    if isinstance(plain, exp.Column):
        return None
    shown = plain.transform(bare)
    said: str = shown.sql(dialect=dialect, normalize_functions="lower", comments=False)
    return said if len(said) <= TEXT_LIMIT else said[: TEXT_LIMIT - 1] + "…"


def relation_of(table: exp.Table) -> Relation:
    return Relation(table.name, table.db or None, table.catalog or None)


def read(value: exp.Expr) -> Iterator[tuple[exp.Expr, Why | None]]:
    """Columns and nested queries of an expression, each once; with a reason if they only decide."""
    for node in walk_in_scope(value):
        is_query = isinstance(node, exp.Select | exp.SetOperation) and node is not value
        if is_query or isinstance(node, NAMES):
            yield node, reason(node, value)


def reason(node: exp.Expr, top: exp.Expr) -> Why | None:
    """Whether a part of an expression only arranges or chooses what the rest works on."""
    child = node
    while child is not top and child.parent is not None:
        parent, key = child.parent, child.arg_key
        if isinstance(parent, exp.Window) and key in ("partition_by", "order", "spec"):
            return "window"
        if isinstance(parent, exp.Filter) and key == "expression":
            return "filter"
        child = parent
    return None


def named(column: exp.Expr) -> tuple[str, str]:
    return column.text("table"), column.name


def placed(value: exp.Expr, ways: Mapping[tuple[str, str], exp.Expr]) -> exp.Expr:
    """The expression with columns replaced by what they are made of; as it is if that is much."""
    size, new = 0, {key: how for key, how in ways.items() if not isinstance(how, exp.Column)}
    for how in new.values():
        size += sum(1 for _ in how.walk())
        if size > NODES_LIMIT:
            return value
    copied: exp.Expr = value.copy()
    for twin in columns(copied):
        if (found := ways.get(named(twin))) is not None and twin is not copied:
            put(twin, found)
    return copied


def columns(value: exp.Expr) -> list[exp.Expr]:
    return [node for node in walk_in_scope(value) if isinstance(node, NAMES)]


def put(place: exp.Expr, how: exp.Expr) -> None:
    """In parentheses where something around it would bind closer."""
    inside = isinstance(place.parent, exp.Binary | exp.Unary | exp.Between | exp.In | exp.Bracket)
    wrap = inside and isinstance(how, exp.Binary | exp.Unary | exp.Between | exp.Case)
    place.replace(exp.Paren(this=how.copy()) if wrap else how.copy())


def counts_rows(value: exp.Expr) -> bool:
    return any(
        isinstance(node, exp.Count) and isinstance(node.this, exp.Star)
        for node in walk_in_scope(value)
    )


def call(function: exp.Expr, node: exp.Expr, how: exp.Expr) -> exp.Expr:
    """A table function as an expression, without its alias."""
    body = function.this if isinstance(function, exp.Table | exp.Lateral) else function
    copied: exp.Expr = body.copy()
    copied.set("alias", None)
    for twin in [each for each in columns(copied) if each == node]:
        put(twin, how)
    return copied


def row_of(name: str) -> exp.Expr:
    return exp.Anonymous(this="row", expressions=[exp.column(name)])


def bare(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Column) and node.args.get("table") is not None:
        return exp.column(node.this.copy())
    return node
