"""Plans for BigQuery: policy tags with data policies, set on columns by API calls."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from pydantic import Field

from lily.connectors.plans import Kept, Planner, Task
from lily.sdk.enforcers import Finding

EXPRESSIONS = {"hash": "SHA256", "year": "DATE_YEAR_MASK", "null": "ALWAYS_NULL",
               "constant": "DEFAULT_MASKING_VALUE"}  # fmt: skip
API = "https://bigquery.googleapis.com/bigquery/v2"
POLICIES = "https://bigquerydatapolicy.googleapis.com/v1"


class BigQuery(Planner):
    """Plans policy tags and row access for BigQuery; Lily itself changes nothing there."""

    class Options(Planner.Options):
        taxonomy: Annotated[
            str,
            Field(
                pattern=r"^projects/[^/]+/locations/[^/]+/taxonomies/[^/]+$",
                description="projects/P/locations/L/taxonomies/T, with fine-grained access on.",
            ),
        ]

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._taxonomy = options.taxonomy

    def plan(self, task: Task) -> tuple[list[str], list[Finding]]:
        plan: list[str] = []
        for one in {each.label: each for each in task.kept.values()}.values():
            plan += self._tag(one)
        fields = [
            {"name": column, "policyTags": {"names": [self._tag_name(one.label)]}}
            for column, one in task.kept.items()
        ]
        open_again = sorted({column for column, _ in task.gone} - task.kept.keys())
        fields += [{"name": column, "policyTags": {"names": []}} for column in open_again]
        if fields:
            # The whole schema is sent: these fields in it, with If-Match of what was read.
            project, dataset, table = task.place
            url = f"{API}/projects/{project}/datasets/{dataset}/tables/{table}"
            plan.append(_call("PATCH", url, {"schema": {"fields": fields}}))
        plan += [self._rows(task.place, task.filters)] if task.filters else []
        findings = [
            Finding("planned", f"{one.kind} is not there; {_instead(one)} is used", column)
            for column, one in task.kept.items()
            if one.kind != "deny" and one.kind not in EXPRESSIONS
        ]
        return plan, findings

    def _tag(self, one: Kept) -> list[str]:
        made = [_call("POST", f"{POLICIES.replace('bigquerydatapolicy', 'datacatalog')}"
                      f"/{self._taxonomy}/policyTags", {"displayName": one.label})]  # fmt: skip
        if one.exempt:
            binding = {"role": "roles/datacatalog.categoryFineGrainedReader",
                       "members": [f"group:{group}" for group in one.exempt]}  # fmt: skip
            made.append(
                _call("POST", f"https://datacatalog.googleapis.com/v1/"
                      f"{self._tag_name(one.label)}:setIamPolicy",
                      {"policy": {"bindings": [binding]}})
            )  # fmt: skip
        if one.kind != "deny":  # a tag without a data policy denies
            place = self._taxonomy.partition("/taxonomies/")[0]
            body = {"dataPolicyId": one.label, "dataPolicyType": "DATA_MASKING_POLICY",
                    "policyTag": self._tag_name(one.label),
                    "dataMaskingPolicy": {"predefinedExpression": _instead(one)}}  # fmt: skip
            made.append(_call("POST", f"{POLICIES}/{place}/dataPolicies", body))
        return made

    def _rows(self, place: Sequence[str], filters: Sequence[str]) -> str:
        condition = " AND ".join(f"({each})" for each in filters)
        return (
            f"CREATE OR REPLACE ROW ACCESS POLICY lily_rows ON `{'.'.join(place)}`"
            f' GRANT TO ("allAuthenticatedUsers") FILTER USING ({condition})'
        )

    def _tag_name(self, label: str) -> str:
        return f"{self._taxonomy}/policyTags/{label}"


def _instead(one: Kept) -> str:
    """The mask itself, or the next stricter one that there is."""
    return EXPRESSIONS.get(one.kind, "ALWAYS_NULL")


def _call(method: str, url: str, body: dict[str, Any]) -> str:
    return f"{method} {url} {msgspec.json.encode(body).decode()}"
