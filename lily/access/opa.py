"""What Trino asks through its OPA plug-in, and what it is answered. Pure.

Reading is decided by policies; what a catalog's own account lets somebody write is theirs unless
a policy denies it. A table of a governed catalog that Lily does not know yet is held back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lily.access.expressions import masked
from lily.access.filters import spoken
from lily.access.masks import fitted
from lily.access.model import Action, Decision, Mask
from lily.sdk.enforcers import Rule

# Questions about nothing that policies speak of.
_FREE = frozenset(
    ("ExecuteQuery", "AccessCatalog", "FilterCatalogs", "ShowSchemas", "FilterSchemas",
     "ShowTables", "ShowColumns", "ShowFunctions", "SetCatalogSessionProperty",
     "SetSystemSessionProperty", "ShowCreateSchema", "FilterFunctions")
)  # fmt: skip
_OWN_QUERIES = frozenset(("ViewQueryOwnedBy", "FilterViewQueryOwnedBy", "KillQueryOwnedBy"))
_WRITES = frozenset(
    ("InsertIntoTable", "UpdateTableColumns", "MergeIntoTable", "CreateTable", "RenameTable",
     "SetTableProperties", "SetTableComment", "SetColumnComment", "AddColumn", "AlterColumn",
     "RenameColumn", "CreateView", "RenameView", "CreateMaterializedView",
     "RefreshMaterializedView", "RenameMaterializedView", "SetMaterializedViewProperties",
     "SetViewComment", "ExecuteTableProcedure", "SetTableAuthorization", "CreateSchema",
     "RenameSchema", "SetSchemaAuthorization")
)  # fmt: skip
_DELETES = frozenset(
    ("DeleteFromTable", "TruncateTable", "DropTable", "DropView", "DropMaterializedView",
     "DropColumn", "DropSchema")
)  # fmt: skip
_SELECTS = frozenset(("SelectFromColumns", "ShowCreateTable", "FilterTables", "FilterColumns"))
_METADATA = "information_schema"


class Who(msgspec.Struct, frozen=True):
    user: str
    groups: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True):
    catalog: str
    schema: str
    name: str


class Judge(msgspec.Struct, frozen=True):
    """Answers for one principal. None: not governed; a decision otherwise, also for the unknown."""

    table: Callable[[Table, Action], Decision | None]
    column: Callable[[Table, str], Decision | None]
    denied: Callable[[Table, Action], bool]  # by a policy that says so, not by silence
    filters: Callable[[Table], Sequence[str]]  # said of the table, or of any of its columns


def allow(who: Who, action: Mapping[str, Any], judge: Judge) -> bool:
    """Whether an operation may go on. What nobody knows may not."""
    operation = str(action.get("operation", ""))
    resource = action.get("resource") or {}
    if operation in _FREE:
        return True
    if operation in _OWN_QUERIES:
        return bool((resource.get("user") or {}).get("user") == who.user)
    if operation == "ExecuteFunction":
        # A function of a governed catalog can read its tables past everything here.
        function = resource.get("function") or {}
        return judge.table(Table(str(function.get("catalogName", "")), "", ""), "READ") is None
    named = resource.get("table") or resource.get("view") or {}
    if named.get("schemaName") == _METADATA:
        return operation in _SELECTS  # a catalog's description of itself, which is filtered
    table = _table(named)
    if table is None:
        return operation in _WRITES or operation in _DELETES
    if operation in _SELECTS:
        return _selects(table, resource, judge)
    if operation == "CreateViewWithSelectFromColumns":
        return _selects(table, resource, judge) and not _masked(table, resource, judge)
    if operation in _WRITES:
        return not judge.denied(table, "WRITE")
    if operation in _DELETES:
        return not judge.denied(table, "DELETE")
    return False


def batch(who: Who, action: Mapping[str, Any], judge: Judge) -> list[int]:
    """Which of the listed resources may be seen, by their places."""
    operation = action.get("operation")
    resources: Sequence[Mapping[str, Any]] = action.get("filterResources") or ()
    if operation == "FilterColumns" and resources:
        listed = resources[0].get("table") or {}
        table, names = _table(listed), listed.get("columns") or ()
        if table is None:
            return []
        return [i for i, name in enumerate(names) if _reads(judge.column(table, str(name)))]
    return [
        i
        for i, resource in enumerate(resources)
        if allow(who, {"operation": operation, "resource": resource}, judge)
    ]


def row_filters(action: Mapping[str, Any], judge: Judge) -> list[dict[str, str]]:
    table = _table((action.get("resource") or {}).get("table") or {})
    found = judge.filters(table) if table is not None else ()
    return [{"expression": spoken(each, "trino")} for each in found]


def column_masks(action: Mapping[str, Any], judge: Judge) -> list[dict[str, Any]]:
    """A mask for each listed column that needs one, of the column's own type."""
    found: list[dict[str, Any]] = []
    for i, resource in enumerate(action.get("filterResources") or ()):
        column = resource.get("column") or {}
        table = _table(column)
        name = str(column.get("columnName", ""))
        decision = judge.column(table, name) if table is not None else None
        if decision is not None and decision.effect in ("mask", "deny"):
            expression = _expression(decision, name, column.get("columnType"))
            found.append({"index": i, "viewExpression": {"expression": expression}})
    return found


def _expression(decision: Decision, name: str, column_type: str | None) -> str:
    mask = fitted(decision.mask or Mask("null"), column_type)
    custom = mask.expressions.get("trino", "")
    rule = Rule("mask", mask.kind, mask.value, custom)
    if decision.effect == "deny" or (mask.kind == "custom" and not custom):
        rule = Rule("mask", "null")
    quoted = '"' + name.replace('"', '""') + '"'
    return masked(rule, quoted, column_type, "trino")


def _selects(table: Table, resource: Mapping[str, Any], judge: Judge) -> bool:
    if not _reads(judge.table(table, "READ")):
        return False
    names = (resource.get("table") or {}).get("columns") or ()
    return all(_reads(judge.column(table, str(name))) for name in names)


def _masked(table: Table, resource: Mapping[str, Any], judge: Judge) -> bool:
    names = (resource.get("table") or {}).get("columns") or ()
    decisions = [judge.column(table, str(name)) for name in names]
    return any(each is not None and each.effect == "mask" for each in decisions)


def _reads(decision: Decision | None) -> bool:
    return decision is None or decision.effect != "deny"


def _table(named: Mapping[str, Any]) -> Table | None:
    if "tableName" not in named or named.get("schemaName") == _METADATA:
        return None
    return Table(
        str(named.get("catalogName", "")), str(named.get("schemaName", "")), str(named["tableName"])
    )
