"""Plans for Databricks Unity Catalog: mask functions, policies on tags, tags on columns."""

from typing import Annotated

from pydantic import Field

from lily.connectors.plans import Kept, Planner, Task, null_for_denied, text, unfiltered
from lily.sdk.enforcers import Finding


class Databricks(Planner):
    """Plans column masks for Unity Catalog; Lily itself changes nothing there."""

    class Options(Planner.Options):
        governance: Annotated[str, Field(description="Schema of the mask functions.")] = "lily"
        tag_function: Annotated[
            str, Field(description="How the runtime asks for a tag; older ones say hasTagValue.")
        ] = "has_tag_value"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._schema, self._asks = options.governance, options.tag_function

    def plan(self, task: Task) -> tuple[list[str], list[Finding]]:
        table, catalog = ".".join(map(_name, task.place)), _name(task.place[0])
        plan: list[str] = []
        for one in {each.label: each for each in task.kept.values()}.values():
            plan += self._policy(catalog, one)
        for column, one in task.kept.items():
            plan.append(
                f"ALTER TABLE {table} ALTER COLUMN {_name(column)}"
                f" SET TAGS ({text(one.label)} = 'true')"
            )
        for column, label in task.gone:
            plan.append(
                f"ALTER TABLE {table} ALTER COLUMN {_name(column)} UNSET TAGS ({text(label)})"
            )
        findings = unfiltered(
            task.filters, "write a row filter function, which needs columns' types"
        )
        return plan, findings + null_for_denied(task)

    def _policy(self, catalog: str, one: Kept) -> list[str]:
        function = f"{catalog}.{_name(self._schema)}.{_name(one.label)}"
        exempt = f" EXCEPT {', '.join(map(_name, one.exempt))}" if one.exempt else ""
        return [
            f"CREATE FUNCTION IF NOT EXISTS {function}(val STRING) RETURNS STRING"
            f" RETURN {_masked(one)}",
            f"CREATE OR REPLACE POLICY {one.label} ON CATALOG {catalog} COLUMN MASK {function}"
            f" TO `account users`{exempt} FOR TABLES"
            f" MATCH COLUMNS {self._asks}({text(one.label)}, 'true') AS c ON COLUMN c",
        ]


def _masked(one: Kept) -> str:
    if one.kind == "hash":
        return "sha2(val, 256)"
    if one.kind == "partial":
        return "concat(left(val, 1), '***')"
    if one.kind == "year":
        return "cast(trunc(cast(val AS DATE), 'YEAR') AS STRING)"
    if one.kind == "constant":
        return text(one.value)
    if one.kind == "custom" and one.expression:
        return one.expression.replace("{column}", "val")
    return "CAST(NULL AS STRING)"


def _name(identifier: str) -> str:
    return "`" + identifier.replace("`", "``") + "`"
