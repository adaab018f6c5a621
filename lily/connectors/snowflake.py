"""Plans for Snowflake: masking policies on tags, and tags on columns."""

from typing import Annotated

from pydantic import Field

from lily.connectors.plans import Kept, Planner, Task, null_for_denied, text, unfiltered
from lily.sdk.enforcers import Finding

# One policy per type and tag; a policy protects only where its type is the column's.
TYPES = ("STRING", "NUMBER", "FLOAT", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_TZ", "BOOLEAN",
         "VARIANT", "BINARY")  # fmt: skip


class Snowflake(Planner):
    """Plans masking policies for Snowflake; Lily itself changes nothing there."""

    class Options(Planner.Options):
        governance: Annotated[str, Field(description="Schema of tags and policies, DB.SCHEMA.")] = (
            "GOVERNANCE.LILY"
        )

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._schema = ".".join(map(_name, options.governance.split(".")))

    def plan(self, task: Task) -> tuple[list[str], list[Finding]]:
        table = ".".join(map(_name, task.place))
        plan: list[str] = []
        for one in {each.label: each for each in task.kept.values()}.values():
            plan += self._policies(one)
        for column, one in task.kept.items():
            plan.append(
                f"ALTER TABLE {table} MODIFY COLUMN {_name(column)}"
                f" SET TAG {self._schema}.{one.label} = 'true'"
            )
        for column, label in task.gone:
            plan.append(
                f"ALTER TABLE {table} MODIFY COLUMN {_name(column)}"
                f" UNSET TAG {self._schema}.{label}"
            )
        findings = unfiltered(
            task.filters, "write a row access policy, which needs the columns' types"
        )
        return plan, findings + null_for_denied(task)

    def _policies(self, one: Kept) -> list[str]:
        named = f"{self._schema}.{one.label}"
        made = [f"CREATE TAG IF NOT EXISTS {named}"]
        for kind in TYPES:
            made.append(
                f"CREATE MASKING POLICY IF NOT EXISTS {named}_{kind.lower()} AS (val {kind})"
                f" RETURNS {kind} -> {_body(one, kind)}"
            )
        bound = ", ".join(f"MASKING POLICY {named}_{kind.lower()}" for kind in TYPES)
        return [*made, f"ALTER TAG {named} SET {bound}"]


def _body(one: Kept, kind: str) -> str:
    if not one.exempt:
        return _masked(one, kind)
    roles = " OR ".join(f"IS_ROLE_IN_SESSION({text(role)})" for role in one.exempt)
    return f"CASE WHEN {roles} THEN val ELSE {_masked(one, kind)} END"


def _masked(one: Kept, kind: str) -> str:
    """What is shown instead; what a type cannot show is nothing."""
    if kind == "STRING":
        if one.kind == "hash":
            return "SHA2(val, 256)"
        if one.kind == "partial":
            return "LEFT(val, 1) || '***'"
        if one.kind == "constant":
            return text(one.value)
        if one.kind == "custom" and one.expression:
            return one.expression.replace("{column}", "val")
    if one.kind == "year" and kind in ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP_TZ"):
        return "DATE_TRUNC('YEAR', val)"
    return "NULL"


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
